"""One block of rows in host memory: allocated once, refilled in place for ever."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .check import GOOD, check_csr, check_dense, describe_csr, not_finite
from .errors import DataError
from .transpose import plan_digits, transpose_csr

MAX_COLUMNS = 2**31 - 1  # column indices of a block are int32


@dataclass(frozen=True)
class BlockShape:
    """What a model must know to allocate, before any data is read.

    rows: rows of every block; the last one is padded to it with empty rows.
    columns: features. nnz: most non-zeros that one block can hold; 0 for a dense source.
    total_rows: true rows of one pass. dense: blocks are tables, not sparse matrices.
    """

    rows: int
    columns: int
    nnz: int
    total_rows: int
    dense: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that no block can have."""
        for name, smallest, largest in [
            ("rows", 1, MAX_COLUMNS),
            ("columns", 1, MAX_COLUMNS),
            ("nnz", 0, 2**62),
            ("total_rows", 1, 2**62),
        ]:
            value = getattr(self, name)
            if not smallest <= value <= largest:
                raise DataError(f"BlockShape: {name}={value}, but it is {smallest} to {largest}.")


class HostBlock:
    """Host buffers of one block. A source fills them and calls `finish`.

    row_ids: int64 [shape.rows], source row of each row, -1 for padding.

    Sparse (CSR): indptr int64 [shape.rows+1]; indices int32 and values float32 [shape.nnz], of
    which the first `nnz` count; the indices of a row ascend and are unique.

    Its transposed index, filled by `transpose`, of the `n_active` features that occur:
    active int32, ascending; starts int64, where each one's entries begin (and one more, the end);
    t_rows int32 [shape.nnz], the rows of a feature, ascending; t_pos [shape.nnz], their positions
    in `values` (int32, or int64 from 2**31 non-zeros on).

    Dense: dense float32 [shape.rows, shape.columns], padding rows zero.

    The arrays of the other kind have length 0. pass_, index: which block this is; rows: its true
    row count; nnz: its true non-zeros.

    >>> block = HostBlock(BlockShape(rows=3, columns=9, nnz=4, total_rows=2))
    >>> block.indptr[:3], block.indices[:3], block.values[:3] = [0, 2, 3], [1, 8, 8], [1., 2., 3.]
    >>> block.row_ids[:2] = [0, 1]
    >>> block.finish(pass_=0, index=0, rows=2)
    >>> block.transpose()
    >>> block.active[:block.n_active].tolist(), block.t_rows[:block.nnz].tolist()
    ([1, 8], [0, 0, 1])
    """

    def __init__(self, shape: BlockShape) -> None:
        """Allocate everything that blocks of `shape` need."""
        self.shape = shape
        self.pass_, self.index, self.rows, self.nnz, self.n_active = 0, 0, 0, 0, 0
        capacity = 0 if shape.dense else shape.nnz
        features = min(shape.columns, capacity)
        positions: type[np.signedinteger[Any]] = np.int32 if capacity < 2**31 else np.int64
        self.row_ids: npt.NDArray[np.int64] = np.full(shape.rows, -1, np.int64)
        self.indptr: npt.NDArray[np.int64] = np.zeros(
            0 if shape.dense else shape.rows + 1, np.int64
        )
        self.indices: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.values: npt.NDArray[np.float32] = np.zeros(capacity, np.float32)
        self.active: npt.NDArray[np.int32] = np.zeros(features, np.int32)
        self.starts: npt.NDArray[np.int64] = np.zeros(0 if shape.dense else features + 1, np.int64)
        self.t_rows: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.t_pos: npt.NDArray[np.signedinteger[Any]] = np.zeros(capacity, positions)
        self.dense: npt.NDArray[np.float32] = np.zeros(
            (shape.rows, shape.columns) if shape.dense else (0, 0), np.float32
        )
        self._passes, bits = plan_digits(shape.columns)
        spare = 0 if self._passes == 1 else capacity
        self._count: npt.NDArray[np.int64] = np.zeros(0 if shape.dense else 1 << bits, np.int64)
        self._keys: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._spare_keys: npt.NDArray[np.int32] = np.zeros(spare, np.int32)
        self._spare_rows: npt.NDArray[np.int32] = np.zeros(spare, np.int32)
        self._spare_pos: npt.NDArray[np.signedinteger[Any]] = np.zeros(spare, positions)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, scratch included."""
        return sum(a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray))

    def finish(self, *, pass_: int, index: int, rows: int) -> None:
        """Declare `rows` rows filled: pad the rest, check everything, forget the old transpose.

        Raises `DataError` for offsets, indices or values that are not what the class promises.
        """
        name = f"block {index} of pass {pass_}"
        if not 0 <= rows <= self.shape.rows:
            raise DataError(f"{name}: {rows} rows, but a block holds 0 to {self.shape.rows}.")
        self.row_ids[rows:] = -1
        self.pass_, self.index, self.rows, self.nnz, self.n_active = pass_, index, rows, 0, 0
        if self.shape.dense:
            self.dense[rows:] = 0.0
            row, column = check_dense(self.dense, rows)
            if row >= 0:
                value = self.dense[row, column]
                raise DataError(f"{name}: " + not_finite(self._row_name(row), column, value))
            return
        if self.indptr[0] != 0:
            raise DataError(f"{name}: offsets start at {self.indptr[0]}, but must start at 0.")
        columns = self.shape.columns
        fault = check_csr(self.indptr, self.indices, self.values, rows, columns)
        if fault[0] != GOOD:
            raise DataError(
                f"{name}: "
                + describe_csr(
                    fault, self.indptr, self.indices, self.values, columns, self._row_name(fault[1])
                )
            )
        self.nnz = int(self.indptr[rows])
        self.indptr[rows:] = self.nnz

    def transpose(self) -> None:
        """Fill the transposed index from the CSR part, in O(nnz), without allocating.

        A dense block has none: nothing happens.
        """
        if self.shape.dense:
            return
        self.n_active = transpose_csr(
            self.indptr, self.indices, self.rows, self._passes, self._count,
            self._spare_keys, self._spare_rows, self._spare_pos,
            self._keys, self.t_rows, self.t_pos, self.active, self.starts,
        )  # fmt: skip

    def _row_name(self, row: int) -> str:
        return f"row {self.row_ids[row]}"
