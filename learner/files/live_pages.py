"""Pages of live tables: whether they have what training wrote, and how long it waited for them.

A block takes its rows out of the digests before it changes them, and puts them in afterwards. So a
page that changes in any other way no longer has its digest, also when blocks change other rows of
it. Pages are compared before their contents leave the tables: for a checkpoint, a parameter, or the
end of a pass that brings all rows up to date.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PageError
from ..memory import seconds_queued
from .lost_pages import Watched
from .page_digests import PageDigests, distinct
from .paging import PagedArray
from .stripes import Stripes

AT_ONCE = 2**16  # pages


class LivePages:
    """The pages of the tables of one learner.

    lock: held while rows get their first values, and while pages are compared.
    waited: seconds that training has waited for pages of rows that a block needs.
    settled: whether tables have, for a while, other numbers than training continues from.
    """

    def __init__(self, lock: threading.Lock) -> None:
        """Know no table yet."""
        self.lock = lock
        self.waited, self.settled = 0.0, False
        self._digests: dict[str, PageDigests] = {}
        self._places: dict[str, Stripes] = {}
        self._trained: list[PageDigests] = []  # whose rows blocks change
        self._watched: list[Watched] = []
        self._new: list[tuple[int, int, tuple[str, ...]]] = []  # rows with first values, tables
        self._seen = np.zeros(0, np.uint8)
        self._rows = np.zeros(0, np.int32)

    @property
    def nbytes(self) -> int:
        """The bytes of all digests, and of a bit for each row."""
        return sum(each.sums.nbytes for each in self._digests.values()) + self._seen.nbytes

    def add(
        self, name: str, table: PagedArray, group: int, place: Stripes, *, trained: bool = True
    ) -> None:
        """Know a table of zeros, of which `group` rows are a page.

        place: its files. trained: whether blocks change its rows.
        """
        self._digests[name], self._places[name] = PageDigests(table.array, group), place
        if trained:
            self._trained.append(self._digests[name])
        self._seen = np.zeros(-(-len(table.array) // 8), np.uint8)
        self.watch(Watched(table.array, place))

    def watch(self, watched: Watched) -> None:
        """Look for lost pages of a further array, too."""
        self._watched.append(watched)

    def check_lost(self) -> None:
        """Raise PageError if a page was lost."""
        for each in self._watched:
            each.check()

    # ------------------------------------------------------------- changes

    def leave(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """Take rows out that will change, and wait for their pages; return them once each.

        Raises PageError if a page is lost. Call `arrive` with what it returns.
        """
        clock, busy, queued = perf_counter(), thread_time(), seconds_queued()
        self._add_new()
        if len(self._rows) < len(rows):
            self._rows = np.empty(len(rows), np.int32)
        given = rows.astype(np.int32, copy=False)
        found = self._rows[: distinct(given, self._seen, self._rows)]
        for digests in self._trained:
            digests.leave(found)
        idle = perf_counter() - clock - (thread_time() - busy) - (seconds_queued() - queued)
        self.waited += max(0.0, idle)
        self.check_lost()
        return found

    def arrive(self, rows: NDArray[np.int32]) -> None:
        """Put rows in that have changed. Raises PageError if a page was lost meanwhile."""
        for digests in self._trained:
            digests.arrive(rows)
        self.check_lost()

    def begins(self, first: int, end: int, names: tuple[str, ...]) -> None:
        """Note that new rows of these tables have their first values, which were zeros before.

        The thread that trains puts them in: blocks with these rows come later.
        """
        if end > first and names:
            self._new.append((first, end, names))

    def renew(self, name: str, rows: int | None = None) -> None:
        """Take the first `rows` rows of a table as they are now; None: all."""
        self._digests[name].renew(rows)

    def begin_anew(self) -> None:
        """Forget new rows, whose places other columns will get."""
        self._new.clear()

    def _add_new(self) -> None:
        while self._new:
            first, end, names = self._new.pop(0)
            rows = np.arange(first, end, dtype=np.int32)
            for name in names:
                self._digests[name].arrive(rows)

    # ------------------------------------------------------------- checks

    @contextmanager
    def checked(self, pages: NDArray[np.integer[Any]]) -> Iterator[None]:
        """Compare these pages of all tables; they stay as they are in a `with` statement.

        Raises PageError if one does not have its digest, or is lost. Nothing is compared while
        tables are `settled`.
        """
        with self.lock:
            self._add_new()
            for start in range(0, 0 if self.settled else len(pages), AT_ONCE):
                for name in self._digests:
                    self._compare(name, pages[start : start + AT_ONCE].astype(np.int64))
            self.check_lost()
            yield
        self.check_lost()

    def check_rows(self, count: int) -> None:
        """Compare the pages of the first `count` rows, if there are tables: see `checked`."""
        if not self._digests:
            return
        group = next(iter(self._digests.values())).group
        with self.checked(np.arange(-(-count // group))):
            pass

    def _compare(self, name: str, pages: NDArray[np.int64]) -> None:
        digests = self._digests[name]
        page = digests.damaged(pages)
        if page is None:
            return
        self.check_lost()  # its zeros do not have the digest
        raise damage(name, page, digests, self._places[name])


def damage(name: str, page: int, digests: PageDigests, place: Stripes) -> PageError:
    """Return the error for a page of a table or state `name`. place: its files."""
    nbytes = digests.group * digests.row_bytes
    file, byte = place.at(page * nbytes)
    return PageError(
        f"{file}: page {page:,} of {name!r} (bytes {byte:,} to {byte + nbytes - 1:,}) is "
        "damaged: its contents are not what training wrote. Find out what changes the file, or "
        "choose a folder on another disk, and resume from the last checkpoint."
    )
