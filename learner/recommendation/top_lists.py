"""Lists of the best rows of a table, for block after block of rows, in memory of a fixed size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import DenseInput, Mat, MatCache, SparseInput, named, top_products
from blocklearn.matcache.containers.backend import Backend
from blocklearn.matcache.errors import MemoryPlanError

Array = NDArray[Any]
NAMED = 3  # arrays of a message


class TopLists:
    """For rows [r <= block_rows x k], the n rows of a table that have the largest products with
    each.

    cache: that has the memory. While it is being planned, all of it is planned here and now: the
    rows, the lists and room for `entries` of what they leave out; nothing is allocated later.
    table: makes a handle on the table, float32 [m x k or more], of which the first k columns count.
    unit: its rows count as if of length 1.
    """

    def __init__(
        self,
        cache: MatCache,
        table: Callable[[], Mat],
        n: int,
        *,
        columns: int,
        block_rows: int,
        entries: int = 0,
        unit: bool = False,
    ) -> None:
        """Without contents."""
        self.n, self.unit, self.block_rows, self.entries = n, unit, block_rows, entries
        self._table = table
        self._rows = named(cache, "rows that lists are made for", (block_rows, columns))
        self._left_out: SparseInput | None = None
        if entries:
            name, items = "what lists leave out", table().shape[0]
            self._left_out = SparseInput(cache, name, block_rows, items, entries, indexed=False)
        if cache.reserving:
            self._top()

    def of(self, rows: Array, leave_out: Any = None) -> tuple[Array, Array]:
        """Numbers int32 [r x n] of table rows, best first, and their products float32 [r x n].

        leave_out: a SciPy `csr_array` [r x m] of up to `entries` entries, indices ascending, of
        table rows that do not count. Of equal products the lower number comes first; -1 and -inf
        where there are no more.
        """
        np.copyto(self.room[: len(rows)], rows)
        top = self.find(len(rows), leave_out)
        return top.ids.numpy()[: len(rows)], top.scores.numpy()[: len(rows)]

    @cached_property
    def room(self) -> Array:
        """Where `find` takes rows from: float32 [block_rows x columns]."""
        return np.zeros(self._rows.shape, np.float32)

    def find(self, rows: int, leave_out: Any = None) -> Any:
        """`ids` and `scores` of the first `rows` rows of `room`: Mats [block_rows x n], see `of`.

        They are valid until the next call.
        """
        assert leave_out is None or leave_out.nnz <= self.entries
        self.room[rows:] = 0.0
        self._rows.set(self.room)
        self._rows.version = self._rows.slot.version
        if self._left_out is not None:
            self._bind(self._left_out, leave_out)
        return self._top()

    def _bind(self, room: SparseInput, matrix: Any) -> None:
        counted = np.zeros(self.block_rows + 1, np.int64)
        indices, values = np.empty(0, np.int32), np.empty(0, np.float32)
        if matrix is not None:
            counted[: len(matrix.indptr)] = matrix.indptr
            counted[len(matrix.indptr) :] = matrix.indptr[-1]
            indices = matrix.indices.astype(np.int32, copy=False)
            values = matrix.data.astype(np.float32, copy=False)
        room.bind(indptr=counted, indices=indices, values=values)

    def _top(self) -> Any:
        left_out = None if self._left_out is None else self._left_out.handle()
        return top_products(self._rows, self._table(), self.n, leave_out=left_out, unit=self.unit)


@contextmanager
def top_lists(
    table: Array,
    n: int,
    opened: Callable[[], Backend],
    *,
    columns: int,
    block_rows: int,
    entries: int = 0,
    unit: bool = False,
) -> Iterator[TopLists]:
    """`TopLists` in a cache of their own, which is freed at the end. opened: makes its backend.

    table: float32 [m x columns or more], C-contiguous; the CPU does not copy it. Raises
    `MemoryPlanError` where a device has not the room for all of it.

    >>> from blocklearn.matcache.cpu.backend import CPU
    >>> table, rows = np.eye(3, dtype=np.float32), np.array([[0.5, 2.0, 1.0]], np.float32)
    >>> with top_lists(table, 2, lambda: CPU(1), columns=3, block_rows=4) as lists:
    ...     ids, scores = lists.of(rows)
    >>> ids.tolist(), scores.tolist()
    ([[1, 2]], [[2.0, 1.0]])
    """
    with MatCache(backend=opened(), reserving=True) as cache:
        given = DenseInput(cache, "what is listed", table.shape, np.float32, copies=1)
        lists = TopLists(
            cache, given.handle, n,
            columns=columns, block_rows=block_rows, entries=entries, unit=unit,
        )  # fmt: skip
        _check_room(cache, lists, len(table))
        cache.commit()
        cache.freeze()
        given.bind(table)
        yield lists


def _check_room(cache: MatCache, lists: TopLists, count: int) -> None:
    """Raises `MemoryPlanError` where a device has less than was planned."""
    plan, free = cache.plan(), cache.backend.free_bytes
    needed = sum(array.nbytes for array in plan)
    if free is None or needed <= free:
        return
    largest = "; ".join(f"{array.label}: {array.nbytes:,}" for array in plan[:NAMED])
    raise MemoryPlanError(
        f"Lists of {lists.n:,} out of {count:,}, for {lists.block_rows:,} rows at a time, need "
        f"{needed:,} bytes of the device, and {free:,} are free. Largest: {largest}. Ask for "
        "shorter lists (n), or for those of fewer rows at a time; list fewer items (items=); or "
        "make them on the CPU (device: cpu), where nothing is copied."
    )
