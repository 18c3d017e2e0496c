"""LIBSVM text against its definition and against scikit-learn's reader."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from blocklearn.datasources import DataError
from blocklearn.datasources.formats import Known, OneHot, Scratch
from blocklearn.datasources.formats.libsvm import LibsvmFile
from blocklearn.datasources.formats.libsvm_lines import parse, parse_line
from blocklearn.datasources.parsing.layout import Place
from blocklearn.datasources.parsing.lines import Lines
from tests.support.formats import example, packed, read


@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("name", ["a.svm", "a.libsvm.gz", "a.svmlight.lz4"])
@pytest.mark.parametrize("zero_based", [False, True])
def test_what_scikit_learn_wrote(tmp_path: Path, name: str, memory: int, zero_based: bool) -> None:
    X, y = example(300, 40), np.random.default_rng(1).normal(size=300)
    X.data *= np.float32(0.1)
    buffer = io.BytesIO()
    dump_svmlight_file(X, y, buffer, zero_based=zero_based, comment="made\nby a test")
    path = tmp_path / name
    path.write_bytes(packed(buffer.getvalue(), name))
    found = read(path, memory=memory, zero_based=zero_based)
    buffer.seek(0)
    want, labels = load_svmlight_file(buffer, zero_based=zero_based)
    np.testing.assert_array_equal(found.dense, want.toarray().astype(np.float32))
    np.testing.assert_array_equal(found.targets[:, 0], labels.astype(np.float32))
    assert found.layout.target_names is None


words = st.one_of(
    st.builds("{}:{}".format, st.integers(1, 30), st.integers(-9, 9)),
    st.builds("{}:{!r}".format, st.integers(1, 10**10), st.floats(width=32)),
    st.sampled_from(["#", "# x:y", "qid:3", "1:", ":1", "0:1", "7", "a:b", "3:1e400", "-1:2", ""]),
)
heads = st.one_of(
    st.sampled_from(["1", "-1", "+1", "0.5", "1,2,3", "", "3,", ",", "x", "nan", "1.0 qid:4"]),
    st.lists(st.integers(0, 9), max_size=3).map(lambda found: ",".join(map(str, found))),
)


@given(
    st.lists(
        st.builds(
            lambda head, found, blank, end: blank.join([head, *found]) + end,
            heads,
            st.lists(words, max_size=5),
            st.sampled_from([" ", "  ", "\t", " \t "]),
            st.sampled_from(["", " ", "\r", " # end"]),
        ),
        max_size=6,
    )
)
@settings(max_examples=150, deadline=None)
def test_the_kernel_agrees_with_the_definition(lines: list[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    chunk = Lines(Path("a.svm"), data, Place(), Place())
    want, bad = [], None
    for number, line in enumerate(lines, 1):
        try:
            want.append(parse_line(line.encode(), 1))
        except ValueError as error:
            bad = f"a.svm:{number}: {error}."
            break
    if bad is not None:
        with pytest.raises(DataError) as raised:
            parse(chunk, 1)
        assert str(raised.value) == bad
        return
    rows = [line for line in want if line is not None]
    found = parse(chunk, 1)
    assert np.diff(found.X.indptr).tolist() == [len(row.columns) for row in rows]
    assert found.X.indices.tolist() == [column for row in rows for column in row.columns]
    values = np.array([value for row in rows for value in row.values], np.float32)
    np.testing.assert_array_equal(found.X.values, values)
    assert found.counts.tolist() == [len(row.labels) for row in rows]
    assert found.labels.tolist() == [float(np.float32(x)) for row in rows for x in row.labels]
    assert found.grouped == any(row.grouped for row in rows)


def test_several_labels_become_targets(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("3,10 1:1\n 2:1\n10 1:2 2:3\n")
    found = read(path)
    assert found.layout.target_names == ["3", "10"]
    assert found.targets.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert found.dense.tolist() == [[1, 0], [0, 1], [2, 3]]


def test_rows_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1:1\n2:1\n")
    assert read(path).layout.targets == 0
    path.write_text("1 1:1\n2:1\n")
    with pytest.raises(DataError, match="1 of 2 rows have no label"):
        read(path)


def test_unsorted_indices_qid_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("2 qid:1 7:1 3:2\n\n# nothing\n1 qid:1\n")
    found = read(path)
    assert found.dense.tolist() == [[0, 0, 2, 0, 0, 0, 1], [0] * 7]
    assert found.targets.tolist() == [[2], [1]]
    assert list(found.layout.notes) == ["qid is left out: rows are not grouped"]


def test_classes_become_targets(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("2 1:1\n-1 1:1\n2 1:1\n")
    scratch = Scratch(tmp_path)
    rows = OneHot(path, LibsvmFile([path], scratch), scratch)
    assert rows.layout.target_names == ["-1", "2"]
    (chunk,) = rows.chunks()
    assert chunk.targets is not None
    assert chunk.targets.tolist() == [[0, 1], [1, 0], [0, 1]]
    path.write_text("1,2 1:1\n")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match="2 targets: must be one, with a class of each row"):
        OneHot(path, LibsvmFile([path], Scratch(tmp_path / "b")), scratch)


def test_columns_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 2:1\n")
    assert read(path, known=Known(5, list("abcde"))).dense.tolist() == [[0, 1, 0, 0, 0]]
    with pytest.raises(DataError, match="2 columns, but the model has 1"):
        read(path, known=Known(1))


def test_parts_are_one_file_after_the_other(tmp_path: Path) -> None:
    for name, text in [("part-1.svm", "1 1:1\n"), ("part-0.svm", "0 3:1"), (".hidden", "")]:
        (tmp_path / name).write_text(text)
    found = read(tmp_path)
    assert found.dense.tolist() == [[0, 0, 1], [1, 0, 0]] and found.targets.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 1:1\n1 0:3\n", "a.svm:2: index 0, but indices count from 1"),
        ("1 1:1 1:2\n", "a.svm:1: index 1 comes twice."),
        ("1 2:1 1:2 1:3\n", "a.svm:1: index 1 comes twice."),
        ("1 4294967297:1\n", "a.svm:1: index 4294967297: must be at most 2147483647"),
        ("1 99999999999999999999:1\n", "a.svm:1: '99999999999999999999:1' is not index:value."),
        ("1 1:nan\n", "a.svm:1: 'nan', but every number must be a finite float32"),
        ("inf 1:1\n", "a.svm:1: 'inf', but every number"),
        ("1 1:1e39\n", "a.svm:1: '1e39', but every number"),
        ("1 -1:1\n", "a.svm:1: '-1:1' is not index:value"),
        ("1 1:1 2\n", "a.svm:1: '2' is not index:value"),
        ("1 1:1_0\n", "a.svm:1: '1_0' is not a number"),
        ("\n\nspam 1:1\n", "a.svm:3: 'spam' is not a number"),
        ("\x00\x01\x02\n", "a.svm:1: '\\x00\\x01\\x02' is not a number"),
        ("", "a.svm: has no rows"),
        ("# only this\n", "a.svm: has no rows"),
        ("1\n2\n", "a.svm: no features in its 2 rows"),
        ("1,2 1:1\n16777217000 1:1\n", "a.svm: label 16,777,217,024: must be at most 16,777,216"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.svm"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path)
    assert message in str(raised.value)
