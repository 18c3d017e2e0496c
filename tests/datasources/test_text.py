"""Words, counts, files of text and of counts, and the configuration that names them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import io, sparse

from blocklearn.datasources import (
    Corpus,
    DataError,
    EvalData,
    FileData,
    HashedWords,
    Holdout,
    TrainData,
    count_words,
    read_counts,
    words,
)
from blocklearn.datasources.parsing.lines import read_lines
from blocklearn.datasources.text.words import DOCSTRING_WORDS, STOP_WORDS

TEXT = "The socket reads bytes.\n\nBytes, bytes: über_paths 2024 and SOCKETS\n"


def dense(corpus: Corpus) -> dict[str, dict[str, float]]:
    """Counts as `{document: {word: count}}`."""
    csr = corpus.counts
    return {
        name: {
            corpus.vocabulary[i]: float(count)
            for i, count in zip(
                csr.indices[csr.indptr[row] : csr.indptr[row + 1]],
                csr.data[csr.indptr[row] : csr.indptr[row + 1]],
                strict=True,
            )
        }
        for row, name in enumerate(corpus.documents)
    }


@given(st.text())
def test_words_are_lower_case_runs_of_letters(text: str) -> None:
    for word in words(text):
        assert len(word) >= 3 and word not in STOP_WORDS
        assert not any(c.isdecimal() or c.isspace() or c == "_" for c in word)
        assert word in text.lower()


def test_stop_words_can_occur() -> None:
    """A stop word that the tokenizer cannot produce is a typing error."""
    for word in STOP_WORDS | DOCSTRING_WORDS:
        assert words(word, frozenset()) == [word]
    assert not STOP_WORDS & DOCSTRING_WORDS


@given(st.lists(st.lists(st.sampled_from(["aaa", "bbb", "ccc", "ddd"]))))
def test_counts_are_counts(documents: list[list[str]]) -> None:
    corpus = count_words((str(i), found) for i, found in enumerate(documents))
    assert corpus.counts.dtype == np.float32 and corpus.vocabulary == sorted(corpus.vocabulary)
    assert corpus.counts.has_canonical_format
    table = corpus.counts.toarray()
    for row, found in zip(table, documents, strict=True):
        assert row.tolist() == [found.count(word) for word in corpus.vocabulary]
    known = count_words([("all", sum(documents, []))], ["ccc", "aaa"])
    assert known.dropped + known.counts.sum() == sum(map(len, documents))


def test_limits_by_document_frequency() -> None:
    corpus = count_words([("1", "abb"), ("2", "ab"), ("3", "ac"), ("4", "ad")])
    assert corpus.limit(max_df=0.5).vocabulary == ["b", "c", "d"]
    assert corpus.limit(min_df=2).vocabulary == ["a", "b"]
    assert corpus.limit(min_df=2, max_df=0.5).counts.toarray().tolist() == [[2], [1], [0], [0]]
    assert corpus.limit() is corpus
    with pytest.raises(DataError, match="none of 4 words is in at least min_df=9"):
        corpus.limit(min_df=9)
    with pytest.raises(DataError, match="min_df=0"):
        corpus.limit(min_df=0)


def test_lines_of_text(tmp_path: Path) -> None:
    path = tmp_path / "docs.txt"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    corpus = read_counts(path)
    assert dense(corpus) == {
        "docs.txt:1": {"bytes": 1, "reads": 1, "socket": 1},
        "docs.txt:2": {},
        "docs.txt:3": {"bytes": 2, "paths": 1, "sockets": 1, "über": 1},
    }
    assert read_counts(path, min_df=2).vocabulary == ["bytes"]
    with pytest.raises(DataError, match=rf"^{re.escape(str(path))}: none of"):
        read_counts(path, min_df=9)
    known = read_counts(str(path), ["zebra", "bytes"], min_df=2)
    assert known.counts.toarray().tolist() == [[0, 1], [0, 0], [0, 2]]
    assert known.dropped == 5 and known.vocabulary == ["zebra", "bytes"]


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd"), ("lz4", "lz4")])
def test_packed_texts(tmp_path: Path, ending: str, codec: str) -> None:
    import pyarrow as pa

    for name, line in (("d.txt", "a socket\n"), ("d.ndjson", '{"body": "a socket"}\n')):
        path = tmp_path / f"{name}.{ending}"
        with pa.CompressedOutputStream(str(path), codec) as file:
            file.write((line * 200).encode())
        corpus = read_counts(path, text="body")
        assert dense(corpus) == {f"{path.name}:{i}": {"socket": 1} for i in range(1, 201)}
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(DataError, match=rf"{path.name}: damaged or cut off"):
            read_counts(path)


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    lines = [json.dumps({"text": "socket", "id": 3}), "", json.dumps({"text": ""})]
    path.write_text("\n".join(lines))
    assert dense(read_counts(path)) == {"docs.jsonl:1": {"socket": 1}, "docs.jsonl:3": {}}
    for wrong in ['{"text": 3}', "[]", '"text"', "{}"]:
        path.write_text(lines[0] + "\n" + wrong)
        with pytest.raises(DataError, match=r"docs\.jsonl:2: a line must be an object with a str"):
            read_counts(path)
    for wrong in ['{"text":', "[" * 100_000]:
        path.write_text(lines[0] + "\n" + wrong)
        with pytest.raises(DataError, match=r"docs\.jsonl:2: not valid JSON"):
            read_counts(path)


def test_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("path path")
    (tmp_path / "sub" / "a.txt").write_text("socket")
    (tmp_path / "notes.md").write_text("ignored")
    assert dense(read_counts(tmp_path)) == {"b.txt": {"path": 2}, "sub/a.txt": {"socket": 1}}
    (tmp_path / "c.txt").write_bytes(b"fine\nfine\nbad \xff")
    with pytest.raises(DataError, match=r"c\.txt:3: byte 0xff is not UTF-8"):
        read_counts(tmp_path)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("x.txt", b"good\nbad \xe9\n", r"x\.txt:2: byte 0xe9"),
        ("x.txt", b"", "no documents"),
        ("x.txt", b"the of\n12\n", "no words in its 2 documents"),
        ("x.jsonl", b"", "no documents"),
        ("x.xls", b"a,b", r"unknown kind.*\.txt, .*\.mtx, \.ldac, \.lda-c\. `learn convert` makes"),
        ("x.csv", b"a,b", r"x\.csv: no column 'text'; there are 'a', 'b'.*`text` says which"),
        ("x.npz", b"no zip", r"x\.npz: cannot be read as a sparse matrix"),
        ("x.npz", b"", r"x\.npz: cannot be read as a sparse matrix"),
        ("x.mtx", b"hello", r"x\.mtx:1: 'hello': a Matrix Market file must begin with a line"),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n9 9 1\n",
            r"x\.mtx:3: row 9: must be 1 to 2",
        ),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 -3\n",
            r"x\.mtx: row 1, column 0 is -3\.0, but a count must not be negative",
        ),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 nan\n",
            r"x\.mtx:3: 'nan', but every number must be a finite float32",
        ),
    ],
)
def test_faults_name_file_and_line(
    tmp_path: Path, name: str, contents: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(DataError, match=message):
        read_counts(tmp_path / name)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="file or folder does not exist"):
        read_counts(tmp_path / "none.txt")
    with pytest.raises(DataError, match="has no .txt or .parquet files, at any depth"):
        read_counts(tmp_path)


@pytest.mark.parametrize("kind", ["csr.npz", "coo.npz", "sparse.mtx", "dense.mtx"])
def test_counts_from_files(tmp_path: Path, kind: str) -> None:
    table = np.array([[0, 2, 1], [3, 0, 0]])
    path = tmp_path / kind
    X: Any = {"csr": sparse.csr_array, "coo": sparse.coo_matrix, "sparse": sparse.csc_array}.get(
        kind.split(".")[0], np.asarray
    )(table)
    if path.suffix == ".npz":
        sparse.save_npz(path, X)
    else:
        io.mmwrite(path, X)
    corpus = read_counts(path)
    assert corpus.counts.toarray().tolist() == table.tolist()
    assert corpus.counts.dtype == np.float32
    assert corpus.vocabulary == ["0", "1", "2"] and corpus.documents == ["row 0", "row 1"]
    assert read_counts(path, ["x", "y", "z"]).vocabulary == ["x", "y", "z"]
    with pytest.raises(DataError, match="3 columns, but the vocabulary has 2 words; documents mus"):
        read_counts(path, ["x", "y"])
    (tmp_path / "vocab.txt").write_text("one\ntwo\nthree\n")
    assert read_counts(path).vocabulary == ["one", "two", "three"]
    assert read_counts(path, min_df=1, max_df=0.5).vocabulary == ["one", "two", "three"]
    mapped = read_counts(path, ["three", "other", "one"])
    assert mapped.counts.toarray().tolist() == [[1, 0, 0], [0, 0, 3]] and mapped.dropped == 2
    (tmp_path / "vocab.txt").write_text("one\ntwo\ntwo\n")
    with pytest.raises(DataError, match="'two' twice"):
        read_counts(path)
    (tmp_path / "vocab.txt").write_text("one\n")
    with pytest.raises(DataError, match=r"3 columns, but .*vocab\.txt has 1 words"):
        read_counts(path)


def test_configuration(tmp_path: Path) -> None:
    path = tmp_path / "docs.txt"
    path.write_text(TEXT)
    train: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(TrainData)
    data = train.validate_python({"kind": "file", "path": str(path), "min_df": 2})
    assert isinstance(data, FileData) and data.open().vocabulary == ["bytes"]
    assert data.open(["socket"]).counts.toarray().tolist() == [[1], [0], [0]]
    for wrong in [
        {"kind": "file"},
        {"kind": "files", "path": "x"},
        {"kind": "file", "path": "x", "mindf": 2},
        {"kind": "python-docs", "min_df": 0},
        {"kind": "holdout", "share": 0.05},
    ]:
        with pytest.raises(pydantic.ValidationError):
            train.validate_python(wrong)
    holdout = pydantic.TypeAdapter[Any](EvalData).validate_python({"kind": "holdout"})
    assert holdout == Holdout(share=0.05)


def test_targets_of_documents_from_a_file(tmp_path: Path) -> None:
    docs = tmp_path / "docs.txt"
    docs.write_text("socket\n\npath path\n")
    y, Y = np.array([1, 0, 1]), np.array([[0.0, 1], [1, 0], [1, 1]])
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "dense.npy", Y)
    sparse.save_npz(tmp_path / "Y.npz", sparse.csc_matrix(Y))
    io.mmwrite(tmp_path / "Y.mtx", sparse.coo_array(Y))
    assert read_counts(docs, targets=tmp_path / "y.npy").targets.tolist() == [[1], [0], [1]]
    for name in ("dense.npy", "Y.npz", "Y.mtx"):
        corpus = read_counts(docs, targets=tmp_path / name)
        found = corpus.targets if name == "dense.npy" else corpus.targets.toarray()
        assert found.tolist() == Y.tolist() and corpus.target_names is None
        part = corpus.rows(np.array([2, 0]))
        found = part.targets if name == "dense.npy" else part.targets.toarray()
        assert found.tolist() == Y[[2, 0]].tolist()
    (tmp_path / "labels.txt").write_text("first\nsecond\n")
    data = FileData(path=docs, targets=tmp_path / "Y.npz", min_df=1)
    assert data.open().target_names == data.open(["path"]).target_names == ["first", "second"]
    assert read_counts(docs, targets=tmp_path / "y.npy").target_names is None  # one target
    assert FileData(path=docs).open().targets is None


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("y.npy", np.ones(2), r"y\.npy: targets of 2 rows, but there are 3 documents"),
        ("y.npy", np.array([0, np.nan, 1]), r"y\.npy: the targets: row 1, column 0 is nan"),
        ("y.npy", np.array([{}, 1, 2], object), r"y\.npy: cannot be read as targets"),
        ("y.npy", np.array(["a", "b", "c"]), r"y\.npy: the targets.*real numbers"),
        ("y.csv", np.ones(3), r"y\.csv: unknown kind of targets.*\.npy, \.npz, \.mtx"),
        ("y.npz", np.ones(3), r"y\.npz: cannot be read as targets"),
        ("none.npy", None, r"none\.npy: there is no such file"),
    ],
)
def test_faults_of_targets_are_named(
    tmp_path: Path, name: str, contents: Any, message: str
) -> None:
    docs = tmp_path / "docs.txt"
    docs.write_text("socket\n\npath path\n")
    if contents is not None:
        with (tmp_path / name).open("wb") as file:
            np.save(file, contents)
    with pytest.raises(DataError, match=message):
        read_counts(docs, targets=tmp_path / name)


@pytest.mark.parametrize("max_df", [1.0, 0.7])
def test_words_are_hashed_in_place_of_a_vocabulary(tmp_path: Path, max_df: float) -> None:
    docs = tmp_path / "docs.txt"
    docs.write_text("socket bytes\nbytes\npath path bytes\n")
    plain = FileData(path=docs, max_df=max_df).open()
    hashed = FileData(path=docs, max_df=max_df, hash_bits=22).open()
    assert hashed.vocabulary == HashedWords(22) and hashed.counts.shape == (3, 2**22)
    columns = [HashedWords(22).column(word) for word in plain.vocabulary]
    assert (hashed.counts[:, columns] != plain.counts).nnz == 0
    assert hashed.counts.sum() == plain.counts.sum() and hashed.counts.has_canonical_format
    known = read_counts(docs, hashed.vocabulary)  # whatever a trained model is shown
    assert known.vocabulary == hashed.vocabulary and known.dropped == 0


def test_hashed_words_may_share_a_column(tmp_path: Path) -> None:
    corpus = count_words([("a", ["aaa", "bbb", "ccc", "ccc"])], HashedWords(1))
    assert corpus.counts.sum() == 4 and corpus.counts.nnz <= 2
    again = count_words([("a", ["aaa", "bbb", "ccc", "ccc"])]).over(HashedWords(1))
    assert (again.counts != corpus.counts).nnz == 0 and again.counts.has_canonical_format
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.ones((2, 5))))
    assert read_counts(tmp_path / "x.npz", HashedWords(1)).counts.sum() == 10


def test_features_with_targets_may_be_negative(tmp_path: Path) -> None:
    X = np.array([[0.5, -1.5], [0.0, 2.0]])
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X))
    np.save(tmp_path / "y.npy", [0, 1])
    data = FileData(path=tmp_path / "X.npz", targets=tmp_path / "y.npy")
    assert data.open().counts.toarray().tolist() == X.tolist()
    with pytest.raises(DataError, match="column 1 is -1.5, but a count must not be negative"):
        FileData(path=tmp_path / "X.npz").open()


def test_lines_may_come_from_a_pipe() -> None:
    """As ids do: `learn recommend RUN --users <(...)`."""
    out, into = os.pipe()
    os.write(into, b"7\n9\n")
    os.close(into)
    assert [text for _, text in read_lines(Path(f"/dev/fd/{out}"))] == ["7", "9"]
    os.close(out)
