"""Lists of the best rows of a table, for block after block of rows, in memory of a fixed size."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...matcache import DenseInput, MatCache, SparseInput, top_products
from ...matcache.devices import make_backend

Array = NDArray[Any]


class TopLists:
    """For rows [r <= block_rows x k], the n rows of `table` that have the largest products with
    each.

    table: float32 [m x k or more], C-contiguous, not copied: the first k columns count. unit: its
    rows count as if of length 1. threads: None: all that the process may use. What is kept from
    block to block: `block_rows` rows, lists and, of what they leave out, nothing. device: see
    `make_backend`; a GPU gets a copy of the table.

    >>> with TopLists(np.eye(3, dtype=np.float32), 2, columns=3, block_rows=4, threads=1) as lists:
    ...     ids, scores = lists.of(np.array([[0.5, 2.0, 1.0]], np.float32))
    >>> ids.tolist(), scores.tolist()
    ([[1, 2]], [[2.0, 1.0]])
    """

    def __init__(
        self,
        table: Array,
        n: int,
        *,
        columns: int,
        block_rows: int,
        threads: int | None = None,
        unit: bool = False,
        device: str = "cpu",
    ) -> None:
        """Start the threads; memory is allocated with the first block."""
        self.n, self.unit = n, unit
        self._cache = MatCache(backend=make_backend(device, threads))
        self._table = DenseInput(self._cache, "table", table.shape, np.float32)
        self._table.bind(table)
        self._buffer = np.zeros((block_rows, columns), np.float32)
        self._rows = DenseInput(self._cache, "rows", self._buffer.shape, np.float32)
        self._left_out = SparseInput(self._cache, "left out", block_rows, len(table), 1)

    def of(self, rows: Array, leave_out: Any = None) -> tuple[Array, Array]:
        """Numbers int32 [r x n] of table rows, best first, and their products float32 [r x n].

        leave_out: a SciPy `csr_array` [r x m], indices ascending, of table rows that do not count.
        Of equal products the lower number comes first; -1 and -inf where there are no more.
        """
        self._buffer[: len(rows)] = rows
        self._buffer[len(rows) :] = 0.0
        table = self._table.handle()
        left_out = None if leave_out is None else self._bind(leave_out)
        top = top_products(
            self._rows.bind(self._buffer), table, self.n, leave_out=left_out, unit=self.unit
        )
        return top.ids.numpy()[: len(rows)], top.scores.numpy()[: len(rows)]

    def _bind(self, matrix: Any) -> Any:
        padding = len(self._buffer) + 1 - len(matrix.indptr)
        return self._left_out.bind(
            indptr=np.pad(matrix.indptr.astype(np.int64), (0, padding), "edge"),
            indices=matrix.indices.astype(np.int32, copy=False),
            values=matrix.data.astype(np.float32, copy=False),
        )

    def close(self) -> None:
        """Free the memory and stop the threads."""
        self._cache.close()

    def __enter__(self) -> Self:
        """Close at the end of a `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever happened."""
        self.close()
