"""LDA-C text: what gensim writes, by conversion and by training; hostile lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import DataError, read_counts
from blocklearn.datasources.formats import Known
from blocklearn.learner.command_line.cli import main
from tests.support.formats import example, packed, read

DATA = "2 0:3 4:1\n0\n3 1:1 2:2 4:5\n1 3:2\n"
TABLE = [[3, 0, 0, 0, 1], [0] * 5, [0, 1, 2, 0, 5], [0, 0, 0, 2, 0]]
WORDS = ["anchor", "bread", "mast", "oven", "sail"]


def text_of(X: sparse.csr_array) -> str:
    """The definition, line by line."""
    lines = []
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        pairs = [f"{X.indices[i]}:{X.data[i]:g}" for i in range(start, end)]
        lines.append(" ".join([str(len(pairs)), *pairs]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("name", ["a.ldac", "a.lda-c.gz"])
def test_counts_come_back(tmp_path: Path, name: str, memory: int) -> None:
    X = example(300, 40)
    X.data = np.abs(X.data)
    path = tmp_path / name
    path.write_bytes(packed(text_of(X).encode(), name))
    found = read(path, memory=memory)
    columns = int(X.indices.max()) + 1
    np.testing.assert_array_equal(found.dense, X.toarray()[:, :columns])
    assert found.layout.names is None and found.layout.targets == 0
    assert read(path, known=Known(40)).dense.shape == X.shape
    np.testing.assert_array_equal(read_counts(path).counts.toarray(), found.dense)


@pytest.mark.parametrize("listed", ["a.vocab", "a.tokens", "vocab.txt"])
def test_words_are_found_beside_the_counts(tmp_path: Path, listed: str) -> None:
    path = tmp_path / "a.ldac"
    path.write_text(DATA)
    (tmp_path / listed).write_text("\n".join([*WORDS, "never"]) + "\n")
    found = read(path)
    assert found.layout.names == [*WORDS, "never"]
    np.testing.assert_array_equal(found.dense, [[*row, 0] for row in TABLE])
    corpus = read_counts(path, ["sail", "unknown", "bread"])  # the words of a model
    assert corpus.counts.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [5, 0, 1], [0, 0, 0]]
    assert corpus.dropped == 7
    assert len(list(tmp_path.iterdir())) == 2 and read(tmp_path).layout.columns == 6


def test_words_may_be_named_and_missing(tmp_path: Path) -> None:
    path, words = tmp_path / "a.ldac", tmp_path / "words.txt"
    path.write_text(DATA)
    words.write_text("\n".join(WORDS))
    assert read(path, vocabulary=words).layout.names == WORDS
    assert read_counts(path).vocabulary == ["0", "1", "2", "3", "4"]
    fitting = read_counts(path, [*WORDS, "never"])
    assert fitting.counts.shape == (4, 6) and list(fitting.vocabulary)[-1] == "never"


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 0:1\n\n3 0:1 2:1\n", r"a.ldac:3: 2 pairs word:count, but the line begins with 3"),
        ("# a comment\n0:1 2:1\n", r"a.ldac:2: must begin with the number of pairs"),
        ("1,2 0:1\n", r"a.ldac:1: must begin with the number of pairs"),
        ("-1 1:0.5 7:2\n", r"a.ldac:1: 2 pairs .* begins with -1: .* LIBSVM has a label there"),
        ("1 0:1\n1 3:-2\n", r"a.ldac:2: count -2: must not be negative"),
        ("1 0:nan\n", r"a.ldac:1: "),
        ("2 0:1 0:1\n", r"a.ldac:1: index 0 comes twice"),
        ("1 0:1\n1 qid:3 0:1\n", r"a.ldac:2: qid: must not be in LDA-C"),
        ("1 word:1\n", r"a.ldac:1: 'word:1' is not index:value"),
        ("1 9:1\n", r"a.ldac:1: word 9: must be below 5, the number of words"),
    ],
)
def test_lines_that_are_wrong_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.ldac"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read(path, known=Known(5))


def test_topics_of_such_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.ldac").write_text(DATA * 20)
    Path("corpus.vocab").write_text("\n".join(WORDS))
    with pytest.raises(SystemExit) as stop:
        main(["lda", "corpus.ldac", "--out", "run", "-q", "--set", "learner.passes=2",
              "--set", "model.topics=3"])  # fmt: skip
    assert stop.value.code == 0
    assert bl.load("run").names == WORDS
    with pytest.raises(SystemExit) as stop:
        main(["predict", "run", "--data", "corpus.ldac", "--out", "shares.csv"])
    assert stop.value.code == 0
    assert len(Path("shares.csv").read_text().splitlines()) == 81
