"""Digests of the pages of a live array in a file, which follow the rows that training changes.

The digest of a page is the sum of its words of 32 bits, each times an odd key of its place, modulo
2^64 (multilinear hashing, Lemire and Kaser 2014). It is linear in the words: rows that change are
taken out before and put in after, so a block costs its own rows only, and a page need not be read
to keep its digest. Any change within one word is found, for keys are odd; of other changes, one in
2^64 or so is missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.datasources.arrays.hashing import GOLDEN

Ids = NDArray[np.int64]


class PageDigests:
    """The digests of an array, of which `group` rows are a page. An array of zeros has zeros.

    sums: uint64 [pages]. row_bytes: of a row. Words have 32 bits, those of uint16 have 16.
    """

    def __init__(self, array: NDArray[Any], group: int) -> None:
        """Take the array for zeros."""
        word = min(array.itemsize, 4)
        self._words = array.reshape(len(array), -1).view(f"u{word}")
        self.group, self.row_bytes = group, word * self._words.shape[1]
        self.sums = np.zeros(-(-len(array) // group), np.uint64)
        counter = np.arange(1, group * self._words.shape[1] + 1, dtype=np.uint64)
        mixed = counter * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self._keys = (mixed | np.uint64(1)).reshape(group, -1)
        self._flat = self._words.reshape(-1), self._keys.reshape(-1)

    def leave(self, rows: NDArray[np.int32]) -> None:
        """Take rows out, which will change. Each is listed once."""
        _add(self._words, self._keys, rows, self.sums, False)

    def arrive(self, rows: NDArray[np.int32]) -> None:
        """Put rows in, as they are now. Each is listed once."""
        _add(self._words, self._keys, rows, self.sums, True)

    def leave_ranges(self, begin: Ids, end: Ids) -> None:
        """Take words out, which will change: from `begin` to `end`, of each range."""
        _add_ranges(*self._flat, begin, end, self.sums, False)

    def arrive_ranges(self, begin: Ids, end: Ids) -> None:
        """Put words in, as they are now. See `leave_ranges`."""
        _add_ranges(*self._flat, begin, end, self.sums, True)

    def renew(self, rows: int | None = None) -> None:
        """Take the pages of the first `rows` rows as they are now; None: of all."""
        pages = self.sums[: None if rows is None else -(-rows // self.group)]
        _sum_pages(*self._flat, pages)

    def damaged(self, pages: Ids) -> int | None:
        """Return the first of these pages whose rows do not have its digest; None: all have it."""
        found: int = _first_damaged(*self._flat, pages, self.sums)
        return None if found < 0 else found

    def damaged_at(self, begin: Ids, end: Ids, known: NDArray[np.bool_]) -> int | None:
        """Return the first damaged page with words of these ranges: see `damaged`.

        known: pages that need not be compared, to which the others are added.
        """
        found: int = _first_damaged_at(*self._flat, begin, end, self.sums, known)
        return None if found < 0 else found


@kernel
def distinct(rows: NDArray[np.int32], seen: NDArray[np.uint8], into: NDArray[np.int32]) -> int:
    """Set `into` to the rows without repetitions, in order; return their number.

    seen: a bit for each row of the table, all 0 before and after.
    """
    count = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        bit = np.uint8(1 << (row & 7))
        if not seen[row >> 3] & bit:
            seen[row >> 3] |= bit
            into[count] = row
            count += 1
    for i in range(count):
        seen[into[i] >> 3] = 0
    return count


@kernel
def _add(
    words: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    rows: NDArray[np.int32],
    sums: NDArray[np.uint64],
    put: bool,
) -> None:
    """Add rows to the digests of their pages, or subtract them."""
    group = np.int32(keys.shape[0])
    for i in range(rows.shape[0]):
        row = rows[i]
        page = row // group
        place = row - page * group
        found = np.uint64(0)
        for j in range(words.shape[1]):
            found += np.uint64(words[row, j]) * keys[place, j]
        if put:
            sums[page] += found
        else:
            sums[page] -= found


@kernel
def _add_ranges(
    words: NDArray[Any], keys: NDArray[np.uint64], begin: Ids, end: Ids,
    sums: NDArray[np.uint64], put: bool,
) -> None:  # fmt: skip
    """Add ranges of words to the digests of their pages, or subtract them."""
    for i in range(begin.shape[0]):
        at = begin[i]
        while at < end[i]:
            page = at // keys.shape[0]
            first = page * keys.shape[0]
            found = np.uint64(0)
            for word in range(at, min(end[i], first + keys.shape[0])):
                found += np.uint64(words[word]) * keys[word - first]
            if put:
                sums[page] += found
            else:
                sums[page] -= found
            at = first + keys.shape[0]


@kernel
def _sum_pages(words: NDArray[Any], keys: NDArray[np.uint64], sums: NDArray[np.uint64]) -> None:
    """Compute the digests of all pages."""
    for page in range(sums.shape[0]):
        sums[page] = _of_page(words, keys, page)


@kernel
def _first_damaged(
    words: NDArray[Any], keys: NDArray[np.uint64], pages: Ids, sums: NDArray[np.uint64]
) -> int:
    """Return the first of the pages with another digest; -1: there is none."""
    for i in range(pages.shape[0]):
        if _of_page(words, keys, pages[i]) != sums[pages[i]]:
            return int(pages[i])
    return -1


@kernel
def _first_damaged_at(
    words: NDArray[Any], keys: NDArray[np.uint64], begin: Ids, end: Ids,
    sums: NDArray[np.uint64], known: NDArray[np.bool_],
) -> int:  # fmt: skip
    """Return the first page with words of these ranges and another digest; -1: there is none."""
    for i in range(begin.shape[0]):
        if begin[i] < end[i]:
            for page in range(begin[i] // keys.shape[0], (end[i] - 1) // keys.shape[0] + 1):
                if not known[page]:
                    known[page] = True
                    if _of_page(words, keys, page) != sums[page]:
                        return int(page)
    return -1


@kernel
def _of_page(words: NDArray[Any], keys: NDArray[np.uint64], page: int) -> np.uint64:
    """Compute the digest of a page."""
    first = page * keys.shape[0]
    found = np.uint64(0)
    for word in range(first, min(first + keys.shape[0], words.shape[0])):
        found += np.uint64(words[word]) * keys[word - first]
    return found
