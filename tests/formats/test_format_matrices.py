"""Matrices in files: against the readers of SciPy and NumPy, and against what was written."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io, sparse

from blocklearn.datasources import DataError
from blocklearn.datasources.formats import Known
from tests.support.formats import BIDMAT_DENSE, BIDMAT_SPARSE, bidmat, example, packed, read

MEMORY = [1 << 17, 1 << 28]


# ---- Matrix Market -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`")  # of SciPy 1.18
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("order", ["csr", "csc", "shuffled"])
def test_matrix_market_as_scipy_reads_it(
    tmp_path: Path, field: str, order: str, memory: int
) -> None:
    X = sparse.random_array((700, 90), density=0.1, rng=np.random.default_rng(0), format="coo")
    if order == "shuffled":
        places = np.random.default_rng(1).permutation(X.nnz)
        rows, columns = X.coords
        X = sparse.coo_array((X.data[places], (rows[places], columns[places])), X.shape)
    else:
        X = X.asformat(order).tocoo()
    if field == "integer":
        X = (X * 100).astype(np.int64)
    path = tmp_path / "a.mtx.gz"
    with gzip.open(path, "wb") as file:
        io.mmwrite(file, X, field=field, comment="a\n comment")
    found = read(path, memory=memory)
    np.testing.assert_array_equal(found.dense, io.mmread(path).toarray().astype(np.float32))


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
def test_symmetric_matrices_are_completed(tmp_path: Path, symmetry: str) -> None:
    X = np.array([[0, 2, 0], [2, 5, 3], [0, 3, 0]], float)
    if symmetry == "skew-symmetric":
        X = np.triu(X, 1) - np.triu(X, 1).T
    path = tmp_path / "a.mtx"
    io.mmwrite(path, sparse.coo_array(X), symmetry=symmetry)
    np.testing.assert_array_equal(read(path).dense, X)


def test_entries_at_one_place_are_added_and_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n1 1 2.5\n2 2 1\n")
    (tmp_path / "vocab.txt").write_text("to\nbe\n")
    found = read(path)
    assert found.dense.tolist() == [[3.5, 0], [0, 1]] and found.layout.names == ["to", "be"]
    assert read(path, known=Known(2, ["a", "b"])).layout.names == ["a", "b"]


BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "a.mtx: cut off"),
        ("hello\n", "a.mtx:1: 'hello': a Matrix Market file must begin"),
        (BANNER.replace("real", "complex"), "a.mtx:1: a matrix that is coordinate complex general"),
        (BANNER.replace("coordinate", "array") + "1 1\n1\n", "a matrix that is array real general"),
        (BANNER.replace("general", "hermitian"), "coordinate real hermitian: must be"),
        (BANNER, "a.mtx: cut off; it has no line with the numbers"),
        (BANNER + "2 2\n", "a.mtx:2: '2 2': must be the numbers"),
        (BANNER + "2 2 -1\n", "a.mtx:2: '2 2 -1': must be the numbers"),
        (BANNER + "0 2 0\n", "a.mtx:2: 0 rows and 2 columns: must be at least one"),
        (BANNER + "2 9999999999 0\n", "a.mtx: 9999999999 columns: must be 1 to 2147483647"),
        (BANNER + "% x\n2 2 1\n3 1 1\n", "a.mtx:4: row 3: must be 1 to 2"),
        (BANNER + "2 2 1\n0 1 1\n", "a.mtx:3: row 0: must be 1 to 2"),
        (BANNER + "2 2 1\n1 3 1\n", "a.mtx:3: column 3: must be 1 to 2"),
        (BANNER + "2 2 1\n-1 1 1\n", "a.mtx:3: '-1' is not a row number"),
        (BANNER + "2 2 1\n1 1 nan\n", "a.mtx:3: 'nan', but every number must be a finite"),
        (BANNER + "2 2 1\n1 1 1e99\n", "a.mtx:3: '1e99', but every number must be a finite"),
        (BANNER + "2 2 1\n1 1\n", "a.mtx:3: '1 1': a line must have 3 numbers"),
        (BANNER + "2 2 1\n1 1 1 1\n", "a.mtx:3: '1 1 1 1': a line must have 3 numbers"),
        (BANNER + "2 2 2\n1 1 1\n", "a.mtx: 2 entries declared, but only 1 found"),
        (BANNER + "2 2 1\n1 1 1\n1 2 1\n", "a.mtx: 1 entries declared, but more found"),
        (
            BANNER.replace("general", "symmetric") + "2 3 0\n",
            "2 x 3: must be square, as it is symmetric",
        ),
        (BANNER + "1000000000000000 2 1\n1 1 1\n", "1,000,000,000,000,000 rows and only 1 entries"),
        (BANNER + "2 2 1000000000000000\n1 1 1\n", "entries declared, but only 1 found"),
    ],
)
def test_matrix_market_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path)
    assert message in str(raised.value)


# ---- UCI bag of words ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["docword.few.txt", "docword.few.txt.gz"])
def test_bag_of_words(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed(b"3\n4\n3\n1 2 5\n3 4 1\n1 1 2\n", name))
    found = read(path)
    assert found.dense.tolist() == [[2, 5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert found.layout.names is None
    (tmp_path / "vocab.few.txt").write_text("a\nb\nc\nd\n")
    assert read(path).layout.names == ["a", "b", "c", "d"]
    other = tmp_path / "words"
    other.write_text("a\nb\nb\nd\n")
    with pytest.raises(DataError, match="words: .*has 'b' twice"):
        read(path, vocabulary=other)
    other.write_text("a\n")
    with pytest.raises(DataError, match="words: 1 names, but there are 4 columns"):
        read(path, vocabulary=other)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "cut off; it must begin with the numbers of documents, words, entries"),
        ("3\n4\n", "cut off; it must begin"),
        ("3\nx\n1\n", "docword.a.txt:2: 'x': must be the number of words"),
        ("0\n4\n1\n", "docword.a.txt:1: '0': must be the number of documents"),
        ("1\n1\n1\n2 1 1\n", "docword.a.txt:4: row 2: must be 1 to 1"),
        ("1\n1\n2\n1 1 1\n", "2 entries declared, but only 1 found"),
    ],
)
def test_bag_of_words_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "docword.a.txt"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path)
    assert message in str(raised.value)


# ---- SciPy npz -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_])
def test_npz_as_scipy_reads_it(tmp_path: Path, kind: str, dtype: Any, memory: int) -> None:
    X = example(1000, 60).astype(dtype).asformat(kind)
    sparse.save_npz(tmp_path / "a.npz", X, compressed=kind != "csc")
    found = read(tmp_path / "a.npz", memory=memory)
    np.testing.assert_array_equal(found.dense, X.toarray().astype(np.float32))


def test_npz_with_unsorted_and_repeated_indices(tmp_path: Path) -> None:
    X = sparse.csr_array((np.array([1.0, 2, 3]), np.array([4, 1, 4]), np.array([0, 3])), (1, 5))
    sparse.save_npz(tmp_path / "a.npz", X)
    assert read(tmp_path / "a.npz").dense.tolist() == [[0, 2, 0, 0, 4]]


def save(path: Path, **arrays: Any) -> None:
    good = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([0, 2]),
        "data": np.array([1.0, 2.0]),
    }
    np.savez(path, **{**good, **arrays})


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"indices": np.array([0, 3])}, "row 1 has column index 3, but there are 3 columns"),
        ({"indices": np.array([-1, 2])}, "row 0 has column index -1"),
        ({"indices": np.array([0, 2**32])}, "row 1 has column index 4294967296"),
        ({"indices": np.array([0.0, 2.0])}, "offsets and indices must be integers"),
        ({"indptr": np.array([0, 2, 1])}, "row 1 spans the offsets 2 to 1"),
        ({"indptr": np.array([0, 9, 2])}, "row 0 spans the offsets 0 to 9"),
        ({"indptr": np.array([1, 1, 2])}, "offsets start at 1, but must start at 0"),
        ({"indptr": np.array([0, 1, 1])}, "offsets end at 1, but there are 2 numbers"),
        ({"indptr": np.array([0, 2])}, "2 rows with 2 offsets"),
        ({"indptr": np.array([0, -5, 2])}, "row 0 spans the offsets 0 to -5"),
        ({"data": np.array([1.0])}, "2 indices and 1 values"),
        ({"data": np.array([1.0, np.nan])}, "row 1, column 2 is nan"),
        ({"data": np.array([1.0, 1e300])}, "row 1, column 2 is 1e+300"),
        ({"data": np.array(["a", "b"])}, "an array of <U1: must be numbers"),
        ({"data": np.array([1j, 2])}, "an array of complex128: must be numbers"),
        ({"data": np.ones((2, 1))}, "its array data has the shape (2, 1)"),
        ({"shape": np.array([2, 0])}, "2 rows and 0 columns: must be at least one"),
        ({"shape": np.array([2])}, "its shape is not two integers"),
        ({"shape": np.array([10**15, 3])}, "1000000000000000 rows with 3 offsets"),
        ({"shape": np.array([2, 2**31])}, "2147483648 columns: must be 1 to"),
        ({"format": np.array(b"bsr")}, "a bsr matrix; save it as csr"),
        ({"format": np.array(5)}, "not a sparse matrix that scipy.sparse.save_npz wrote"),
        ({"format": np.array("x" * 999)}, "its format is not a short text"),
    ],
)
def test_npz_mistakes_are_named(tmp_path: Path, arrays: Any, message: str) -> None:
    path = tmp_path / "a.npz"
    save(path, **arrays)
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_npz_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, X=np.ones(3))
    with pytest.raises(DataError, match="no item named 'format.npy'"):
        read(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match="File is not a zip file"):
        read(path)
    coo = {"format": np.array(b"coo"), "row": np.array([0, 2]), "col": np.array([0, 1])}
    save(path, **coo)
    with pytest.raises(DataError, match=r"entry 1: row 2 must be 0 to 1"):
        read(path)


# ---- NumPy npy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i8", "|u1", "|b1"])
def test_npy_as_numpy_reads_it(
    tmp_path: Path, order: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.datasources.formats.npy.CHUNK_NUMBERS", 64)
    X = np.random.default_rng(0).integers(0, 9, (100, 7)).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", X)
    np.testing.assert_array_equal(read(tmp_path / "a.npy").dense, X.astype(np.float32))


def test_npy_of_one_dimension_is_one_column(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4))
    assert read(tmp_path / "a.npy").dense.tolist() == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    "array, message",
    [
        (np.ones((2, 2, 2)), "an array of shape (2, 2, 2)"),
        (np.array(3.0), "an array of shape ()"),
        (np.ones((0, 2)), "an array of shape (0, 2)"),
        (np.array([[1, np.inf]]), "row 0, column 1 is inf"),
        (np.array([["a"]]), "an array of <U1: must be numbers"),
        (np.array([[None]]), "an array of object: must be numbers"),
        (np.array([[1j]]), "an array of complex128: must be numbers"),
    ],
)
def test_npy_mistakes_are_named(tmp_path: Path, array: Any, message: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, array)
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_a_npy_header_that_claims_too_much_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((10, 10)))
    path.write_bytes(path.read_bytes().replace(b"(10, 10), }       ", b"(10, 999999999), }"))
    with pytest.raises(DataError, match="has 80,000,000,048"):
        read(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="cut off or damaged"):
        read(path)


# ---- BIDMat --------------------------------------------------------------------------------------


@pytest.mark.parametrize("packer", ["", ".lz4", ".gz"])
@pytest.mark.parametrize("kind", [*BIDMAT_DENSE, *BIDMAT_SPARSE])
def test_bidmat_columns_are_rows(
    tmp_path: Path, kind: str, packer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.datasources.formats.bidmat.CHUNK_NUMBERS", 100)
    monkeypatch.setattr("blocklearn.datasources.parsing.sections.CHUNK_NUMBERS", 100)
    monkeypatch.setattr("blocklearn.datasources.parsing.sections.CHUNK_ROWS", 33)
    X = example(200, 30)
    given = X.toarray() if kind in BIDMAT_DENSE else X
    path = tmp_path / f"a{kind}{packer}"
    path.write_bytes(packed(bidmat(given, kind), path.name))
    found = read(path)
    np.testing.assert_array_equal(found.dense, X.toarray())
    assert found.layout.dense == (kind in BIDMAT_DENSE)


def test_bidmat_bytes_as_the_format_is_described(tmp_path: Path) -> None:
    """A 3 x 2 matrix, columns (0, 1.5, 0) and (2, 0, -1), byte for byte."""
    path = tmp_path / "a.smat"
    path.write_bytes(
        struct.pack("<4i", 231, 3, 2, 3) + struct.pack("<3i", 0, 1, 3)
        + struct.pack("<3i", 1, 0, 2) + struct.pack("<3f", 1.5, 2, -1)
    )  # fmt: skip
    assert read(path).dense.tolist() == [[0, 1.5, 0], [2, 0, -1]]
    path = tmp_path / "a.fmat"
    path.write_bytes(struct.pack("<4i", 130, 2, 3, 0) + struct.pack("<6f", *range(6)))
    assert read(path).dense.tolist() == [[0, 1], [2, 3], [4, 5]]
    path = tmp_path / "b.smat"  # without row numbers: each column is dense from its beginning
    path.write_bytes(
        struct.pack("<4i", 331, 3, 2, 3) + struct.pack("<3i", 0, 2, 3) + struct.pack("<3f", 7, 8, 9)
    )
    assert read(path).dense.tolist() == [[7, 8, 0], [9, 0, 0]]


def test_bidmat_parts(tmp_path: Path) -> None:
    X = example(40, 10)
    for i, rows in enumerate([slice(0, 15), slice(15, 16), slice(16, 40)]):
        (tmp_path / f"part{i}.smat.lz4").write_bytes(packed(bidmat(X[rows], ".smat"), "x.lz4"))
    (tmp_path / "vocab.txt").write_text("\n".join("abcdefghij"))
    found = read(tmp_path)
    np.testing.assert_array_equal(found.dense, X.toarray())
    assert found.layout.names == list("abcdefghij")
    (tmp_path / "part3.smat.lz4").write_bytes(packed(bidmat(X[:, :5], ".smat"), "x.lz4"))
    with pytest.raises(
        DataError, match=r"part3.*sparse BIDMat matrix of 5 rows and 40 columns, but"
    ):
        read(tmp_path)


GOOD = bidmat(example(), ".smat")


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "cut off: the header has 0 of 16 bytes"),
        (GOOD[:-1], "cut off, or not BIDMat's"),
        (GOOD + b"x", "cut off, or not BIDMat's"),
        (struct.pack("<4i", 302, 1, 1, 0), "a BIDMat matrix of strings"),
        (struct.pack("<4i", 531, 1, 1, 0), "begins with 531, which is not the type"),
        (struct.pack("<4i", -231, 1, 1, 0), "begins with -231, which is not the type"),
        (struct.pack("<4i", 231, 0, 5, 0), "a BIDMat matrix of 0 rows, 5 columns"),
        (struct.pack("<4i", 231, 5, -5, 0), "a BIDMat matrix of 5 rows, -5 columns"),
        (struct.pack("<4i", 231, 2**31 - 1, 2**31 - 1, 2**31 - 1), "bytes, but a sparse BIDMat"),
    ],
)
def test_bidmat_mistakes_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.smat"
    path.write_bytes(data)
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_packed_bidmat_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.smat.lz4"
    for data in (GOOD[:-1], GOOD + b"x", struct.pack("<4i", 231, *[2**31 - 1] * 3)):
        path.write_bytes(packed(data, path.name))
        with pytest.raises(DataError, match=r"a\.smat\.lz4: (damaged or cut off|longer than|row )"):
            read(path)


# ---- grouping ------------------------------------------------------------------------------------


@given(
    entries=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 6), st.integers(-9, 9))),
    memory=st.sampled_from([1, 1000, 1 << 20]),
)
@settings(max_examples=60, deadline=None)
def test_entries_in_any_order_and_in_any_memory(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int, int]], memory: int
) -> None:
    path = tmp_path_factory.mktemp("mtx") / "a.mtx"
    lines = "".join(f"{row} {column} {value}\n" for row, column, value in entries)
    path.write_text(f"{BANNER}20 6 {len(entries)}\n{lines}")
    want = np.zeros((20, 6), np.float32)
    for row, column, value in entries:
        want[row - 1, column - 1] += value
    np.testing.assert_array_equal(read(path, memory=memory).dense, want)
