"""Makes rows of the words around each word of a text, with random words beside them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.cpu.kernels.draws import alias_table

from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one
from ..block import HostBlock
from ..errors import DataError
from ..holdout.derived import DerivedSource
from ..holdout.split import start_of
from ..source import DataSource, each_block

WHOLE = 2.0**-64  # of a hash as a number in [0, 1)


MOST_WORDS = 2**24
"""Most columns: the word of a window is a target in float32, exact for whole numbers up to this."""


@dataclass(frozen=True)
class Windows:
    """How windows are drawn.

    - window: a word's window reaches 1 to `window` words to both sides, as drawn for the word.
    - negatives: weight of all random words together, for each word of the window.
    - draws: random words drawn for a window, with replacement.
    - popularity: random words are drawn by their counts to this power.
    - sample: words with a larger share of the text are left out at random, before windows are
      made; see `kept_share`. 0: no word is.
    """

    window: int
    negatives: float
    draws: int
    popularity: float = 0.75
    sample: float = 0.0


class WindowSource(DerivedSource):
    """The words around each word of `source`, drawn anew in every pass, and random words.

    - source: a row is a word, with one entry in its column; an empty row ends a text.
    - counts: how often each word occurs, float64 [columns]; see `counts_of`.
    - seed: of the draws. They depend on (seed, pass, row), so nothing else changes them.

    Each word that has words around it becomes a row, and `targets` has its column. A word that is c
    times in its window has the value c. A random word has the value -c m negatives / draws, where c
    is how often it was drawn, and m how many words the window has; words of the window are none.
    Windows end with the text and with the block. Raises `DataError` for a dense source, and for a
    row with several entries.

    >>> from scipy.sparse import csr_array
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(csr_array(np.eye(4)[[0, 1, 3]]), block_rows=3)
    >>> windows = WindowSource(source, np.ones(4), Windows(window=1, negatives=1, draws=2), seed=0)
    >>> block = HostBlock(windows.shape)
    >>> windows.read(0, 0, block)
    >>> block.targets[:, 0].tolist(), block.indptr.tolist()
    ([0.0, 1.0, 3.0], [0, 2, 5, 7])
    >>> block.indices[2:5].tolist(), block.values[2:5].tolist()
    ([0, 2, 3], [1.0, -2.0, 1.0])
    """

    def __init__(
        self, source: DataSource, counts: npt.NDArray[np.float64], windows: Windows, seed: int
    ) -> None:
        """Prepare the draws."""
        shape, m = source.shape, counts.size
        check_words(source)
        self._windows, self._start = windows, start_of(seed)
        self._kept = kept_share(counts, windows.sample)
        chance, other = np.empty((1, m), np.float32), np.empty((1, m), np.int64)
        weights = np.maximum(counts, 1.0) ** windows.popularity
        alias_table(weights, chance, other, np.empty((1, m)), np.empty((1, m), np.int64))
        self._chance, self._other = chance[0], other[0].astype(np.int32)
        around = 2 * windows.window + windows.draws
        most = shape.rows * min(around, shape.columns)
        shape = replace(shape, nnz=most, targets=1, weighted=False)
        room = (3, shape.rows + around)
        super().__init__(source, shape, f"{windows} {seed}", (room, np.int64))

    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        into.write()
        words, at, around = scratch
        length = keep_words(
            whole.row_ids[: whole.rows], whole.indptr, whole.indices,
            self._start, pass_, self._kept, words, at,
        )  # fmt: skip
        if length < 0:
            row = whole.row_ids[-1 - length]
            raise DataError(
                f"WindowSource: row {row} has several words; a row must be one word of a text, or "
                "empty at the end of a text: make such rows with datasources.read_sentences."
            )
        return make_windows(
            words[:length], at, self._start, pass_, (self._windows.window, self._windows.draws),
            self._windows.negatives, self._chance, self._other, around,
            into.row_ids, into.targets, into.indptr, into.indices, into.values,
        )  # fmt: skip

    def __repr__(self) -> str:
        """Show the windows and the source."""
        return f"WindowSource({self._windows}, of {self._source})"


def check_words(source: DataSource) -> None:
    """Raise `DataError` if the source is dense, or has too many words."""
    words = source.shape.columns
    if words > MOST_WORDS:
        raise DataError(
            f"WindowSource: {words:,} words: must be at most {MOST_WORDS:,}, as words of windows "
            "are numbered in float32. Leave out rare words (min_count)."
        )
    if source.shape.dense:
        raise DataError(
            f"{type(source).__name__} is dense; word vectors need a sparse matrix whose rows are "
            "the words of texts, one after another, with one entry each."
        )


def counts_of(source: DataSource) -> npt.NDArray[np.float64]:
    """Return how often each word occurs, float64 [columns]."""
    check_words(source)
    counts = np.zeros(source.shape.columns)
    for block in each_block(source):
        counts += np.bincount(block.indices[: block.nnz], minlength=counts.size)
    return counts


def kept_share(counts: npt.NDArray[np.float64], sample: float) -> npt.NDArray[np.float64]:
    """Return the chance of each word to be kept: sqrt(s / f) + s / f of its share f, at most 1.

    So does the program of Mikolov et al.; their paper has 1 - sqrt(s / f) for the chance to leave
    the word out.

    >>> kept_share(np.array([1.0, 99.0]), 0.01).round(3).tolist()
    [1.0, 0.111]
    """
    if not sample:
        return np.ones_like(counts)
    ratio = sample * counts.sum() / np.maximum(counts, 1.0)
    kept: npt.NDArray[np.float64] = np.minimum(np.sqrt(ratio) + ratio, 1.0)
    return kept


@kernel
def keep_words(
    ids: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    start: np.uint64,
    pass_: int,
    kept: npt.NDArray[np.float64],
    words: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
) -> int:
    """Fill `words` with the words that are kept, -1 between texts; `at`: their rows in the source.

    Returns their number; -1 - row for a row of the block with several entries.
    """
    of_pass = mix_one(start + np.uint64(2 * pass_ + 1) * GOLDEN)
    length, before = 0, np.int64(-1)
    for row in range(ids.size):
        entries = indptr[row + 1] - indptr[row]
        if entries > 1:
            return -1 - row
        ended = entries == 0 or ids[row] != before + 1
        if ended and length and words[length - 1] >= 0:
            words[length] = -1
            length += 1
        before = ids[row]
        if entries:
            word = indices[indptr[row]]
            hashed = mix_one(of_pass + np.uint64(ids[row] + 1) * GOLDEN)
            if float(hashed) * WHOLE < kept[word]:
                words[length], at[length] = word, ids[row]
                length += 1
    return length


@kernel
def insert(key: int, keys: npt.NDArray[np.int64], size: int) -> int:
    """Insert a number into ascending ones; return their number."""
    place = size
    while place and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        place -= 1
    keys[place] = key
    return size + 1


@kernel
def make_windows(
    words: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    start: np.uint64,
    pass_: int,
    limits: tuple[int, int],
    negatives: float,
    chance: npt.NDArray[np.float32],
    other: npt.NDArray[np.int32],
    around: npt.NDArray[np.int64],
    to_ids: npt.NDArray[np.int64],
    to_targets: npt.NDArray[np.float32],
    to_indptr: npt.NDArray[np.int64],
    to_indices: npt.NDArray[np.int32],
    to_values: npt.NDArray[np.float32],
) -> int:
    """Write the window and the random words of each word; return the number of rows.

    limits: window, draws.
    around: scratch; its numbers are 2 * word, plus 1 for random words.
    """
    window, draws = limits
    of_pass = mix_one(start + np.uint64(2 * pass_ + 2) * GOLDEN)
    size = np.uint64(chance.size)
    low = np.uint64(2**32 - 1)
    row, place = 0, 0
    to_indptr[0] = 0
    for i in range(words.size):
        if words[i] < 0:
            continue
        state = mix_one(of_pass + np.uint64(at[i] + 1) * GOLDEN)
        reach = 1 + int((state >> np.uint64(32)) * np.uint64(window) >> np.uint64(32))
        count = 0
        for j in range(i - 1, max(i - reach, 0) - 1, -1):
            if words[j] < 0:
                break
            count = insert(2 * words[j], around, count)
        for j in range(i + 1, min(i + reach + 1, words.size)):
            if words[j] < 0:
                break
            count = insert(2 * words[j], around, count)
        if count == 0:
            continue
        weight = np.float32(count * negatives / draws)
        for draw in range(draws):
            hashed = mix_one(state + np.uint64(draw + 1) * GOLDEN)
            word = int((hashed >> np.uint64(32)) * size >> np.uint64(32))
            if np.float32(hashed & low) * np.float32(2.0**-32) >= chance[word]:
                word = int(other[word])
            count = insert(2 * word + 1, around, count)
        last = -1
        for k in range(count):
            word = around[k] >> 1
            negative = around[k] & 1
            if word == last:
                if not negative:
                    to_values[place - 1] += 1.0
                elif to_values[place - 1] < 0.0:
                    to_values[place - 1] -= weight
                continue
            to_indices[place] = word
            to_values[place] = -weight if negative else 1.0
            place += 1
            last = word
        to_ids[row], to_targets[row, 0] = at[i], words[i]
        row += 1
        to_indptr[row] = place
    return row
