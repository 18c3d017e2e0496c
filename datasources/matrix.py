"""Blocks of a matrix in memory."""

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from .accept import CSR, accept
from .block import MAX_COLUMNS, BlockShape, HostBlock
from .errors import DataError
from .gather import count_up, gather_csr, gather_dense
from .order import shuffle_rows

HASH_CHUNK = 1 << 20  # numbers that are converted at a time for the fingerprint


class MatrixSource:
    """A NumPy array or SciPy sparse matrix (any kind) as blocks; rows are samples.

    X: [n, columns], real, finite. It is kept, not copied, where it is CSR or dense already: do
    not change it while it is in use. Stored zeros stay non-zeros. block_rows: rows of a block.
    shuffle: each pass visits the rows in another order, drawn from `(seed, pass)`; without it in
    the order of X. names: of the columns.

    Raises `DataError` for what is no matrix of finite numbers, and for names that do not fit.

    >>> source = MatrixSource(np.arange(12.0).reshape(3, 4), block_rows=2)
    >>> source
    MatrixSource(3 rows, 4 columns, dense, block_rows=2, shuffle=False, seed=0)
    >>> block = HostBlock(source.shape)
    >>> source.read(0, 1, block)
    >>> block.rows, block.dense.tolist()
    (1, [[8.0, 9.0, 10.0, 11.0], [0.0, 0.0, 0.0, 0.0]])
    """

    def __init__(
        self,
        X: Any,
        *,
        block_rows: int = 1024,
        shuffle: bool = False,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> None:
        """Verify X and find the capacity that its blocks need."""
        if not 1 <= block_rows < 2**31:
            raise DataError(f"MatrixSource: block_rows={block_rows}, but it is 1 to 2**31 - 1.")
        if not 0 <= seed < 2**64:
            raise DataError(f"MatrixSource: seed={seed}, but a seed is 0 to 2**64 - 1.")
        matrix = accept(X)
        rows, columns = int(X.shape[0]), int(X.shape[1])
        check_columns(rows, columns, names)
        self._matrix = matrix
        self._names = names
        self._shuffle = shuffle
        self._seed = seed
        self._shape = BlockShape(
            rows=block_rows,
            columns=columns,
            nnz=largest_block(matrix.indptr, block_rows, shuffle) if isinstance(matrix, CSR) else 0,
            total_rows=rows,
            dense=not isinstance(matrix, CSR),
        )
        self._blocks = -(-rows // block_rows)
        self._order = np.empty(rows if shuffle else 0, np.int64)  # of the pass in _order_pass
        self._order_pass = -1
        self._lock = threading.Lock()  # two readers may be in two passes

    @property
    def shape(self) -> BlockShape:
        """Sizes of every block."""
        return self._shape

    @property
    def blocks(self) -> int:
        """Blocks of one pass, the padded last one included."""
        return self._blocks

    @property
    def names(self) -> Sequence[str] | None:
        """Names of the columns, or None."""
        return self._names

    @cached_property
    def fingerprint(self) -> str:
        """XXH3 of shape and contents, whatever kind and dtype held them; not of the order."""
        matrix, digest = self._matrix, xxhash.xxh3_64()
        digest.update(f"{self.shape.total_rows} {self.shape.columns} {self.shape.dense}".encode())
        if isinstance(matrix, CSR):
            nnz = int(matrix.indptr[-1])
            offset = int(matrix.indptr[0])
            hash_numbers(digest, np.diff(matrix.indptr), np.int64)
            hash_numbers(digest, matrix.indices[offset:nnz], np.int64)
            hash_numbers(digest, matrix.values[offset:nnz], np.float32)
        else:
            step = max(1, HASH_CHUNK // self.shape.columns)
            for start in range(0, len(matrix), step):
                hash_numbers(digest, matrix[start : start + step].ravel(), np.float32)
        return digest.hexdigest()

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` (int >= 0)."""
        if into.shape != self._shape:
            raise DataError(f"MatrixSource: a block of {into.shape} cannot hold {self._shape}.")
        if pass_ < 0 or not 0 <= index < self._blocks:
            raise DataError(
                f"MatrixSource: block {index} of pass {pass_}, but blocks are 0 to "
                f"{self._blocks - 1} and passes start at 0."
            )
        start = index * self._shape.rows
        rows = min(self._shape.rows, self._shape.total_rows - start)
        ids = into.row_ids[:rows]
        if self._shuffle:
            with self._lock:
                if self._order_pass != pass_:
                    shuffle_rows(self._seed, pass_, self._order)
                    self._order_pass = pass_
                ids[:] = self._order[start : start + rows]
        else:
            count_up(start, ids)
        self._gather(ids, into)
        into.finish(pass_=pass_, index=index, rows=rows)

    def _gather(self, ids: npt.NDArray[np.int64], into: HostBlock) -> None:
        matrix = self._matrix
        if not isinstance(matrix, CSR):
            gather_dense(ids, matrix, into.dense)
            return
        misfit = gather_csr(
            ids, matrix.indptr, matrix.indices, matrix.values,
            into.indptr, into.indices, into.values,
        )  # fmt: skip
        if misfit >= 0:
            raise DataError(
                f"MatrixSource: row {ids[misfit]} is not what it was when the source was made; "
                "do not change X while it is in use."
            )

    def __repr__(self) -> str:
        """Sizes and settings."""
        shape = self._shape
        kind = "dense" if shape.dense else "sparse"
        return (
            f"MatrixSource({shape.total_rows} rows, {shape.columns} columns, {kind}, "
            f"block_rows={shape.rows}, shuffle={self._shuffle}, seed={self._seed})"
        )


def check_columns(rows: int, columns: int, names: Sequence[str] | None) -> None:
    """Columns that an int32 can number, and one name for each."""
    if columns > MAX_COLUMNS:
        raise DataError(f"MatrixSource: X has {columns} columns, but at most {MAX_COLUMNS} work.")
    if names is not None and len(names) != columns:
        hint = "; if samples are columns, pass X.T" if len(names) == rows else ""
        raise DataError(
            f"MatrixSource: X has {columns} columns and {len(names)} names, but each column has "
            f"one name{hint}."
        )


def largest_block(indptr: npt.NDArray[np.int64], block_rows: int, shuffle: bool) -> int:
    """Non-zeros that a block can have: the most of any, in any order if rows are shuffled.

    At least 1, so that no buffer is empty.

    >>> offsets = np.array([0, 5, 6, 9])
    >>> largest_block(offsets, 2, shuffle=False), largest_block(offsets, 2, shuffle=True)
    (6, 8)
    """
    if shuffle:
        lengths = np.diff(indptr)
        if block_rows < lengths.size:
            lengths = np.partition(lengths, lengths.size - block_rows)[-block_rows:]
        return max(1, int(lengths.sum()))
    ends = np.append(indptr[:-1:block_rows], indptr[-1])
    return max(1, int(np.diff(ends).max()))


def hash_numbers(
    digest: xxhash.xxh3_64, numbers: npt.NDArray[Any], dtype: type[np.generic]
) -> None:
    """Add `numbers`, converted to `dtype` chunk by chunk, to a digest."""
    for start in range(0, numbers.size, HASH_CHUNK):
        digest.update(np.ascontiguousarray(numbers[start : start + HASH_CHUNK], dtype).data)
