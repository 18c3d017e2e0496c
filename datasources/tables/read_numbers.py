"""Reads columns of numbers of a batch of rows as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..memory.batches import Masked, numbers


def read_numbers(
    batch: Any,
    names: Sequence[str],
    path: str,
    row: int,
    nulls: str,
    scaling: Mapping[str, tuple[float, float]] | None = None,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return columns as a float32 table [rows, names].

    - batch: an Arrow table or record batch.
    - path: of the file, for messages.
    - row: number of the first row.
    - nulls: "error", or "zero".
    - scaling: mean and deviation by column; missing values become 0, the mean.

    Raises `DataError` for a missing value, or one that is no finite float32.
    """
    table = np.empty((batch.num_rows, len(names)), np.float32)
    for i, name in enumerate(names):
        what = f"{path}: column {name!r}"
        column = numbers(batch[name], what)
        if nulls == "error":
            check_complete(column, row, what, hint=scaling is not None)
        values = column.data
        if scaling:
            mean, deviation = scaling[name]
            values = np.where(np.ma.getmaskarray(column), 0.0, (values - mean) / deviation)
        with np.errstate(over="ignore"):
            table[:, i] = values
        bad = np.flatnonzero(~np.isfinite(table[:, i]))
        if bad.size:
            raise DataError(
                f"{what}: row {row + bad[0]} is {column.data[bad[0]]}, but every number must be a "
                "finite float32; clean or rescale the data."
            )
    return table


def check_complete(column: Masked, row: int, what: str, *, hint: bool) -> None:
    """Raise `DataError` if a value is missing; row: number of the first row."""
    missing = np.flatnonzero(np.ma.getmaskarray(column))
    if missing.size:
        remedy = "set `nulls: zero`, or leave such rows out" if hint else "leave such rows out"
        raise DataError(f"{what}: row {row + missing[0]} is empty; {remedy}.")
