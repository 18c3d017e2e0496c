"""Choose the words that become columns, by document counts in bounded memory.

Counts are kept in a dictionary. When it is full, it is sorted, written to a file, and emptied. At
the end the files are merged. So only words that are kept must fit into memory.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ..arrays.hashed_names import HashedWords
from ..errors import DataError
from ..ids import Ids
from ..parsing.layout import Known
from ..parsing.scratch import Scratch
from ..text.corpus import check_limits
from ..text.word_columns import REMEMBERED

WORD_BYTES = 200  # memory of a word in a dictionary, approximately
MOST_WORDS = 1 << 24


class Vocabulary(dict[str, int]):
    """Maps words to their columns, and unknown words to -1.

    >>> words = Vocabulary(["to", "be"])
    >>> words["be"], words["or"]
    (1, -1)
    """

    def __init__(self, words: Sequence[str]) -> None:
        """Give each word its number. words: in the order of the columns, or `HashedWords`."""
        self._hashed = words if isinstance(words, HashedWords) else None
        if self._hashed is None:
            super().__init__((word, column) for column, word in enumerate(words))

    def __missing__(self, word: str) -> int:
        """Return the hashed column, which is cached for a while, or -1 without hashing."""
        if self._hashed is None:
            return -1
        if len(self) >= REMEMBERED:
            self.clear()
        found = self[word] = self._hashed.column(word)
        return found


class Limits(NamedTuple):
    """Which words become columns.

    min_df: leave out words in fewer documents.
    max_df: leave out words in more than this share of the documents.
    hash_bits: use 2**hash_bits hashed columns for all words; None: one column per word.
    """

    min_df: int = 1
    max_df: float = 1.0
    hash_bits: int | None = None


ALL = Limits()


def choose_words(
    name: Any,
    documents: Iterable[tuple[int, Iterable[str] | Mapping[str, int]]],
    scratch: Scratch,
    known: Known | None,
    limits: Limits = ALL,
) -> Sequence[str]:
    """Return the words that become columns.

    name: of the data, in messages.
    documents: numbers of documents, and in how many of them each word is; or a 1, and the distinct
        words of one document. They are read only if words must be counted.
    known: a model's columns; its words are used if given.
    limits: else choose these words, sorted.

    Raises `DataError` if no word is left, or too many.
    """
    min_df, max_df, hash_bits = limits
    check_limits(min_df, max_df)
    if known is not None and known.names is not None:
        return known.names
    if known is not None:
        raise DataError(
            f"{name}: text, but the model does not know the words of its columns: it was not "
            "trained on texts. Give it data like those."
        )
    if hash_bits is not None:
        if (min_df, max_df) != (1, 1.0):
            raise DataError(
                f"{name}: hash_bits={hash_bits} with min_df={min_df}, max_df={max_df}: hashed "
                "words are not counted. Set hash_bits, or min_df and max_df."
            )
        return HashedWords(hash_bits)
    counter = Counter(scratch.folder, max(1 << 10, scratch.memory // WORD_BYTES))

    def find() -> Ids:
        for number, words in documents:
            counter.add(words, number)
        if not counter.documents:
            raise DataError(f"{name}: has no documents.")
        kept: list[str] = []
        most, empty = max_df * counter.documents, True
        for word, count in counter.merged():
            empty = False
            if min_df <= count <= most:
                kept.append(word)
            if len(kept) > MOST_WORDS:
                raise DataError(
                    f"{name}: more than {MOST_WORDS:,} words are in at least min_df={min_df} "
                    "documents; raise it, or hash: --hash-bits 24."
                )
        if empty:
            raise DataError(
                f"{name}: no words in its {counter.documents:,} documents; a word in a text has "
                "three or more letters and is not a function word such as 'the'."
            )
        if not kept:
            raise DataError(
                f"{name}: none of {counter.documents:,} documents has a word that is in at least "
                f"min_df={min_df} and at most max_df={max_df:.0%} of them; relax one of the two."
            )
        return Ids(kept)

    return list(scratch.remember_names("words.arrow", find))


class Counter:
    """Counts the documents with each word. most: words that are kept in memory."""

    def __init__(self, folder: Path, most: int) -> None:
        """Start without documents."""
        self.documents = 0
        self._folder, self._most = folder, most
        self._counts: collections.Counter[str] = collections.Counter()
        self._files: list[Path] = []

    def add(self, words: Iterable[str] | Mapping[str, int], documents: int = 1) -> None:
        """Add a document with these distinct words, or some: in how many of them each word is."""
        self.documents += documents
        self._counts.update(words)
        if len(self._counts) > self._most:
            self._spill()

    def merged(self) -> Iterator[tuple[str, int]]:
        """Yield words and counts, sorted by word."""
        if not self._files:
            yield from sorted(self._counts.items())
            return
        self._spill()
        with ExitStack() as stack:
            runs = [
                stack.enter_context(path.open(encoding="utf-8", newline="\n"))
                for path in self._files
            ]
            for word, entries in groupby(merge(*map(read_run, runs)), itemgetter(0)):
                yield word, sum(count for _, count in entries)
        for path in self._files:
            path.unlink()

    def _spill(self) -> None:
        path = self._folder / f"words-{len(self._files)}"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{word}\n{count}\n" for word, count in sorted(self._counts.items()))
        self._files.append(path)
        self._counts.clear()


def read_run(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield words and counts of a file that `Counter` wrote."""
    pairs = iter(lines)
    for word, count in zip(pairs, pairs, strict=True):
        yield word[:-1], int(count)
