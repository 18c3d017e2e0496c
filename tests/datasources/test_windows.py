"""Windows of words, and texts as rows of one word each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources import DataError, HostBlock, MatrixSource, Reading, read_sentences
from blocklearn.datasources.formats.sentences_kind import SentencesData
from blocklearn.datasources.sampling.windows import Windows, WindowSource, counts_of, kept_share
from blocklearn.datasources.text.sentences import one_word_rows

WORDS = 7
Row = tuple[int, dict[int, float]]


def texts(rows: int = 400) -> np.ndarray:
    """The words of texts; -1 ends one."""
    words = np.random.default_rng(0).integers(0, WORDS, rows).astype(np.int32)
    words[24::25] = -1
    return words


def rows_of(words: np.ndarray, windows: Windows, *, pass_: int = 0, seed: int = 0) -> list[Row]:
    """The word of each row, and the entries around it, of a source of one block."""
    source = MatrixSource(one_word_rows(words, WORDS), block_rows=words.size)
    made = WindowSource(source, counts_of(source), windows, seed)
    block = HostBlock(made.shape)
    made.read(pass_, 0, block)
    X = sp.csr_array((block.values, block.indices, block.indptr), shape=(words.size, WORDS))
    return [
        (
            int(block.targets[i, 0]),
            {int(j): float(X.data[k]) for k, j in enumerate(X.indices[a:b], a)},
        )
        for i, (a, b) in enumerate(zip(X.indptr[: block.rows], X.indptr[1:], strict=False))
    ]


def test_a_window_has_the_words_to_both_sides_of_the_same_text() -> None:
    words = texts()
    found = rows_of(words, Windows(1, 1.0, 1))
    middle = [i for i in range(words.size) if words[i] >= 0]
    assert [word for word, _ in found] == words[middle].tolist()
    for (_, entries), i in zip(found, middle, strict=True):
        around = [*words[max(i - 1, 0) : i].tolist(), *words[i + 1 : i + 2].tolist()]
        counts = {w: float(around.count(w)) for w in around if w >= 0}
        assert {w: x for w, x in entries.items() if x > 0} == counts


def test_random_words_have_the_weight_of_all_pairs_of_the_window() -> None:
    found = rows_of(texts(), Windows(3, 5.0, 4))
    for _, entries in found:
        pairs = sum(x for x in entries.values() if x > 0)
        drawn = [-x / (pairs * 5.0 / 4) for x in entries.values() if x < 0]
        assert all(abs(x - round(x)) < 1e-4 for x in drawn)
        assert sum(drawn) <= 4 + 1e-4


def test_windows_reach_each_distance_equally_often() -> None:
    words = np.arange(WORDS, dtype=np.int32).repeat(1)[None].repeat(300, axis=0).ravel()
    found = rows_of(words, Windows(3, 1.0, 1))
    reach = [sum(x for x in entries.values() if x > 0) / 2 for _, entries in found[10:-10]]
    assert np.bincount(np.array(reach, int), minlength=4)[1:].min() > 0.28 * len(reach)
    assert set(reach) == {1.0, 2.0, 3.0}


def test_random_words_are_drawn_by_popularity() -> None:
    words = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 2] * 200, np.int32)
    found = rows_of(words, Windows(1, 1.0, 8, popularity=0.5))
    drawn = np.zeros(WORDS)
    for _, entries in found:
        if 1 in entries and entries[1] > 0:
            continue  # the words of a window are no random words of it
        pairs = sum(x for x in entries.values() if x > 0)
        for word, x in entries.items():
            drawn[word] -= min(x, 0) * 8 / pairs
    assert drawn[1] / drawn[5] == pytest.approx(200**0.5, rel=0.2)


def test_draws_depend_on_the_pass_and_the_seed_alone() -> None:
    windows = Windows(3, 5.0, 4, sample=0.05)
    first = rows_of(texts(), windows)
    assert rows_of(texts(), windows) == first
    assert rows_of(texts(), windows, pass_=1) != first
    assert rows_of(texts(), windows, seed=1) != first


def test_frequent_words_are_thinned_out() -> None:
    words = np.where(np.random.default_rng(0).random(4000) < 0.7, 0, 1).astype(np.int32)
    counts = np.bincount(words, minlength=WORDS).astype(np.float64)
    found = rows_of(words, Windows(1, 1.0, 1, sample=0.1))
    share = sum(word == 0 for word, _ in found) / counts[0]
    assert share == pytest.approx(kept_share(counts, 0.1)[0], abs=0.03)


def test_rows_of_several_words_and_dense_rows_are_refused() -> None:
    source = MatrixSource(sp.csr_array([[1.0, 0.0], [1.0, 1.0]]), block_rows=2)
    windows = WindowSource(source, np.ones(2), Windows(1, 1.0, 1), 0)
    with pytest.raises(DataError, match="row 1 has several words"):
        windows.read(0, 0, HostBlock(windows.shape))
    with pytest.raises(DataError, match="is dense; word vectors need a sparse matrix"):
        counts_of(MatrixSource(np.eye(2), block_rows=2))


def test_rare_and_unknown_words_are_left_out() -> None:
    found = read_sentences([["a", "b", "a"], ["c", "a"]], min_count=2)
    assert (list(found.vocabulary), found.dropped) == (["a"], 2)
    assert np.diff(found.X.indptr).tolist() == [1, 1, 0, 1, 0]
    again = read_sentences([["x", "c"]], ["c", "a"])
    assert again.X.toarray().tolist() == [[1, 0], [0, 0]]
    with pytest.raises(DataError, match="no word of 1 texts occurs min_count=3 times"):
        read_sentences([["a", "b"]], min_count=3)
    with pytest.raises(DataError, match="text 0 is a string"):
        read_sentences(["a b"])
    with pytest.raises(DataError, match="text 1 is nan: must be a list of words"):
        read_sentences([["a"], np.nan])  # type: ignore[list-item]


def test_too_many_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklearn.datasources.sampling.windows.MOST_WORDS", WORDS - 1)
    with pytest.raises(DataError, match="7 words: must be at most 6"):
        rows_of(texts(), Windows(window=1, negatives=1, draws=2))


def test_whole_texts_are_held_out(tmp_path: Path) -> None:
    lines = [f"{chr(97 + i)} {chr(97 + i)} end" for i in range(20)]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    kind = SentencesData(path=tmp_path / "texts.txt", min_count=1)
    train, held = kind.hold_out(0.3, Reading(100), Reading(100))
    assert train.names == held.names
    assert train.shape.total_rows + held.shape.total_rows == 80
    seen = []
    for part in (train, held):
        block = HostBlock(part.shape)
        part.read(0, 0, block)
        assert np.diff(block.indptr[: block.rows + 1]).tolist() == [1, 1, 1, 0] * (block.rows // 4)
        seen.append(set(block.indices[: block.nnz].tolist()))
    assert len(seen[0] & seen[1]) == 1  # "end"
