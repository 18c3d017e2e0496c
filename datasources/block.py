"""One block of rows in host memory: allocated once, then refilled in place.

Longer than 300 lines: the arrays of a block are described in the class that fills them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.cpu.kernels.transpose import (
    count_columns,
    plan_digits,
    transpose_by_counting,
    transpose_csr,
)

from .arrays.block_shape import (
    BlockShape,
    CsrArrays,
    IndexArrays,
    SortRoom,
    Zeros,
    block_bytes,
    buffers,
    laid_out,
)
from .arrays.validate import (
    all_fit,
    bad_weight,
    check_csr,
    check_dense,
    check_weights,
    csr_is_good,
    describe_csr,
    not_finite,
)
from .errors import DataError


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """A finished sparse block without its targets, in read-only arrays of its own.

    - turned: its transposed index, or None where that is not kept.
    - n_active: number of features in the transposed index.
    """

    rows: int
    nnz: int
    n_active: int
    row_ids: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    csr: CsrArrays
    turned: IndexArrays | None


class HostBlock:
    """Host buffers of one block. A source fills them and calls `finish`.

    Every block:

    - row_ids: int64 [shape.rows], the number of each row in the source; -1 for padding.
    - targets: float32 [shape.rows, shape.targets]; padding rows are 0.
    - weights: float32 [shape.rows], not negative; padding rows are 0. If the source is not
      `shape.weighted`, it leaves them alone and `finish` sets those of true rows to 1.
    - pass_, index: which block this is.
    - rows, nnz: true rows and true non-zeros, without padding.
    - kept: the `KeptBlock` with the same contents, but for targets; None: they are not kept.

    Sparse blocks (CSR); only the first `nnz` entries count:

    - indptr: int64 [shape.rows+1], offsets of the rows.
    - indices: int32 [shape.nnz], columns; unique and ascending within a row.
    - values: float32 [shape.nnz].

    The transposed index of a sparse block, filled by `transpose`:

    - active: int32, the `n_active` features that occur, ascending, or as `renumber` leaves them.
    - starts: int64, where the entries of each active feature begin, and the end of the last.
    - t_rows: int32 [shape.nnz], the rows of each feature, ascending.
    - t_pos: [shape.nnz], positions in `values`: int32, or int64 from 2**31 non-zeros on.

    Dense blocks:

    - dense: float32 [shape.rows, shape.columns]; padding rows are 0.

    The arrays of the other kind have length 0. A source writes to the arrays but never replaces
    them. Consumers only read: the arrays may belong to a `KeptBlock`.

    >>> block = HostBlock(BlockShape(rows=3, columns=9, nnz=4, total_rows=2))
    >>> block.indptr[:3], block.indices[:3], block.values[:3] = [0, 2, 3], [1, 8, 8], [1., 2., 3.]
    >>> block.row_ids[:2] = [0, 1]
    >>> block.finish(pass_=0, index=0, rows=2)
    >>> block.transpose()
    >>> block.active[:block.n_active].tolist(), block.t_rows[:block.nnz].tolist()
    ([1, 8], [0, 0, 1])
    >>> block.weights.tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(self, shape: BlockShape, *, indexed: bool = True, zeros: Zeros = np.zeros) -> None:
        """Allocate everything that blocks of `shape` need.

        - indexed: False leaves out the transposed index; its arrays then have length 0.
        - zeros: makes the arrays, for example in memory that a device can copy from.
        """
        self.shape = shape
        self.indexed = indexed and not shape.dense
        self.pass_, self.index, self.rows, self.nnz, self.n_active = -1, -1, 0, 0, 0
        self.zeros = zeros
        self.kept: KeptBlock | None = None
        self.nbytes = block_bytes(shape, indexed=indexed)
        own = laid_out(buffers(shape, indexed=indexed), zeros((self.nbytes,), np.uint8))
        self._own_row_ids: npt.NDArray[np.int64] = own["row_ids"]
        self._own_row_ids.fill(-1)  # to see whether a source sets them
        self.dense: npt.NDArray[np.float32] = own["dense"]
        self.targets: npt.NDArray[np.float32] = own["targets"]
        self._own_tables = self.dense, self.targets
        self._own_weights: npt.NDArray[np.float32] = own["weights"]
        self._own_csr = CsrArrays(*(own[name] for name in CsrArrays._fields))
        self._own_turned = IndexArrays(*(own[name] for name in IndexArrays._fields))
        self._room = SortRoom(*(own[name] for name in SortRoom._fields))
        self.write()
        self._passes, _ = plan_digits(shape.columns)
        self._transposed = False

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        """The offsets of the rows."""
        return self.csr.indptr

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        """The columns of the non-zeros."""
        return self.csr.indices

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The values of the non-zeros."""
        return self.csr.values

    @property
    def active(self) -> npt.NDArray[np.int32]:
        """The features that occur in the block."""
        return self.turned.active

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The offsets of the features that occur."""
        return self.turned.starts

    @property
    def t_rows(self) -> npt.NDArray[np.int32]:
        """The rows of the non-zeros, sorted by feature."""
        return self.turned.t_rows

    @property
    def t_pos(self) -> npt.NDArray[np.signedinteger[Any]]:
        """The positions of the non-zeros in `values`, sorted by feature."""
        return self.turned.t_pos

    def occurring(self) -> npt.NDArray[np.int32]:
        """Return the columns of the non-zeros, each once, ascending."""
        if self._transposed:
            return self.active[: self.n_active]
        found = np.sort(self.indices[: self.indptr[self.rows]])
        return found[np.diff(found, prepend=-1) > 0]  # np.unique takes ten times as long

    def finish(self, *, pass_: int, index: int, rows: int, checked: bool = False) -> None:
        """Declare `rows` rows filled: pad, check, and drop the old transpose.

        checked: True if a digest shows that these very numbers passed the check before.

        Raises `DataError` where offsets, indices, values, targets or weights break the rules of
        the class.
        """
        self._finish_rows(pass_, index, rows, checked)
        if self.shape.dense:
            self._finish_table("", self.dense, checked)
        else:
            self._finish_csr(checked)

    @property
    def has_index(self) -> bool:
        """Whether the transposed index is filled."""
        return self._transposed

    def transpose(self) -> None:
        """Fill the transposed index from the CSR part, in O(nnz), without allocating.

        Does nothing if the index is filled already, or if the block has none.
        """
        if not self.indexed or self._transposed:
            return
        kernel, *arguments = self.transposing()
        self.n_active = kernel(*arguments)
        self._transposed = True

    def transposing(self) -> tuple[Any, ...]:
        """Return the kernel that fills the transposed index, and its arguments."""
        room, (indptr, indices, _) = self._room, self.csr
        active, starts, t_rows, t_pos = self.turned
        if count_columns(self.shape.columns, self.shape.nnz):
            return (
                transpose_by_counting,
                indptr, indices, self.rows, room.counts, t_rows, t_pos, active, starts,
            )  # fmt: skip
        return (
            transpose_csr,
            indptr, indices, self.rows, self._passes, room.counts,
            room.spare_keys, room.spare_rows, room.spare_pos,
            room.keys, t_rows, t_pos, active, starts,
        )  # fmt: skip

    def show(self, kept: KeptBlock, *, pass_: int, index: int) -> None:
        """Finish the block with the arrays of `kept`, neither copied nor checked again.

        The transposed index is used if both have one. Targets are padded as by `finish`.
        """
        self.pass_, self.index, self.rows, self.nnz = pass_, index, kept.rows, kept.nnz
        self.kept = kept
        self.row_ids, self.weights, self.csr = kept.row_ids, kept.weights, kept.csr
        self._transposed = self.indexed and kept.turned is not None
        if self.indexed and kept.turned is not None:
            self.turned, self.n_active = kept.turned, kept.n_active
        else:
            self.turned, self.n_active = self._own_turned, 0
        if self.shape.targets:
            self._finish_table("targets: ", self.targets, checked=True)

    def borrow(self, indices: npt.NDArray[np.int32], values: npt.NDArray[np.float32]) -> None:
        """Use these arrays as columns and values until `write`, `borrow` or `show`.

        They must be C-contiguous and as long as the offsets say. They are never written to.
        """
        self.csr = CsrArrays(self._own_csr.indptr, indices, values)

    def renumber(
        self,
        number: Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32]], None],
        *,
        ordered: bool = False,
    ) -> None:
        """Replace the columns by other numbers, until `write`, `borrow` or `show`.

        number: sets its second argument to the new numbers of the columns in the first; both may be
            one array. Columns need not be ascending within a row any more.
        ordered: whether the transposed index, if it is filled, stays, in the order of the old
            numbers. Otherwise it must be filled afterwards.
        """
        into, active = self._own_csr.indices, self._own_turned.active
        number(self.indices[: self.nnz], into[: self.nnz])
        self.csr, self.kept = self.csr._replace(indices=into), None
        if ordered and self._transposed:
            number(self.active[: self.n_active], active[: self.n_active])
            self.turned = self.turned._replace(active=active)
        else:
            self.turned, self.n_active, self._transposed = self._own_turned, 0, False

    def write(self) -> None:
        """Return to the block's own arrays, after `show` or `borrow`."""
        self.kept = None
        self.row_ids, self.weights = self._own_row_ids, self._own_weights
        self.csr, self.turned = self._own_csr, self._own_turned

    def _finish_rows(self, pass_: int, index: int, rows: int, checked: bool = False) -> None:
        """Finish the part that all blocks share: numbers, row_ids, targets and weights."""
        if not 0 <= rows <= self.shape.rows:
            name = f"block {index} of pass {pass_}"
            raise DataError(f"{name}: rows={rows}: must be 0 to {self.shape.rows}.")
        self._check_own()
        self.pass_, self.index, self.rows, self.nnz, self.n_active = pass_, index, rows, 0, 0
        self._transposed = False
        if self.shape.weighted:
            self._finish_weights(checked)
        else:
            self.weights.fill(1.0)
        if rows < self.shape.rows:
            self.row_ids[rows:] = -1
            self.weights[rows:] = 0.0
        if self.shape.targets:
            self._finish_table("targets: ", self.targets, checked)

    def _check_own(self) -> None:
        """Raise DataError if an array was replaced: readers and devices have the addresses."""
        dense, targets = self._own_tables
        if self.dense is not dense:
            raise replaced("dense")
        if self.targets is not targets:
            raise replaced("targets")
        if self.kept is None and self.row_ids is not self._own_row_ids:
            raise replaced("row_ids")
        if self.kept is None and self.weights is not self._own_weights:
            raise replaced("weights")

    def _finish_weights(self, checked: bool) -> None:
        bad = -1 if checked else check_weights(self.weights, self.rows)
        if bad >= 0:
            text = bad_weight(self._row_name(bad), self.weights[bad])
            raise DataError(f"{self._name()}: {text}")

    def _finish_table(self, what: str, table: npt.NDArray[np.float32], checked: bool) -> None:
        if self.rows < len(table):
            table[self.rows :] = 0.0
        if not (checked or all_fit(table[: self.rows].reshape(-1))):
            row, column = check_dense(table, self.rows)
            text = not_finite(self._row_name(row), column, table[row, column])
            raise DataError(f"{self._name()}: {what}{text}")

    def _finish_csr(self, checked: bool) -> None:
        indptr, indices, values = self.csr
        rows, columns = self.rows, self.shape.columns
        if not checked and (
            indptr.item(0) != 0 or not csr_is_good(indptr, indices, values, rows, columns)
        ):
            raise DataError(f"{self._name()}: {self._fault()}")
        self.nnz = indptr.item(rows)
        if rows < self.shape.rows:
            indptr[rows + 1 :] = self.nnz

    def _fault(self) -> str:
        """Describe the first fault of the CSR part, which has one."""
        if self.indptr[0] != 0:
            return f"offsets start at {self.indptr[0]}, but must start at 0."
        columns = self.shape.columns
        fault = check_csr(self.indptr, self.indices, self.values, self.rows, columns)
        name = self._row_name(fault[1])
        return describe_csr(fault, self.indptr, self.indices, self.values, columns, name)

    def _name(self) -> str:
        return f"block {self.index} of pass {self.pass_}"

    def _row_name(self, row: int) -> str:
        return f"row {self.row_ids[row]}"


def replaced(name: str) -> DataError:
    """Return the error of a source that replaced an array of a block."""
    return DataError(
        f"block.{name}: was replaced by another array; must be written into. Write "
        f"into.{name}[:rows] = ... in `read`, not into.{name} = ..."
    )
