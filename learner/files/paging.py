"""Ask the operating system for pages of mapped files before they are read.

Reading a page that is not in memory waits for the disk, one page after another. If a disk is asked
for many pages at once, it delivers several times as many in the same time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
PROCESS_MADVISE = 440  # its number on all processors that Linux added system calls to since 2019
MOST = 1024  # ranges of one call, as Linux defines them (UIO_MAXIOV)

LOOKED_AT = 32  # pages of those that are asked for together

Ranges = NDArray[np.int64]
"""Ranges of bytes [n x 2]: offset and length, in whole pages, ascending."""


def pages_of(
    parts: NDArray[np.integer[Any]], part_bytes: int, nbytes: int, start: int = 0
) -> Ranges:
    """Return the pages of a file that hold these parts; neighbours are one range.

    parts: their numbers, ascending. part_bytes: of one part. nbytes: of all; the last part may be
        shorter. start: the byte of the file at which the parts begin.

    >>> pages_of(np.array([0, 4, 20]), PAGE // 4, 10 * PAGE) // PAGE
    array([[0, 2],
           [5, 1]])
    """
    if not parts.size:
        return np.empty((0, 2), np.int64)
    begin = parts.astype(np.int64) * part_bytes
    end = np.minimum(begin + part_bytes, nbytes)
    first, last = (start + begin) // PAGE, (start + end - 1) // PAGE
    gaps = np.flatnonzero(first[1:] > last[:-1] + 1)
    first, last = first[np.append(0, gaps + 1)], last[np.append(gaps, len(last) - 1)]
    return np.stack([first, last - first + 1], axis=1) * PAGE


class PageCount(NamedTuple):
    """How many pages of files were asked for, and of how many memory had a copy already.

    The second number is estimated: `LOOKED_AT` of the pages that are asked for together are looked
    at, spread evenly over the file.
    """

    asked: int = 0
    hits: int = 0

    def plus(self, other: PageCount) -> PageCount:
        """Return the sum."""
        return PageCount(self.asked + other.asked, self.hits + other.hits)


class PagedArray:
    """An array that is mapped from a file, whose pages can be asked for.

    array: of the whole file, or of a part of it.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        """Tell the system that pages are read in no order: it then reads none but these."""
        self.array, self._map = array, map_of(array)
        self._row_bytes = array.nbytes // max(1, len(array))
        self._address = array.ctypes.data if self._map is None else address_of(self._map)
        self._start = array.ctypes.data - self._address
        self.expect_some()

    def expect_some(self) -> None:
        """Tell the system that pages are read in no order."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_RANDOM)

    def expect_all(self) -> None:
        """Tell the system that pages are read one after another: it reads the next ones, too."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)

    def fetch(self, groups: NDArray[np.integer[Any]], rows: int) -> PageCount:
        """Ask for the pages of these groups of rows, without waiting for them.

        groups: their numbers, ascending. rows: of each group.

        Pages that are in memory stay there. Nothing happens if the system cannot be asked.
        """
        if self._map is None or not hasattr(mmap, "MADV_WILLNEED"):
            return PageCount()
        part_bytes = rows * self._row_bytes
        ranges = pages_of(groups, part_bytes, self.array.nbytes, self._start)
        found = _count(self._address, ranges)
        for start in range(0, len(ranges), MOST):
            part = ranges[start : start + MOST]
            if not _advise(self._address, part):
                for offset, length in part.tolist():
                    left = min(length, len(self._map) - offset)
                    self._map.madvise(mmap.MADV_WILLNEED, offset, left)
        return found


def fetch_rows(tables: Sequence[PagedArray], rows: NDArray[np.integer[Any]]) -> PageCount:
    """Ask for rows of tables, without waiting for them.

    tables: of equal length, longest rows first. rows: their numbers, in any order.
    """
    array = tables[0].array
    group = rows_of_page(array.nbytes // len(array))
    asked = np.zeros(-(-len(array) // group), bool)
    asked[rows // group] = True
    groups = np.flatnonzero(asked)
    found = PageCount()
    for table in tables:
        found = found.plus(table.fetch(groups, group))
    return found


def rows_of_page(row_bytes: int) -> int:
    """Return how many rows of a table fit into a page; 1 if none does."""
    return max(1, PAGE // row_bytes)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def map_of(array: Any) -> mmap.mmap | None:
    """Return the map that an array is a view of; None: it lies in memory."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def file_of(array: Any) -> Path | None:
    """Return the file that NumPy has mapped for an array; None: it lies in memory."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    name = None if array is None else array.filename
    return None if name is None else Path(name)


def address_of(mapped: mmap.mmap) -> int:
    """Return the address of the first byte of a map."""
    return np.frombuffer(mapped, np.uint8, 1).ctypes.data


def _advise(address: int, ranges: Ranges) -> bool:
    """Ask for up to MOST ranges in one call; return whether the system knows that call."""
    process = _handle(os.getpid())
    if process is None:
        return False
    vector = (ranges + np.array([address, 0])).astype(np.uintp)  # struct iovec
    given = ctypes.c_void_p(vector.ctypes.data), ctypes.c_size_t(len(vector))
    done: int = ctypes.CDLL(None).syscall(
        PROCESS_MADVISE, process, *given, mmap.MADV_WILLNEED, ctypes.c_uint(0)
    )
    return done >= 0


def _count(address: int, ranges: Ranges) -> PageCount:
    """Count the pages of ranges of a map, and look whether some of them are in memory."""
    ends = np.cumsum(ranges[:, 1] // PAGE)
    asked = int(ends[-1]) if len(ends) else 0
    looked_at = min(asked, LOOKED_AT)
    if not looked_at:
        return PageCount()
    numbers = ((2 * np.arange(looked_at) + 1) * asked) // (2 * looked_at)
    of = np.searchsorted(ends, numbers, "right")
    offsets = ranges[of].sum(axis=1) - (ends[of] - numbers) * PAGE
    present = sum(map(_in_memory, (address + offsets).tolist()))
    return PageCount(asked, round(asked * present / looked_at))


def _in_memory(address: int) -> bool:
    """Return whether memory has the page at an address; False if the system does not say."""
    state, page = ctypes.c_ubyte(), ctypes.c_void_p(address)
    known = ctypes.CDLL(None).mincore(page, ctypes.c_size_t(PAGE), ctypes.byref(state))
    return known == 0 and bool(state.value & 1)


@cache
def _handle(process: int) -> int | None:
    """Return a file descriptor of this process; None where the system has no such thing.

    process: its number, another one after a fork.
    """
    try:
        return os.pidfd_open(process)
    except (AttributeError, OSError):
        return None
