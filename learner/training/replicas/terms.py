"""Hand the terms of mixins to what applies them: the optimizer, or the model itself."""

from __future__ import annotations

from collections.abc import Sequence

from blocklearn.mixins import Mixin
from blocklearn.models import Model
from blocklearn.optimizers import CombinationError, Optimizer, Term


def terms_of(
    model: Model, optimizer: Optimizer | None, mixins: Sequence[Mixin]
) -> dict[str, list[Term]]:
    """Attach the mixins, and return the optimizer's terms of the objective by parameter.

    Terms on tables that the model multiplies go into `model.split_terms`.

    Raises CombinationError for an unknown parameter, and for a mixin that would do nothing.
    """
    found: dict[str, list[Term]] = {name: list(terms) for name, terms in model.terms.items()}
    for mixin in mixins:
        names = _names_for(model, mixin)
        for name in names:
            if name in model.takes_terms and mixin.acts:
                _check_split(model, optimizer, mixin, name)
                model.split_terms.setdefault(name, []).append(mixin)
            elif mixin.acts:
                _check_step(model, optimizer, mixin, name)
                found.setdefault(name, []).append(mixin)
        mixin.attach(model.cache, {name: model.parameters[name] for name in names})
    return found


def _names_for(model: Model, mixin: Mixin) -> Sequence[str]:
    """Return the parameters that a mixin is for.

    Those are the ones that it names, or the model; a report is of all tables otherwise.

    Raises CombinationError for none, and for an unknown one.
    """
    known = ", ".join(model.parameters) or "none"
    names, said = mixin.parameters, "parameters names"
    if names is None:
        said = f"penalised or takes_terms of {type(model).__name__} names"
        tables = [name for name, mat in model.parameters.items() if mat.shape[0] > 1]
        names = [*model.penalised] or [*model.takes_terms] or ([] if mixin.acts else tables)
    title = type(model).__name__
    if not names:
        raise CombinationError(
            f"{mixin.kind}: {title} does not say what it should act on. Set its `parameters`; "
            f"{title} has {known}."
        )
    for name in names:
        if name not in model.parameters:
            raise CombinationError(f"{mixin.kind}: {said} {name!r}; {title} has {known}.")
    return names


def _check_split(model: Model, optimizer: Optimizer | None, mixin: Mixin, name: str) -> None:
    """Raise CombinationError for a term that cannot be part of a multiplication."""
    if not mixin.splits:
        raise CombinationError(
            f"{mixin.kind} on {name!r}: must have `slopes`, as cosine-similarity has, because "
            f"{type(model).__name__} updates this table by multiplication. Leave the mixin out, "
            "set its weight to 0 to report it only, or use a field of the model that does the same."
        )
    if optimizer is not None and optimizer.normalises:
        raise CombinationError(
            f"{mixin.kind} on {name!r}: its weight is in units of counts, but "
            f"{getattr(optimizer, 'kind', type(optimizer).__name__)} makes columns sum to 1. Use "
            "streaming-average or telescoping."
        )


def _check_step(model: Model, optimizer: Optimizer | None, mixin: Mixin, name: str) -> None:
    """Raise CombinationError for a term that has no step to join."""
    if optimizer is None:
        raise CombinationError(
            f"{mixin.kind} on {name!r}: {type(model).__name__} assigns its parameters itself, so "
            "no step of an optimizer can add the term. Leave the mixin out, or set its weight to 0 "
            "to report it only."
        )
