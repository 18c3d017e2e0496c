"""What the methods of a model return, checked once, when memory is planned."""

from collections.abc import Mapping
from typing import Any

from ..matcache import ShapeError
from ..matcache.lazy import Lazy
from ..models import Model
from ..models.score import Score
from ..optimizers import CombinationError, Optimizer


def check_score(model: Model, score: Any) -> None:
    """Raises TypeError unless `score` is a dictionary of sums by name."""
    if isinstance(score, Mapping) and all(hasattr(part, "read") for part in score.values()):
        return
    found = type(score).__name__
    if isinstance(score, Mapping):
        name, part = next((name, p) for name, p in score.items() if not hasattr(p, "read"))
        found = f"{{{name!r}: {type(part).__name__}}}"
    raise TypeError(
        f"{type(model).__name__}.score returns {found}, but it is sums over rows by name, such as "
        "{'loss': bl.Sum(total(losses), block.weight)}: the learner adds them up over blocks."
    )


def compute(score: Score) -> None:
    """Have the cache make room for sums that are expressions: they will be read."""
    for part in score.values():
        for number in vars(part).values():
            if isinstance(number, Lazy):
                number.mat()


def check_prediction(model: Model, found: Any, rows: int) -> None:
    """Raises TypeError unless `found` is a matrix, ShapeError unless it has a row for each of the
    `rows` of a block.
    """
    name = f"{type(model).__name__}.predict"
    if not hasattr(found, "shape") or not hasattr(found, "numpy"):
        raise TypeError(
            f"{name} returns {type(found).__name__}, but it is a matrix of the cache with a row "
            "for each row of block.X."
        )
    if found.shape[0] != rows:
        raise ShapeError(
            f"{name} returns {found.shape[0]:,} x {found.shape[1]:,}, but block.X has {rows:,} "
            "rows, and a prediction has one for each of them."
        )


def check_updates(model: Model, optimizer: Optimizer | None, filled: bool) -> None:
    """Raises CombinationError if there is an optimizer, and `update` never has work for it."""
    if optimizer is not None and not filled:
        raise CombinationError(
            f"{type(model).__name__}.update fills no self.updates, so the optimizer "
            f"({type(optimizer).__name__}) would do nothing. Leave it out, or let update() hand "
            "over self.updates[name] where it assigns the parameter."
        )
