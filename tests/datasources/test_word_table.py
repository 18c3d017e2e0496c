"""Compiled counts of words: as `words` finds them, for all texts."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.datasources import HashedWords, count_words, words
from blocklearn.datasources.text import corpus, word_columns
from blocklearn.datasources.text.word_columns import WordColumns
from blocklearn.datasources.text.word_table import CODES, WordCounts, WordTable, is_letter

# Letters that lower case makes two of, that depend on their neighbours, or are no letters to some.
PIECES = [
    "abc", "ABC", "ab", "the", "İstanbul", "ΣΑΣ", "σας", "Σ", "ß", "ﬁnd", "ǅungla", "½cup", "²nd",
    "Ⅷ", "一二三", "٣٤٥", "naïve", "e\u0301te\u0301", "𝐀𝐁𝐂", "don't", "snake_case", "x1y2", "\0",
    "\ud800", "\U0010ffff", " ", "\n", "-", "",
]  # fmt: skip
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | st.text(), max_size=9)


def counters(table: WordTable, found: WordCounts) -> list[list[tuple[str, int]]]:
    """The words of each text with their counts, as they occur first."""
    pairs = [
        (table.words[number], count)
        for number, count in zip(found.numbers.tolist(), found.counts.tolist(), strict=True)
    ]
    return [pairs[a:b] for a, b in zip(found.ends[:-1], found.ends[1:], strict=True)]


def expected(texts: Sequence[str]) -> list[list[tuple[str, int]]]:
    """The same by `words`."""
    return [list(Counter(words(text)).items()) for text in texts]


@given(st.lists(TEXTS, max_size=4))
def test_words_are_counted_as_words_finds_them(batches: list[list[str]]) -> None:
    table = WordTable()
    for texts in batches:
        assert counters(table, table.count(texts)) == expected(texts)
    assert len(set(table.words)) == len(table.words)


def test_letters_are_those_of_regular_expressions() -> None:
    every = [chr(code) for code in range(CODES)]
    assert is_letter(ascii_only=True).tolist() == is_letter(ascii_only=False)[:128].tolist()
    letter = re.compile(r"[^\W\d_]")
    assert is_letter(ascii_only=False).tolist() == [bool(letter.match(text)) for text in every]


def test_a_table_grows_in_the_midst_of_texts() -> None:
    """Also within one text that has more words than there is room for, and of one long word."""
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (30_000, 5)).astype("<u4")
    many = ["".join(map(chr, row)) for row in letters.tolist()]
    texts = [" ".join(many[:3]), " ".join(many), "x" * 100_000, "", " ".join(many[::-1])]
    table = WordTable()
    assert counters(table, table.count(texts)) == expected(texts)
    assert counters(table, table.count(texts[::-1])) == expected(texts[::-1])


def test_no_texts_and_texts_without_words() -> None:
    table = WordTable()
    assert [found.tolist() for found in table.count([])] == [[0], [], []]
    assert [found.tolist() for found in table.count(["", "of it", "a b"])] == [[0] * 4, [], []]
    assert table.words == []


def test_words_that_are_left_out_are_chosen() -> None:
    table = WordTable(stop={"abc", "xyz"})
    assert counters(table, table.count(["the abc ABC xyz xyzz"])) == [[("the", 1), ("xyzz", 1)]]
    every = WordTable(stop=set())
    assert counters(every, every.count(["the the abc"])) == [[("the", 2), ("abc", 1)]]


@pytest.mark.parametrize("remembered", [0, 3, 1 << 20])
@pytest.mark.parametrize("vocabulary", [None, HashedWords(2), ["abc", "sas", "the", "snake"]])
@settings(max_examples=15)
@given(texts=TEXTS)
def test_a_corpus_is_that_of_words(
    texts: list[str], vocabulary: Sequence[str] | None, remembered: int
) -> None:
    """Also where columns are forgotten after each chunk, and words share a column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_columns, "REMEMBERED", remembered)
        patch.setattr(corpus, "CHUNK", 8)
        found = corpus.count_texts([(str(i), t) for i, t in enumerate(texts)], vocabulary)
    want = count_words([(str(i), words(t)) for i, t in enumerate(texts)], vocabulary)
    assert (found.vocabulary, found.documents, found.dropped) == (
        want.vocabulary, want.documents, want.dropped,
    )  # fmt: skip
    assert found.counts.shape == want.counts.shape and found.counts.dtype == want.counts.dtype
    for name in ("data", "indices", "indptr"):
        mine, theirs = getattr(found.counts, name), getattr(want.counts, name)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


def test_rows_count_words_without_a_column() -> None:
    columns = WordColumns(lambda word: {"socket": 4, "pipe": 0}.get(word, -1))
    rows = columns.rows(["a socket, a pipe; another socket opens", "", "pipes"])
    assert rows.indptr.tolist() == [0, 2, 2, 2] and rows.unknown == 2
    assert rows.indices.tolist() == [0, 4] and rows.values.tolist() == [1, 2]
