"""Check a model, and the results of its methods, once, when memory is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from numbers import Integral
from typing import Any, cast

from pydantic_core import PydanticSerializationError

from blocklearn.datasources import DataSource, Ids, row_names
from blocklearn.matcache import ShapeError
from blocklearn.matcache.containers.lazy import Lazy, Transposed
from blocklearn.matcache.containers.local import columns_of_data
from blocklearn.matcache.containers.recording import Recording, difference
from blocklearn.mixins import Mixin
from blocklearn.models import Model
from blocklearn.models.errors import UpdateError
from blocklearn.models.score import Score, Sum
from blocklearn.optimizers import (
    Gradient,
    LinearLoss,
    SparseEstimate,
)

MOST_PASSES = 2**31 - 1
"""Of a run; random numbers are drawn for each of so many, and for one that no training reaches."""


def check_passes(value: object) -> None:
    """Raise ValueError unless `passes` of a `Learner` is a whole number, 1 to `MOST_PASSES`."""
    check_whole("passes", value)
    passes = int(cast(int, value))
    if passes > MOST_PASSES:
        raise ValueError(f"Learner: passes={passes:,}: must be at most {MOST_PASSES:,}.")


def check_whole(name: str, value: object, least: int = 1, remedy: str = "") -> None:
    """Raise ValueError unless a setting of a `Learner` is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"Learner: {name}={value!r}: must be a whole number, and at least {least}.{remedy}"
        )


