"""Lists of the best rows of a table, in memory of a fixed size."""

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
NAMED = 3  # arrays that a message lists


class TopLists:
    """Finds the n table rows that have the largest products with given rows.

    While the cache is being planned, the constructor plans all memory: the rows, the lists and the
    left-out entries. Nothing is allocated later.
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
        """Plan the memory.

        Args:
            cache: the cache of the memory.
            table: returns a handle on the table, float32 [m x columns or more].
            n: the length of the lists.
            columns: k, how many columns of the table count, from the first.
            block_rows: the most rows at a time.
            entries: the most entries that lists leave out at a time.
            unit: whether table rows count as if of length 1.
        """
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
        """Return table row numbers int32 [r x n] and products float32 [r x n].

        The best comes first; of equal products, the lower number. Short lists are filled with -1
        and -inf.

        Args:
            rows: float32 [r x k].
            leave_out: a SciPy `csr_array` [r x m] of the table rows that do not count, with up to
                `entries` entries and ascending indices; None: all count.
        """
        np.copyto(self.room[: len(rows)], rows)
        top = self.find(len(rows), leave_out)
        return top.ids.numpy()[: len(rows)], top.scores.numpy()[: len(rows)]

    @cached_property
    def room(self) -> Array:
        """The buffer that `find` takes rows from, float32 [block_rows x columns]."""
        return np.zeros(self._rows.shape, np.float32)

    def find(self, rows: int, leave_out: Any = None) -> Any:
        """Return `ids` and `scores` for the first `rows` rows of `room`; see `of`.

        They are Mats [block_rows x n], valid until the next call.
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
    """Yield `TopLists` in a cache of their own, which is freed at the end.

    Args:
        table: float32 [m x columns or more], C-contiguous; the CPU does not copy it.
        n: the length of the lists.
        opened: makes the backend.
        columns: how many columns of the table count, from the first.
        block_rows: the most rows at a time.
        entries: the most entries that lists leave out at a time.
        unit: whether table rows count as if of length 1.

    Raises:
        MemoryPlanError: the device has too little memory.

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
    """Raise `MemoryPlanError` if a device has less memory than was planned."""
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
