"""Which parameters mixins act on, and whether model, optimizer and mixins go together."""

from __future__ import annotations

from collections.abc import Sequence

from ..mixins import Mixin
from ..models import Model
from ..optimizers import CombinationError, Optimizer, Term


def check_meaning(model: Model, optimizer: Optimizer | None) -> None:
    """Raise CombinationError where the optimizer takes the model's updates for something else."""
    if optimizer is None or model.meaning is None or model.meaning == optimizer.meaning:
        return
    kind = str(getattr(optimizer, "kind", type(optimizer).__name__))
    default = model.default_optimizer()
    use = "" if default is None else f" Use {getattr(default, 'kind', type(default).__name__)}."
    raise CombinationError(
        f"{kind} takes updates as {optimizer.meaning}, but those of {type(model).__name__} are "
        f"{model.meaning}.{use}"
    )


def terms_of(
    model: Model, optimizer: Optimizer | None, mixins: Sequence[Mixin]
) -> dict[str, list[Term]]:
    """The terms of the objective by parameter; every mixin is told the parameters that it is for.

    Raises CombinationError for a parameter that is not there, and a mixin that would do nothing.
    """
    found: dict[str, list[Term]] = {name: list(terms) for name, terms in model.terms.items()}
    title = type(model).__name__
    for mixin in mixins:
        names = mixin.parameters if mixin.parameters is not None else model.penalised
        if mixin.parameters is None and not names and not mixin.acts:
            names = [name for name, mat in model.parameters.items() if mat.shape[0] > 1]
        known = ", ".join(model.parameters) or "none"
        if not names:
            raise CombinationError(
                f"{mixin.kind}: {title} does not say what it should act on. Set its `parameters`; "
                f"{title} has {known}."
            )
        for name in names:
            if name not in model.parameters:
                raise CombinationError(
                    f"{mixin.kind}: parameters names {name!r}; {title} has {known}."
                )
            if mixin.acts and optimizer is None:
                raise CombinationError(
                    f"{mixin.kind} on {name!r}: {title} assigns its parameters itself, so there is "
                    "no step that a term could join. Leave it out, or set its weight to 0 to have "
                    "it reported only."
                )
            if mixin.acts:
                found.setdefault(name, []).append(mixin)
        mixin.attach(model.cache, {name: model.parameters[name] for name in names})
    return found
