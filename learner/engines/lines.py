"""Arrays as one list of short lines, which are compared by digests and sent one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.datasources.arrays.hashing import GOLDEN, mix_one

LINE = 64
"""Numbers of a line: a digest of 8 bytes stands for 256 bytes of float32."""

SAME_NOWHERE = 0
"""The digest of a line with a number that is not finite: it equals no other line."""


class Lines:
    """The lines of contiguous `arrays` of one dtype, one array after another.

    count: the number of lines. The last line of an array is filled up with zeros.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self._arrays = [array.reshape(-1) for array in arrays]
        self.dtype = arrays[0].dtype
        counts = [-(-array.size // LINE) for array in self._arrays]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.count = int(self._starts[-1])

    def digests(self) -> NDArray[np.uint64]:
        """Return a digest of each line: its bits decide it, and the chance of a clash is 2^-64."""
        found = np.empty(self.count, np.uint64)
        for start, array in zip(self._starts, self._arrays, strict=False):
            whole = array.size // LINE
            full = array[: whole * LINE].reshape(whole, LINE)
            _digest(full, full.view(np.uint64), found[start : start + whole])
            if array.size % LINE:
                tail = _filled(array[whole * LINE :])[None]
                _digest(tail, tail.view(np.uint64), found[start + whole : start + whole + 1])
        return found

    def take(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return copies of lines [ids x LINE]; ids: ascending."""
        found = np.zeros((ids.size, LINE), self._arrays[0].dtype)
        for array, inside, whole, full in self._parts(ids):
            found[inside][: full.size] = array[: whole * LINE].reshape(whole, LINE)[full]
            if full.size < inside.stop - inside.start:
                found[inside.stop - 1, : array.size - whole * LINE] = array[whole * LINE :]
        return found

    def put(self, ids: NDArray[np.int64], lines: NDArray[Any]) -> None:
        """Replace lines by `lines` [ids x LINE]; ids: ascending."""
        for array, inside, whole, full in self._parts(ids):
            array[: whole * LINE].reshape(whole, LINE)[full] = lines[inside][: full.size]
            if full.size < inside.stop - inside.start:
                array[whole * LINE :] = lines[inside.stop - 1, : array.size - whole * LINE]

    def _parts(
        self, ids: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[Any], slice, int, NDArray[np.int64]]]:
        """Yield each array with lines in `ids`.

        With it come their places in `ids`, its number of whole lines, and the numbers of the whole
        lines among these; its last line, if not whole, is one more.
        """
        bounds = np.searchsorted(ids, self._starts)
        for number, array in enumerate(self._arrays):
            inside = slice(int(bounds[number]), int(bounds[number + 1]))
            if inside.stop > inside.start:
                whole = array.size // LINE
                own = ids[inside] - self._starts[number]
                yield array, inside, whole, own[own < whole]


def _filled(part: NDArray[Any]) -> NDArray[Any]:
    found = np.zeros(LINE, part.dtype)
    found[: part.size] = part
    return found


@kernel
def _digest(lines: NDArray[Any], words: NDArray[np.uint64], found: NDArray[np.uint64]) -> None:
    """Digest lines [n x LINE], given as words [n x w] too: the sum of SplitMix64 of each word.

    Steele, Lea, Flood 2014. Each word is moved by its place first. A change of one word always
    changes the digest, for the function is a bijection.
    """
    for i in range(lines.shape[0]):
        total = np.uint64(0)
        for j in range(words.shape[1]):
            total += mix_one(words[i, j] + GOLDEN * np.uint64(j + 1))
        finite = True
        for j in range(lines.shape[1]):
            finite &= lines[i, j] - lines[i, j] == 0
        found[i] = max(total, np.uint64(1)) if finite else np.uint64(SAME_NOWHERE)
