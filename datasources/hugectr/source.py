"""Read HugeCTR's binary formats as blocks."""

import threading
from collections.abc import Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from blocklearn.answers import answered

from ..arrays.block_shape import BlockShape
from ..arrays.compiled import kernel
from ..arrays.copy_rows import count_up
from ..block import HostBlock
from ..errors import DataError
from ..holdout.samples import Reading
from ..memory.order import RowOrder
from ..source import Described, check_request
from .index import make_index, record_fault
from .parts import Part
from .records import MORE, Bytes, KeyColumns, Layout, decode, measure


class HugeCTRSource(Described):
    """Reads the records of one or several files as sparse rows with targets.

    Columns are the dense features, then those of the keys; targets are the labels. Blocks are
    consecutive records. With `shuffle` (True or "blocks"), passes visit the blocks in different
    orders. Opening reads everything once, to measure and verify it, and keeps 16 bytes per block.
    Raises `DataError`, naming file and record, for invalid data, when opened or later.
    """

    @answered
    def __init__(
        self, parts: list[Part], layout: Layout, keys: KeyColumns, columns: int, reading: Reading
    ) -> None:
        """Index the files. columns: number of all features."""
        self._layout, self._keys, self._rows = layout, keys, reading.rows_of_block()
        self._index = index = make_index(parts, layout, self._rows)
        self._shape = BlockShape(
            rows=self._rows,
            columns=columns,
            nnz=index.nnz,
            total_rows=index.rows,
            targets=layout.labels,
        )
        blocks = index.files.size - 1
        self._order = RowOrder(blocks, 1, bool(reading.shuffle), reading.seed)
        self._number = np.empty(1, np.int64)
        self._buffer = np.empty(index.nbytes, np.uint8)
        self._reading = threading.Lock()  # several threads may call read

    def dealt(self, parts: int) -> "HugeCTRSource":
        """Return a source of the same files that keeps parts of the rows apart: see `dealt`."""
        other = copy(self)
        other._order = self._order.dealt(parts)
        return other

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block."""
        return self._shape

    @property
    def blocks(self) -> int:
        """The number of blocks in one pass, including the padded one."""
        return self._index.files.size - 1

    @property
    def names(self) -> Sequence[str] | None:
        """None: keys are numbers."""
        return None

    @property
    def fingerprint(self) -> str:
        """The XXH3 of the records."""
        return self._index.fingerprint

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` (int >= 0).

        Calls run one at a time.
        """
        check_request(self, pass_, index, into.shape)
        with self._reading:
            self._order.rows_of(pass_, index, self._number)
            number = int(self._number[0])
            first = number * self._rows
            rows = min(self._rows, self._shape.total_rows - first)
            size = self._read_bytes(number)
            row, fault, place = fill(
                self._buffer, size, self._layout, self._keys, rows,
                into.targets, into.indptr, into.indices, into.values,
            )  # fmt: skip
            if fault:
                raise self._fault(first + row, fault, place)
            count_up(first, into.row_ids[:rows])
            into.finish(pass_=pass_, index=index, rows=rows)

    def _read_bytes(self, number: int) -> int:
        """Read the bytes of a block to the front of the buffer.

        Return how many there are.
        """
        index, filled = self._index, 0
        first, last = int(index.files[number]), int(index.files[number + 1])
        for file in range(first, last + 1):
            part = index.parts[file]
            start = int(index.offsets[number]) if file == first else part.start
            stop = int(index.offsets[number + 1]) if file == last else part.size
            if stop > start:
                part.read(start, self._buffer[filled : filled + stop - start])
                filled += stop - start
        return filled

    def _fault(self, row: int, fault: int, place: int) -> DataError:
        ends = np.cumsum([part.records for part in self._index.parts])
        file = int(np.searchsorted(ends, row, side="right"))
        part, labels = self._index.parts[file], self._layout.labels
        number = f"label {place}" if place < labels else f"dense feature {place - labels}"
        return record_fault(part, row - int(ends[file]) + part.records, fault, place, number)

    def __repr__(self) -> str:
        """Show sizes and settings."""
        shape, order = self._shape, self._order
        return (
            f"HugeCTRSource({shape.total_rows} rows, {shape.columns} columns, {shape.targets} "
            f"targets, block_rows={shape.rows}, shuffle={order.shuffle}, seed={order.seed})"
        )


@kernel
def fill(
    data: Bytes,
    size: int,
    layout: Layout,
    keys: KeyColumns,
    rows: int,
    labels: npt.NDArray[np.float32],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> tuple[int, int, int]:
    """Decode `rows` records in `data[:size]` into the arrays of a block.

    Returns the row at fault, the fault (0: none), and the slot or number at fault.
    """
    at, filled = 0, 0
    indptr[0] = 0
    for row in range(rows):
        end, found = measure(data, at, size, layout)
        if end < 0:
            return row, end, 0
        if filled + layout.dense + found > indices.size:
            return row, MORE, 0  # the bytes differ from those that were measured
        filled, place = decode(data, at, layout, keys, labels[row], filled, indices, values)
        if filled < 0:
            return row, filled, place
        indptr[row + 1] = filled
        at = end
    return rows, 0 if at == size else MORE, 0
