"""Write rows of a table into a block."""

from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.cpu.kernels.sort_row import tidy_row

from ..arrays.compiled import kernel
from ..arrays.validate import check_weights
from ..block import HostBlock
from ..errors import DataError
from .arrays import Fault, entries_of, floats, lists_of, table_of
from .columns import Columns, Dense


class Filler:
    """Writes batches of a table into blocks.

    columns: the columns of the blocks, with known widths and sizes.
    rows: rows of a block, at most.
    """

    def __init__(self, columns: Columns, rows: int) -> None:
        self._columns, self._starts = columns, columns.starts
        self._ends = np.empty(rows, np.int64)  # where the next entry of each new row goes

    def fill(self, batch: Any, into: HostBlock, row: int) -> None:
        """Write the n rows of `batch` to the block's rows from `row` on.

        The caller must still call `finish`. Raises `Fault` for an unusable row, and `DataError`
        if the block is full.
        """
        columns, count = self._columns, batch.num_rows
        if columns.sparse:
            self._sparse(batch, into, row)
        else:
            put_tables(columns.dense, batch, into.dense[row : row + count])
        put_tables(columns.targets, batch, into.targets[row : row + count])
        if columns.weights is not None:
            into.weights[row : row + count] = weights_of(columns.weights, batch)

    def _sparse(self, batch: Any, into: HostBlock, row: int) -> None:
        columns, count = self._columns, batch.num_rows
        parts = [entries_of(part, batch) for part in columns.sparse]
        ends = self._ends[:count]
        ends[:] = self._starts[len(columns.dense)]  # every row has a value in each dense column
        for part in parts:
            ends += np.diff(part.offsets)
        offsets = into.indptr[row : row + count + 1]
        if row == 0:
            offsets[0] = 0
        make_room(offsets, ends)
        if offsets[-1] > into.indices.size:
            raise DataError(
                f"a block has {offsets[-1]:,} non-zeros or more, but {into.indices.size:,} were "
                "counted when the source was opened; the data have changed, so open it again"
            )
        for place, dense in enumerate(columns.dense):
            table = table_of(dense, batch.column(dense.column))
            put_table(table, self._starts[place], ends, into.indices, into.values)
        for place, (feature, part) in enumerate(
            zip(columns.sparse, parts, strict=True), start=len(columns.dense)
        ):
            size = feature.size or 0
            bad = put_entries(*part, self._starts[place], size, ends, into.indices, into.values)
            if bad >= 0:
                raise Fault(
                    int(np.searchsorted(part.offsets, bad, side="right")) - 1,
                    f"column {feature.indices!r} has the index {part.indices[bad]}; indices must "
                    f"be 0 to {size - 1}.",
                )
        tidy(offsets, ends, into.indices, into.values)


def weights_of(name: str, batch: Any) -> npt.NDArray[np.float32]:
    """Return the weights in a column.

    Raises `Fault` for a negative or non-finite weight.
    """
    weights = floats(name, lists_of(batch.column(name)))
    bad = check_weights(weights, weights.size)
    if bad >= 0:
        raise Fault(
            bad,
            f"column {name!r} is {weights[bad]}, but a weight must be a finite number, 0 or more.",
        )
    return weights


def put_tables(parts: tuple[Dense, ...], batch: Any, into: npt.NDArray[np.float32]) -> None:
    """Write dense columns side by side into `into` [n, sum of widths]."""
    start = 0
    for part in parts:
        table = table_of(part, batch.column(part.column))
        into[:, start : start + table.shape[1]] = table
        start += table.shape[1]


@kernel
def make_room(offsets: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Turn lengths of n rows in `ends` into `offsets` [n+1] from offsets[0] on.

    Then set `ends` to the starts of the rows: each row is still empty.
    """
    for i in range(ends.size):
        offsets[i + 1] = offsets[i] + ends[i]
        ends[i] = offsets[i]


@kernel
def put_table(
    table: npt.NDArray[np.float32],
    first: int,
    ends: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> None:
    """Append `table` [n, width] to n rows that end at `ends`, from column `first` on."""
    for i in range(ends.size):
        for column in range(table.shape[1]):
            indices[ends[i]] = first + column
            values[ends[i]] = table[i, column]
            ends[i] += 1


@kernel
def put_entries(
    offsets: npt.NDArray[Any],
    from_indices: npt.NDArray[Any],
    from_values: npt.NDArray[np.float32],
    holes: npt.NDArray[np.bool_],
    first: int,
    size: int,
    ends: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> int:
    """Append entries, as columns from `first` on, to n rows that end at `ends`.

    Returns -1, or the place of the first index outside 0 to `size` - 1.
    """
    for i in range(ends.size):
        end = ends[i]
        for place in range(offsets[i], offsets[i + 1]):
            if holes.size and holes[place]:
                continue
            index = np.int64(from_indices[place])
            if index < 0 or index >= size:
                return place
            indices[end] = first + index
            values[end] = from_values[place] if from_values.size else np.float32(1.0)
            end += 1
        ends[i] = end
    return -1


@kernel
def tidy(
    offsets: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> None:
    """Sort rows by index, add up equal indices, and close gaps between rows.

    On entry, row i has the entries offsets[i] to ends[i]. `offsets` are updated to the new rows.
    """
    start = to = offsets[0]
    for i in range(ends.size):
        size = tidy_row(indices[start : ends[i]], values[start : ends[i]])
        if to < start:
            for place in range(size):
                indices[to + place] = indices[start + place]
                values[to + place] = values[start + place]
        to += size
        start, offsets[i + 1] = offsets[i + 1], to
