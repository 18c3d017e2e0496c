"""What the methods of a model return, checked once, when memory is planned."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError

from ..matcache import ShapeError
from ..matcache.lazy import Lazy, Transposed
from ..models import Model
from ..models.score import Score
from ..optimizers import CombinationError, Gradient, GradientSum, Optimizer, RowGradients


def check_fields(model: Model) -> None:
    """Raises TypeError for a field that cannot be saved: before the training, not after it."""
    try:
        model.model_dump(mode="json")
    except PydanticSerializationError as error:
        for name, value in model:
            try:
                model.model_dump(mode="json", include={name})
            except PydanticSerializationError:
                raise TypeError(
                    f"{type(model).__name__}: the field {name!r} is a {type(value).__name__}, "
                    "which cannot be saved. Fields are numbers, texts and lists; arrays are "
                    "parameters; what need not be saved is a Field(..., exclude=True)."
                ) from error
        raise


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
    """Raises TypeError unless `found` is a dense matrix, ShapeError unless it has a row for each of
    the `rows` of a block.
    """
    name = f"{type(model).__name__}.predict"
    sparse = getattr(found, "pattern", None) is not None
    if sparse or not hasattr(found, "shape") or not hasattr(found, "numpy"):
        raise TypeError(
            f"{name} returns {'a sparse matrix' if sparse else type(found).__name__}, but it is a "
            "dense matrix of the cache with a row for each row of block.X."
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


def check_update_shapes(model: Model) -> None:
    """Raises ShapeError for an update of no parameter or of another shape than its parameter, and
    TypeError for one that is no matrix of the cache.
    """
    for name, update in model.updates.items():
        title = f"{type(model).__name__}.update: updates[{name!r}]"
        if name not in model.parameters:
            raise ShapeError(
                f"{title}, but the parameters are "
                f"{', '.join(map(repr, model.parameters)) or 'none'}."
            )
        if isinstance(update, RowGradients):
            continue
        wanted = model.parameters[name].shape
        if isinstance(update, Gradient | GradientSum):
            found = (1 if update.X is None else update.X.shape[1], update.R.shape[1])
        elif isinstance(update, Lazy | Transposed):
            found = update.shape
        else:
            raise TypeError(
                f"{title} is a {type(update).__name__}, but it is an expression of matrices of the "
                "cache; functions come from blocklearn.matcache, and NumPy arrays are taken into "
                "it once, in allocate: self.parameter(name, rows, columns, array)."
            )
        if found != wanted:
            raise ShapeError(
                f"{title} is {found[0]:,} x {found[1]:,}, but {name} is {wanted[0]:,} x "
                f"{wanted[1]:,}."
            )
