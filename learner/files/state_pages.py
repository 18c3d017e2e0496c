"""Pages of states of rows in a file: whether they have what training wrote.

A page is compared when a block takes a row of it, once in a pass, and before the state is read as a
whole: as a table, by a checkpoint, by a model that is saved.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .live_pages import damage
from .lost_pages import Watched
from .page_digests import PageDigests
from .paging import PAGE, map_of

Ids = NDArray[np.int64]


class StatePages:
    """Compares the pages of the state `name`, whose array lies in a file. Replicas may share it.

    Each method raises PageError if a page is damaged or lost.
    """

    def __init__(self, name: str, array: NDArray[Any], watched: Watched) -> None:
        """Take the array for zeros. watched: finds its lost pages."""
        self._name, self._watched, self._lock = name, watched, threading.Lock()
        self._map = map_of(array)
        self._digests = PageDigests(array.reshape(-1, 1), PAGE // array.itemsize)
        self._known = np.zeros(len(self._digests.sums), np.bool_)  # pages compared in this pass
        self._size = self._left = array.size  # numbers of the pass that were not read yet

    @contextmanager
    def reading(self, begin: Ids, end: Ids) -> Iterator[None]:
        """Read numbers, from `begin` to `end` of each range, in a `with` statement."""
        with self._lock:
            if self._left <= 0:
                self._known[:], self._left = False, self._size
            self._left -= int((end - begin).sum())
            self._refuse(self._digests.damaged_at(begin, end, self._known))
            yield

    @contextmanager
    def writing(self, begin: Ids, end: Ids) -> Iterator[None]:
        """Change numbers, from `begin` to `end` of each range, in a `with` statement."""
        with self._lock:
            self._digests.leave_ranges(begin, end)
            yield
            self._digests.arrive_ranges(begin, end)

    def check(self) -> None:
        """Compare all pages."""
        with self._lock:
            self._refuse(self._digests.damaged(np.arange(len(self._digests.sums))))

    def expect(self, *, in_order: bool) -> None:
        """Tell the system whether rows are read in their order, so that it reads ahead."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_SEQUENTIAL if in_order else mmap.MADV_NORMAL)

    def renew(self) -> None:
        """Take the array as it is now."""
        with self._lock:
            self._digests.renew()

    def _refuse(self, page: int | None) -> None:
        self._watched.check()  # zeros in place of a lost page do not have its digest
        if page is not None:
            raise damage(self._name, page, self._digests, self._watched.place)