def check_block_rows(value: object) -> None:
    """Raise ValueError unless `block_rows` of a `Learner` is a number, or "auto"."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"Learner: block_rows={value!r}: must be a number, or 'auto'.")
    if value != "auto":
        check_whole("block_rows", value)


def check_hooks(hooks: Sequence[object]) -> None:
    """Raise TypeError for a hook without the methods of `Hook`, such as a function."""
    for hook in hooks:
        if isinstance(hook, type) or not hasattr(hook, "pass_end"):
            raise TypeError(
                f"Learner: hooks={hook!r}: must be objects of a subclass of blocklearn.Hook. "
                "Write a class with the events of interest, such as def pass_end(self, learner, "
                "progress), and give hooks=[YourClass()]."
            )


def check_fields(model: Model) -> None:
    """Raise TypeError for a field that cannot be saved, before any training."""
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


def check_rows(
    model: Model, rows: int, names: Sequence[str] | None, source: DataSource, what: str
) -> None:
    """Raise ShapeError unless `source` has the rows whose state `model` keeps.

    rows, names: number and names of the rows that the model was trained on.
    what: the use of the data, for the message.
    """
    if model.scores_new_rows or 0 not in model.row_states.values():
        return
    count, others = source.shape.total_rows, row_names(source)
    if count != rows or not (names is None or others is None or Ids(names) == Ids(others)):
        found = f"{count:,} rows" if count != rows else "rows with other names"
        raise ShapeError(
            f"{what}: data of {found}, but {type(model).__name__} was trained on {rows:,} rows, "
            "and is scored by further entries of the same rows, in the same order. Pass a file of "
            "ratings (kind: ratings), whose ids put it in order, hold out entries of one (by: "
            "entries), or evaluate nothing (data.eval: null)."
        )


TAKEN = frozenset(
    "allocations_after_warmup batch cache_bytes checkpoint checkpoint_bytes checkpoint_s compute_s"
    " copy_s device_bytes disk_read_bytes disk_written_bytes event gb_per_s gflops host_bytes lost"
    " merge_s model page_waits pass passes phase queue read_s rows rows_per_s run seconds steps"
    " table_page_hits table_pages table_wait_s ts".split()
)
"""Names that `metrics.json` and the events of a run have for other numbers."""


def check_score(model: Model, score: Any) -> None:
    """Raise TypeError unless `score` is a dictionary of sums by name.

    Raises ShapeError for a sum that is a matrix, and ValueError for a name that is taken.
    """
    if isinstance(score, Mapping) and all(hasattr(part, "read") for part in score.values()):
        for name, part in score.items():
            _check_part(f"{type(model).__name__}.score: {name!r}", name, part)
        return
    found = type(score).__name__
    if isinstance(score, Mapping):
        name, part = next((name, p) for name, p in score.items() if not hasattr(p, "read"))
        found = f"{{{name!r}: {type(part).__name__}}}"
    raise TypeError(
        f"{type(model).__name__}.score returns {found}, but must return sums over rows by name, "
        "such as {'loss': bl.Sum(total(losses), block.weight)}. The learner adds them up over "
        "blocks."
    )


def _check_part(title: str, name: object, part: Any) -> None:
    if not isinstance(name, str) or name in TAKEN:
        rule = "is written beside scores" if name in TAKEN else "must be a text"
        raise ValueError(f"{title}: {rule}. Give the score another name, such as 'loss'.")
    if isinstance(part, Sum):
        for field, number in vars(part).items():
            if isinstance(number, int | float):  # one of a block stays a formula
                continue
            if (shape := getattr(number, "shape", (1, 1))) not in ((), (1, 1)):
                raise ShapeError(
                    f"{title}: {field} is {shape[0]:,} x {shape[-1]:,}; must be one number. Add up "
                    "the rows: total(...)."
                )


def checked_scores(mixin: Mixin) -> dict[str, Any]:
    """Return the scores of a mixin. Raises TypeError unless they are matrices 1 x 1 by name."""
    scores: Any = mixin.scores()
    for name, value in scores.items() if isinstance(scores, Mapping) else [("", scores)]:
        shape = getattr(value, "shape", None) if hasattr(value, "mat") else None
        if shape != (1, 1):
            found = type(value).__name__ if shape is None else f"{shape[0]:,} x {shape[1]:,}"
            raise TypeError(
                f"{type(mixin).__name__}.scores returns {f'{name!r}: ' if name else ''}{found}, "
                "but must return numbers of the cache by name, such as {'norm': total(W * W)}."
            )
    return dict(scores)


def computed(score: Score) -> Score:
    """Return a score with Mats in place of its expressions. A cache plans room for these."""
    found: Score = {}
    for name, part in score.items():
        found[name] = each = copy(part)
        for field, number in vars(each).items():
            if isinstance(number, Lazy):
                vars(each)[field] = number.mat()
    return found


def check_prediction(model: Model, found: Any, rows: int) -> None:
    """Raise an error unless `found` is a dense matrix with `rows` rows.

    Raises TypeError for other types, ShapeError for another number of rows.
    """
    name = f"{type(model).__name__}.predict"
    sparse = getattr(found, "pattern", None) is not None
    if sparse or not hasattr(found, "shape") or not hasattr(found, "numpy"):
        raise TypeError(
            f"{name} returns {'a sparse matrix' if sparse else type(found).__name__}, but must "
            "return a dense matrix of the cache, with a row for each row of block.X."
        )
    if found.shape[0] != rows:
        raise ShapeError(
            f"{name} returns {found.shape[0]:,} x {found.shape[1]:,}, but block.X has {rows:,} "
            "rows. Return a row for each of them."
        )


def check_repeats(model: Model, first: Recording, second: Recording) -> None:
    """Raise UpdateError if two runs of `update` on one block differ.

    Recordings are made with `model.cache.recorded(recording)` around each run.
    """
    found = difference(first, second)
    if found is not None:
        raise UpdateError(
            f"{type(model).__name__}.update: must be the same each time it runs on a block; {found}"
            ". Memory is planned by running it, and no checkpoint holds what Python counts or "
            "draws. Count in a parameter (self.steps <<= self.steps + 1.0), and draw with "
            "random(self.cache, shape, block.key)."
        )


def check_linear_loss(model: Model, title: str, update: LinearLoss, targets: int) -> None:
    """Raise ShapeError for a bias that is no parameter with a number for each target."""
    if update.bias is None:
        return
    bias = model.parameters.get(update.bias)
    if bias is None or bias.shape != (1, targets):
        found = "no parameter" if bias is None else f"{bias.shape[0]:,} x {bias.shape[1]:,}"
        raise ShapeError(
            f"{title}: bias={update.bias!r} is {found}; must be a parameter 1 x {targets:,}, one "
            "number for each column of W. Make it in allocate, or leave bias out."
        )


def check_update_shapes(model: Model) -> None:
    """Raise an error for an update that does not fit its parameter.

    Raises ShapeError if the parameter does not exist or has another shape, TypeError for an update
    that is no matrix of the cache.
    """
    for name, update in model.updates.items():
        title = f"{type(model).__name__}.update: updates[{name!r}]"
        if name not in model.parameters:
            raise ShapeError(
                f"{title}, but the parameters are "
                f"{', '.join(map(repr, model.parameters)) or 'none'}."
            )
        wanted = model.parameters[name].shape
        if isinstance(update, LinearLoss):
            check_linear_loss(model, title, update, wanted[1])
            found = (update.block.X.shape[1], wanted[1])
        elif isinstance(update, Gradient):
            found = (update.X.shape[1], update.R.shape[1])
        elif isinstance(update, SparseEstimate):
            found = (columns_of_data(update.X.pattern), update.W.shape[1])
        elif isinstance(update, Lazy | Transposed):
            found = update.shape
        else:
            raise TypeError(
                f"{title} is a {type(update).__name__}, but must be an expression of matrices of "
                "the cache. Use functions of blocklearn.matcache; bring NumPy arrays in once, in "
                "allocate: self.parameter(name, rows, columns, array)."
            )
        if found != wanted:
            raise ShapeError(
                f"{title} is {found[0]:,} x {found[1]:,}, but {name} is {wanted[0]:,} x "
                f"{wanted[1]:,}."
            )
