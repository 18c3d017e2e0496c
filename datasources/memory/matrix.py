"""The source of blocks of a matrix in memory.

Longer than 300 lines: what a source of a matrix offers is one class.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from scipy import sparse

from blocklearn.answers import answered
from blocklearn.matcache.cpu.kernels.transpose import count_columns

from ..arrays.accept import CSR, accept, can_be_shown, showable
from ..arrays.block_shape import BlockShape
from ..arrays.copy_rows import count_up, gather_csr, gather_dense
from ..arrays.hashing import hash_matrix
from ..block import HostBlock
from ..source import Described, check_request
from .kept_blocks import ALIGNMENT, Shelf, device_bytes, kept_bytes
from .labels import Labels
from .matrix_checks import changed, check_columns, check_row_names
from .order import RowOrder, Shuffle
from .row_numbers import RowNumbers
from .verified import Verified

KEEP_BYTES = 2**30
FEW_LABELS = 2**14  # so few numbers are written into a block without a thread
FEW_NUMBERS = 2**12  # so few are gathered into a block in less time than a thread takes to wake up
FEW_ENTRIES = 3 * 2**12  # of a sparse block without its transposed index, which takes most of it


class MatrixSource(Described):
    """A NumPy array or SciPy sparse matrix (any kind) as blocks; rows are samples.

    - X: [n, columns], real and finite. A CSR or dense matrix is kept, not copied: do not change it
      while it is in use. Stored zeros stay non-zeros.
    - targets: [n] or [n, T], dense or a SciPy sparse matrix (multi-label).
    - weights: [n], finite, not negative. 0 is as if the row were absent, 2 as if it occurred twice.
      Some models ignore weights, as their docstrings say.
    - block_rows: rows of a block.
    - shuffle: False: the rows in the order of X. True: a new order of all rows in each pass.
      "blocks": rows are dealt to blocks at random once, and each pass visits these blocks in a new
      order; almost as random and much cheaper. Orders are drawn from `(seed, pass)`.
    - names, row_names, target_names: names of the columns, rows and targets.
    - keep_bytes: most bytes of blocks kept for later passes.

    With shuffle False or "blocks", a block has the same rows in every pass. Sparse blocks are then
    kept from the first pass on, with their transposed index if a reader needs that, up to
    `keep_bytes`: about 20 bytes per non-zero. With shuffle False it is 12: blocks are parts of X,
    converted once to int32 and float32 if that takes at most `keep_bytes`.

    Raises `DataError` unless X is a matrix of finite numbers that labels and names fit.

    >>> source = MatrixSource(np.arange(12.0).reshape(3, 4), targets=[0, 1, 1], block_rows=2)
    >>> source
    MatrixSource(3 rows, 4 columns, dense, 1 targets, block_rows=2, shuffle=False, seed=0)
    >>> block = HostBlock(source.shape)
    >>> source.read(0, 1, block)
    >>> block.rows, block.dense.tolist()
    (1, [[8.0, 9.0, 10.0, 11.0], [0.0, 0.0, 0.0, 0.0]])
    >>> block.targets.tolist(), block.weights.tolist()
    ([[1.0], [0.0]], [1.0, 0.0])
    """

    @answered
    def __init__(
        self,
        X: Any,
        *,
        targets: Any = None,
        weights: Any = None,
        block_rows: int = 1024,
        shuffle: Shuffle = False,
        seed: int = 0,
        names: Sequence[str] | None = None,
        row_names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        """Verify X and its labels, and compute the capacity of its blocks."""
        matrix = accept(X)
        rows, columns = int(X.shape[0]), int(X.shape[1])
        check_columns(rows, columns, names)
        check_row_names(rows, row_names)
        if shuffle is False and isinstance(matrix, CSR):
            matrix = showable(matrix, keep_bytes)
        labels = Labels(rows, targets, weights, target_names)
        order = RowOrder(rows, block_rows, shuffle, seed)
        self._hold(Verified(matrix, labels, order, names, row_names, keep_bytes))

    @classmethod
    def of_verified(cls, rows: Verified) -> "MatrixSource":
        """Return a source of rows that were verified before; none is read."""
        found = cls.__new__(cls)
        found._hold(rows)
        return found

    def _hold(self, rows: Verified) -> None:
        """Make blocks of these rows."""
        self.verified, self._matrix, self._labels = rows, rows.matrix, rows.labels
        self._shape = BlockShape(
            rows=rows.order.block_rows,
            columns=rows.columns,
            nnz=0,
            total_rows=rows.order.rows,
            dense=not isinstance(rows.matrix, CSR),
            targets=rows.labels.columns,
            weighted=rows.labels.weights is not None,
        )
        in_order, matrix = rows.order.shuffle is False, rows.matrix
        self._views = in_order and isinstance(matrix, CSR) and can_be_shown(matrix)
        self._take(rows.order)

    def _take(self, order: RowOrder) -> None:
        """Visit the rows in this order."""
        self._order, matrix = order, self._matrix
        if isinstance(matrix, CSR):
            self._shape = replace(self._shape, nnz=order.largest(np.diff(matrix.indptr)))
        self._entries = self.nnz // max(order.blocks, 1)  # of a sparse block, on average
        self._shelf = Shelf(min(self.verified.keep_bytes, self._needed()))

    def dealt(self, parts: int) -> "MatrixSource":
        """Return a source of the same matrix that keeps parts of its rows apart: see `dealt`."""
        if self._order.shuffle is False:
            return self
        other = copy(self)
        other._take(self._order.dealt(parts))
        return other

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block."""
        return self._shape

    @property
    def blocks(self) -> int:
        """The number of blocks of one pass, including the padded one."""
        return self._order.blocks

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the columns, or None."""
        return self.verified.names

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows, or None."""
        return self.verified.row_names

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, or None."""
        return self._labels.names

    def label_sums(self) -> tuple[float, list[float]]:
        """Return the sum of weights, and of weight times target for each target."""
        return self._labels.sums()

    def value_sums(self) -> tuple[float, int]:
        """Return sum and number of all stored values; of a dense matrix, of all values."""
        if self.verified.value_sums is not None:
            return self.verified.value_sums
        values: Any = self._matrix
        if isinstance(values, CSR):
            values = values.values[int(values.indptr[0]) : int(values.indptr[-1])]
        return float(values.sum(dtype=np.float64)), int(values.size)

    def transposed(self) -> "MatrixSource":
        """Return X.T in blocks of as many rows, without labels.

        It is made anew at each call, unless another process has made it: see `handed`.
        """
        if self.verified.turned is not None:
            return MatrixSource.of_verified(self.verified.turned)
        X: Any = self._matrix
        shape = self._shape
        if isinstance(X, CSR):
            size = (shape.total_rows, shape.columns)
            X = sparse.csr_array((X.values, X.indices, X.indptr), size)
        X = X.T.tocsr() if sparse.issparse(X) else X.T
        return MatrixSource(
            X,
            block_rows=shape.rows,
            shuffle=self._order.shuffle,
            seed=self._order.seed,
            names=self.row_names,
            row_names=self.names,
            keep_bytes=self.verified.keep_bytes,
        )

    def entries(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return stored entries of these rows; of a dense matrix, the non-zeros.

        The result is a SciPy `csr_array` float32 [rows, columns].
        """
        matrix, shape = self._matrix, (rows.size, self._shape.columns)
        if not isinstance(matrix, CSR):
            return sparse.csr_array(matrix[rows], dtype=np.float32)
        nnz = int((matrix.indptr[rows + 1] - matrix.indptr[rows]).sum())
        indptr = np.zeros(rows.size + 1, np.int64)
        indices, values = np.empty(nnz, np.int32), np.empty(nnz, np.float32)
        gather_csr(rows, matrix.indptr, matrix.indices, matrix.values, indptr, indices, values)
        return sparse.csr_array((values, indices, indptr), shape=shape)

    def keeps(self, *, indexed: bool = True) -> int:
        """Return the most bytes of blocks that this source will keep for later passes.

        indexed: whether the reader needs the transposed index. Without it, a copy of rows saves
        less time than its memory is worth, so only parts of the matrix are kept.
        """
        return self._shelf.nbytes if indexed or self._views else 0

    def fixed_bytes(self, *, indexed: bool = True, nnz: int = 0) -> int:
        """Return the most bytes of kept blocks on a device.

        indexed: with their index.
        nnz: non-zeros that there is room for in a block, if they are more than this source needs.
        """
        if not self.keeps(indexed=indexed):
            return 0
        room = replace(self._shape, nnz=max(nnz, self._shape.nnz))
        return device_bytes(room, self.blocks, self.nnz, indexed)

    @cached_property
    def fingerprint(self) -> str:
        """The XXH3 of shape and contents, whatever kind, dtype and order."""
        if self.verified.fingerprint is not None:
            return self.verified.fingerprint
        shape, digest = self._shape, xxhash.xxh3_64()
        digest.update(f"{shape.total_rows} {shape.columns} {shape.dense}".encode())
        hash_matrix(digest, self._matrix)
        self._labels.hash(digest)
        return digest.hexdigest()

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` (int >= 0)."""
        check_request(self, pass_, index, into.shape)
        number = self._order.number(pass_, index)
        kept = self._shelf.get(number)
        if kept is not None:
            if self._labels.columns:
                self._labels.write_targets(kept.row_ids[: kept.rows], into.targets)
            into.show(kept, pass_=pass_, index=index)
            return
        into.write()
        rows = self._order.rows_of(pass_, index, into.row_ids)
        if self._views:
            self._borrow(number, rows, into)
        else:
            self._gather(rows, into)
        self._finish(pass_, index, rows, into)
        if self.keeps(indexed=into.indexed):
            self._shelf.put(number, into, borrowed=self._views)
            into.kept = self._shelf.get(number)

    @property
    def shape_in_order(self) -> BlockShape:
        """The sizes of the blocks of `in_order`."""
        matrix = self._matrix
        if not isinstance(matrix, CSR):
            return self._shape
        return replace(self._shape, nnz=self._as_given.largest(np.diff(matrix.indptr)))

    @property
    def _as_given(self) -> RowOrder:
        return RowOrder(self._shape.total_rows, self._shape.rows, False, 0)

    def in_order(self) -> Iterator[HostBlock]:
        """Yield all rows in the order of X, in one block that is refilled, without an index."""
        order, into = self._as_given, HostBlock(self.shape_in_order, indexed=False)
        for index in range(order.blocks):
            rows = order.rows_of(0, index, into.row_ids)
            self._gather(rows, into)
            self._finish(0, index, rows, into)
            yield into

    def row_numbers(self) -> RowNumbers:
        """Return a source of the same blocks, but of the numbers of their rows only."""
        return RowNumbers(self, self._order, self._matrix, self._labels.weights)

    def without_targets(self) -> "MatrixSource":
        """Return a source of the same blocks without targets. It keeps them in the same place."""
        found, labels = copy(self), self._labels.of_weights()
        found._labels, found._shape = labels, replace(self._shape, targets=0)
        found.verified = replace(self.verified, labels=labels, fingerprint=None)
        return found

    def kept(self, pass_: int, index: int) -> bool:
        """Whether block `index` of pass `pass_` is kept or small, with few labels to write."""
        shape = self._shape
        if shape.rows * shape.targets > FEW_LABELS:
            return False
        if (shape.rows * shape.columns if shape.dense else self._entries) <= FEW_NUMBERS:
            return True
        return self._shelf.get(self._order.number(pass_, index)) is not None

    @property
    def quick(self) -> bool:
        """Whether blocks are sparse and rather small, with few labels to write."""
        shape = self._shape
        few = not shape.dense and self._entries <= FEW_ENTRIES
        return few and shape.rows * shape.targets <= FEW_LABELS

    def _needed(self) -> int:
        """Return the bytes needed to keep all blocks; 0 if they differ from pass to pass."""
        if self._shape.dense or not self._order.fixed:
            return 0
        shown = 8 * self.nnz if self._views else 0
        return kept_bytes(self._shape, self.blocks, self.nnz, True, ALIGNMENT) - shown

    @property
    def nnz(self) -> int:
        """The number of stored entries of X; 0 if it is dense."""
        matrix = self._matrix
        return int(matrix.indptr[-1] - matrix.indptr[0]) if isinstance(matrix, CSR) else 0

    def _borrow(self, number: int, rows: int, into: HostBlock) -> None:
        """Use a part of the matrix as the block, without a copy."""
        matrix = self._matrix
        assert isinstance(matrix, CSR)
        first = number * self._shape.rows
        offsets = matrix.indptr[first : first + rows + 1]
        start, end = int(offsets[0]), int(offsets[-1])
        np.subtract(offsets, start, out=into.indptr[: rows + 1])
        room = min(self._shape.nnz, len(matrix.indices) - start)
        if start < 0 or not 0 <= end - start <= room:
            ends = into.indptr[1 : rows + 1]
            wrong = np.flatnonzero((ends < into.indptr[:rows]) | (ends > room))
            raise changed(first + (int(wrong[0]) if wrong.size else 0))
        into.borrow(matrix.indices[start:end], matrix.values[start:end])

    def _finish(self, pass_: int, index: int, rows: int, into: HostBlock) -> None:
        """Add the labels to a block that has its features, and finish it."""
        if self._labels.given:
            self._labels.write(into.row_ids[:rows], into)
        into.finish(pass_=pass_, index=index, rows=rows)

    def _gather(self, rows: int, into: HostBlock) -> None:
        matrix, ids = self._matrix, into.row_ids[:rows]
        if not isinstance(matrix, CSR):
            gather_dense(ids, matrix, into.dense)
            return
        misfit = gather_csr(ids, matrix.indptr, matrix.indices, matrix.values, *into.csr)
        if misfit >= 0:
            raise changed(int(ids[misfit]))

    def reading_calls(self, *, indexed: bool) -> list[tuple[Any, ...]]:
        """Return kernels that reading calls, each with arguments of the types that it will get.

        They can be compiled ahead. Of rows that are not shuffled, or dense, none are known.

        indexed: whether blocks have their transposed index.
        """
        matrix, shape = self._matrix, self._shape
        if not isinstance(matrix, CSR) or self._order.shuffle is not True:
            return []
        columns = 1 if count_columns(shape.columns, shape.nnz) else 2
        block = HostBlock(BlockShape(rows=1, columns=columns, nnz=1, total_rows=1))
        ids, rows = block.row_ids, (matrix.indptr, matrix.indices, matrix.values)
        calls = [(count_up, 0, ids), (gather_csr, ids, *rows, *block.csr)]
        return [*calls, block.transposing()] if indexed else calls

    def __repr__(self) -> str:
        """Show sizes and settings."""
        shape, order = self._shape, self._order
        kind = "dense" if shape.dense else "sparse"
        labels = f", {shape.targets} targets" if shape.targets else ""
        labels += ", weighted" if shape.weighted else ""
        return (
            f"MatrixSource({shape.total_rows} rows, {shape.columns} columns, {kind}{labels}, "
            f"block_rows={shape.rows}, shuffle={order.shuffle!r}, seed={order.seed})"
        )
