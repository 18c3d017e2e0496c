"""What becomes of rows that have nulls."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrays import Fault, null_rows

Nulls = Literal["error", "zero", "drop_row"]


def without_nulls(
    batch: Any, names: Sequence[str], nulls: Nulls
) -> tuple[Any, npt.NDArray[np.int64] | None]:
    """The batch as it is to be used, and which rows of the one given are left, None if all.

    names: columns that count. Raises `Fault` where `nulls` is "error" and one is there.
    """
    if nulls == "zero":
        return batch, None  # they are read as 0
    dropped = None
    for name in names:
        found = null_rows(batch.column(name))
        if found is None:
            continue
        if nulls == "error":
            raise Fault(
                int(found.argmax()),
                f"column {name!r} is null; `nulls: zero` reads nulls as 0, `nulls: drop_row` "
                "leaves such rows out.",
            )
        dropped = found if dropped is None else dropped | found
    if dropped is None:
        return batch, None
    left = np.flatnonzero(~dropped)
    return batch.take(pa.array(left)), left
