"""Count the words of texts with compiled code, as `words` finds them.

Words are numbered as they occur first. The table of their hashes has open addresses (Knuth, TAOCP
3, 6.4, algorithm L); a word is compared in full, so no two words share a number.
"""

from collections.abc import Sequence, Set
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..arrays.compiled import kernel
from .words import STOP_WORDS

SHORTEST = 3  # letters of a word
CODES = 0x110000  # of Unicode
EMPTY = -1  # in a place of the table

_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
_HALF = np.uint64(32)

Array = TypeVar("Array", bound=npt.NDArray[Any])
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]


class WordCounts(NamedTuple):
    """How often each word occurs in each text.

    ends: int64 [texts + 1], where the words of each text begin, and the end of the last.
    numbers, counts: int32 [n], the words of a text as they occur first.
    """

    ends: Int64
    numbers: Int32
    counts: Int32


class Words(NamedTuple):
    """Words by their numbers, and numbers by the hashes of words.

    table: numbers of words by hash; its size is a power of two.
    hashes, starts, letters: of each word, where its letters begin in `letters`, and these.
    last: where each word was counted last, in `numbers` of the counts; of earlier calls, or
        anything, where that is not in the present text.
    """

    table: Int32
    hashes: UInt32
    starts: Int64
    letters: UInt32
    last: Int64


class WordTable:
    """Gives words numbers.

    - words: the word of each number.

    >>> table = WordTable()
    >>> found = table.count(["The SOCKET's socket", "a pipe"])
    >>> table.words, found.ends.tolist(), found.numbers.tolist(), found.counts.tolist()
    (['socket', 'pipe'], [0, 1, 2], [0, 1], [2, 1])
    """

    def __init__(self, stop: Set[str] = STOP_WORDS) -> None:
        """Begin without words. stop: words that are left out, in lower case."""
        self.words: list[str] = []
        self._known = Words(
            np.full(1 << 10, EMPTY, np.int32), np.empty(0, np.uint32), np.zeros(1, np.int64),
            np.empty(0, np.uint32), np.empty(0, np.int64),
        )  # fmt: skip
        self._size = self._left_out = 0
        if stop:
            self.count([" ".join(sorted(stop))])
            self._left_out, self.words = self._size, []

    def count(self, texts: Sequence[str]) -> WordCounts:
        """Count the words of texts: runs of three or more letters of any script, in lower case."""
        lowered = [text.lower() for text in texts]
        joined = "".join(lowered)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
        ends = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, lowered), np.int64, len(texts)), out=ends[1:])
        most = len(codes) // SHORTEST  # words follow each other only across the ends of texts
        found = WordCounts(np.zeros_like(ends), np.empty(most, np.int32), np.empty(most, np.int32))
        text, known = 0, self._size
        while True:
            text, self._size = find_words(
                codes, ends, is_letter(joined.isascii()), text, self._known, self._size,
                self._left_out, found,
            )  # fmt: skip
            if text == len(texts):
                break
            self._grow(int(ends[text + 1] - ends[text]))
        self._name(known)
        size = found.ends[-1]
        return WordCounts(found.ends, found.numbers[:size], found.counts[:size])

    def _grow(self, codes: int) -> None:
        """Make room for a text of so many codes, and for as much again as there is."""
        words = 2 * self._size + most_words(codes)
        table, hashes, starts, letters, last = self._known
        hashes, last, starts = larger(hashes, words), larger(last, words), larger(starts, words + 1)
        letters = larger(letters, 2 * int(starts[self._size]) + codes)
        if 2 * words > len(table):
            table = np.full(1 << (2 * words).bit_length(), EMPTY, np.int32)
            place_words(table, hashes, self._size)
        self._known = Words(table, hashes, starts, letters, last)

    def _name(self, first: int) -> None:
        """Add the words from number `first` on, with those left out, to `words`."""
        starts = self._known.starts[first : self._size + 1]
        letters = self._known.letters[starts[0] : starts[-1]].astype("<u4").tobytes()
        text = letters.decode("utf-32-le")
        self.words += [text[a:b] for a, b in pairwise((starts - starts[0]).tolist())]


def most_words(codes: int) -> int:
    """Return how many words a text of so many codes has at most: each but the last has an end."""
    return (codes + 1) // (SHORTEST + 1)


def larger(array: Array, size: int) -> Array:
    """Return an array of `size` that begins as `array`; itself if it is as large already."""
    return array if len(array) >= size else cast(Array, np.resize(array, size))


@cache
def is_letter(ascii_only: bool) -> npt.NDArray[np.bool_]:
    """Return whether each code is of a letter. ascii_only: of the first 128 codes."""
    characters = np.arange(128 if ascii_only else CODES, dtype=np.uint32).view("<U1")
    return np.char.isalnum(characters) & ~np.char.isdecimal(characters)


@kernel
def find_words(
    codes: UInt32, ends: Int64, letter: npt.NDArray[np.bool_], text: int, words: Words, size: int,
    left_out: int, to: WordCounts,
) -> tuple[int, int]:  # fmt: skip
    """Count words from `text` on, until there may be no room for the words of the next one.

    codes, ends: the texts [n codes], and where each begins, and the last ends.
    letter: whether each code is of a letter.
    size, left_out: number of words, and of those that are not counted, the first ones.

    Returns the text to go on with, and the number of words.
    """
    table, hashes, starts, letters, last = words
    mask, found = len(table) - 1, to.ends[text]
    while text < len(ends) - 1:
        at, end = ends[text], ends[text + 1]
        room = size + (end - at + 1) // (SHORTEST + 1)
        if room > len(hashes) or 2 * room > len(table) or starts[size] + end - at > len(letters):
            break
        begin = found
        while at < end:
            first, mixed = at, _SEED
            while at < end and letter[codes[at]]:
                mixed = (mixed ^ np.uint64(codes[at])) * _PRIME
                at += 1
            length = at - first
            at += 1
            if length < SHORTEST:
                continue
            short = np.uint32(mixed ^ (mixed >> _HALF))
            place = np.int64(short) & mask
            while table[place] >= 0:
                number = table[place]
                if hashes[number] == short and starts[number + 1] - starts[number] == length:
                    own, same = starts[number], 0
                    while same < length and letters[own + same] == codes[first + same]:
                        same += 1
                    if same == length:
                        break
                place = (place + 1) & mask
            number = table[place]
            if number < 0:
                number = table[place] = size
                hashes[size] = short
                own = starts[size]
                for i in range(length):
                    letters[own + i] = codes[first + i]
                size += 1
                starts[size] = own + length
            if number < left_out:
                continue
            number -= left_out
            before = last[number]
            if begin <= before < found and to.numbers[before] == number:
                to.counts[before] += 1
            else:
                last[number], to.numbers[found], to.counts[found] = found, number, 1
                found += 1
        text += 1
        to.ends[text] = found
    return text, size


@kernel
def place_words(table: Int32, hashes: UInt32, size: int) -> None:
    """Place `size` words in an empty table by their hashes."""
    mask = len(table) - 1
    for number in range(size):
        place = np.int64(hashes[number]) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = number
