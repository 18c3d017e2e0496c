"""Check that an optimizer fits a model and its data, and that its step changes something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blocklearn.answers import shown
from blocklearn.datasources import DataSource
from blocklearn.datasources.source import rows_last
from blocklearn.models import Model
from blocklearn.optimizers import (
    CombinationError,
    GradientOptimizer,
    Optimizer,
    StatisticsOptimizer,
)


def check_optimizer(model: Model, found: object) -> None:
    """Raise TypeError unless what a model names as its default optimizer is one, or None."""
    if found is not None and not isinstance(found, Optimizer):
        raise TypeError(
            f"{type(model).__name__}.default_optimizer returns {shown(found)}: must be an "
            "optimizer, such as blocklearn.optimizers.Adam(rate=0.01), or None."
        )


def check_updates(model: Model, optimizer: Optimizer | None, filled: bool) -> None:
    """Raise CombinationError if `update` never has work for the optimizer."""
    if optimizer is not None and not filled:
        raise CombinationError(
            f"{type(model).__name__}.update fills no self.updates, so the optimizer "
            f"({type(optimizer).__name__}) would do nothing. Leave it out, or let update() hand "
            "over self.updates[name] where it assigns the parameter."
        )


def check_kept_rows(
    optimizer: Optimizer | None, sources: Sequence[DataSource], replicas: int
) -> None:
    """Raise CombinationError if an optimizer cannot keep numbers for each row of the data.

    sources: the training data, in each orientation. replicas: of all workers.
    """
    if optimizer is None or not optimizer.keeps_rows:
        return
    kind = _kind(optimizer)
    why = None
    if replicas > 1:
        why = f"there are {replicas} replicas, whose weights would not fit them. Use one"
    elif any(not rows_last(source) for source in sources):
        why = "each pass of a stream may have other rows. Store them, or use adagrad"
    if why is not None:
        raise CombinationError(f"{kind} keeps numbers for each row of the data, and {why}.")


def check_meaning(model: Model, optimizer: Optimizer | None) -> None:
    """Raise CombinationError if model and optimizer differ on what updates mean."""
    if optimizer is None:
        return
    kind = _kind(optimizer)
    if optimizer.normalises and model.needs_scale is not None:
        raise CombinationError(
            f"optimizer={kind}: makes the columns of a parameter sum to 1, but "
            f"{type(model).__name__} with {model.needs_scale}."
        )
    if model.meaning is None or model.meaning == optimizer.meaning:
        return
    raise CombinationError(
        f"{kind} takes updates as {optimizer.meaning}, but those of {type(model).__name__} are "
        f"{model.meaning}.{_remedy(model)}"
    )


def check_start(model: Model, optimizer: Optimizer | None) -> None:
    """Raise CombinationError if an optimizer begins where a model would learn too little."""
    if optimizer is None or not (optimizer.starts_at_zero and model.stays_at_zero):
        return
    raise CombinationError(
        f"optimizer={_kind(optimizer)}: begins with parameters of 0, and {type(model).__name__} "
        f"has some whose gradients are 0 there: they would stay 0.{_remedy(model)}"
    )


def _kind(optimizer: Optimizer) -> str:
    return str(getattr(optimizer, "kind", type(optimizer).__name__))


def _remedy(model: Model) -> str:
    default = model.default_optimizer()
    return "" if default is None else f" Use {_kind(default)}."


def versions(optimizer: Optimizer | None) -> dict[str, int]:
    """Return how often each parameter and each Mat of the state was written to, by name."""
    if optimizer is None:
        return {}
    mats = {**optimizer.parameters, **optimizer.state}
    return {name: mat.slot.version for name, mat in mats.items()}


def check_step(model: Model, optimizer: Optimizer | None, before: Mapping[str, int]) -> None:
    """Raise CombinationError if a step has left everything, or a slot, as it was.

    before: `versions` before the step. An optimizer of no family may only look at updates.
    """
    if optimizer is None or optimizer.steps_by_pass or not model.updates:
        return
    now, title = versions(optimizer), type(optimizer).__name__
    if now == before and isinstance(optimizer, StatisticsOptimizer | GradientOptimizer):
        raise CombinationError(
            f"{title}.step: changes no parameter and no state. Write w <<= value: w = value only "
            "binds the name."
        )
    for slot in optimizer.slots() if isinstance(optimizer, GradientOptimizer) else ():
        own = [f"{name}.{slot}" for name in model.updates if f"{name}.{slot}" in before]
        if own and all(before[name] == now[name] for name in own):
            raise CombinationError(
                f"{title}.direction: leaves the slot {slot!r} as it is. Write {slot} <<= value: "
                f"{slot} = value only binds the name."
            )
