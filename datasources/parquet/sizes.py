"""Find the sizes of blocks before the first one is read.

Footers are used where they have the numbers; otherwise the columns in question are read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .arrays import Fault, integers, lists_of, null_rows
from .block_order import Cut
from .columns import Columns
from .cursor import Cursor, Piece
from .files import RowGroup, Table
from .matching import matching

TIGHT = 1.5  # count the non-zeros if the bound for a block exceeds this times their mean


@dataclass(eq=False)
class Survey:
    """Sizes of the data.

    nnz: non-zeros of each block, at most, without those of dense columns.
    longest: the most entries in a list of one row, and the place of this row; (0, "") if unknown.
    sizes: the largest index plus 1, by column of sparse features.
    nulls: rows with a null, by column.
    matched: rows of each block that satisfy all conditions.
    kept: those of them without a null.
    read: the columns that were read for this.
    """

    nnz: npt.NDArray[np.int64]
    longest: tuple[int, str]
    sizes: dict[str, int]
    nulls: dict[str, int]
    matched: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    read: list[str]


def survey(
    tables: Sequence[Table], columns: Columns, cut: Cut, *, count_nulls: bool, batch_rows: int
) -> Survey:
    """Find all sizes. Raises `DataError` for data that cannot be read."""
    groups = [group for table in tables for group in table.groups if group.rows]
    indices = [part.indices for part in columns.sparse]
    lists = [name for name in indices if any(name in table.lists for table in tables)]
    rows = cut.stops - cut.starts
    bound = sum((bound_of(name, tables, cut) for name in lists), np.zeros(cut.blocks, np.int64))
    total = sum(group.extents[name].values for group in groups for name in lists)
    counted = [] if bound.max() * cut.blocks <= TIGHT * total else lists
    in_lists = np.zeros_like(bound) if counted else bound
    nnz = (len(indices) - len(lists)) * rows + in_lists
    found = Survey(nnz, (0, ""), {}, {}, rows.copy(), rows.copy(), [])
    sized = []
    for part in columns.sparse:
        largest = [group.extents[part.indices].largest for group in groups]
        known = [number for number in largest if number is not None]
        if part.size is None and len(known) < len(largest):
            sized.append(part.indices)
        elif part.size is None:
            found.sizes[part.indices] = 1 + max(known)
    suspects = [name for name in columns.numbers if count_nulls and may_be_null(name, groups)]
    found.read = list(dict.fromkeys([*counted, *sized, *suspects]))
    found.nulls.update(dict.fromkeys(suspects, 0))
    needed = list(dict.fromkeys([*found.read, *columns.tested]))
    if needed:
        count(found, Cursor(tables, needed, batch_rows), cut, counted, sized, suspects)
    for name, size in found.sizes.items():
        if size < 1:
            raise DataError(f"{tables[0].name}: column {name!r} has no index; set its size.")
    return found


def bound_of(name: str, tables: Sequence[Table], cut: Cut) -> npt.NDArray[np.int64]:
    """Return an upper bound of the indices in a column of lists, for each block.

    The bound is the number of indices in the row groups that the block overlaps.
    """
    groups = [group for table in tables for group in table.groups]
    ends = np.cumsum([group.rows for group in groups])
    values = np.cumsum([0] + [group.extents[name].values for group in groups])
    first = np.searchsorted(ends, cut.starts, side="right")
    last = np.searchsorted(ends, cut.stops - 1, side="right")
    bound: npt.NDArray[np.int64] = values[last + 1] - values[first]
    return bound


def may_be_null(name: str, groups: Sequence[RowGroup]) -> bool:
    """Return whether footers allow for nulls; they count empty lists as nulls."""
    return any(group.extents[name].nulls != 0 for group in groups)


def count(
    found: Survey,
    cursor: Cursor,
    cut: Cut,
    counted: Sequence[str],
    sized: Sequence[str],
    suspects: Sequence[str],
) -> None:
    """Read all rows once, and find the sizes that the footers do not have."""
    try:
        for block, (start, stop) in enumerate(zip(cut.starts, cut.stops, strict=True)):
            for piece in cursor.pieces(int(start), int(stop)):
                for name in counted:
                    count_entries(found, block, piece, name)
                for name in sized:
                    size = size_of(piece, name)
                    found.sizes[name] = max(found.sizes.get(name, 0), size)
                batch, left = matching(piece.table.tests, piece.batch)
                dropped = 0 if left is None else piece.batch.num_rows - left.size
                found.matched[block] -= dropped
                found.kept[block] -= dropped + count_nulls_of(found, batch, suspects)
    finally:
        cursor.close()


def count_entries(found: Survey, block: int, piece: Piece, name: str) -> None:
    """Add the entries of a piece to its block, and update the longest row."""
    lengths = np.diff(lists_of(piece.batch.column(name)).offsets)
    found.nnz[block] += int(lengths.sum())
    row = int(lengths.argmax())
    if lengths[row] > found.longest[0]:
        found.longest = int(lengths[row]), piece.place(row)


def size_of(piece: Piece, name: str) -> int:
    """Return the largest index of a piece plus 1."""
    try:
        indices = integers(name, lists_of(piece.batch.column(name)))
    except Fault as fault:
        raise DataError(f"{piece.place(fault.row)}: {fault.text}") from fault
    return 1 + int(indices.max()) if indices.size else 0


def count_nulls_of(found: Survey, batch: Any, suspects: Sequence[str]) -> int:
    """Count the rows with a null in each column. Return how many rows have any null."""
    union = np.zeros(batch.num_rows, np.bool_)
    for name in suspects:
        nulls = null_rows(batch.column(name))
        if nulls is not None:
            found.nulls[name] += int(nulls.sum())
            union |= nulls
    return int(union.sum())
