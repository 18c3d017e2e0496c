"""Files of NumPy, SciPy and Matrix Market as data, targets and weights: damaged ones are refused.

The mutation tester (`tests/mutations`) found each of these.
"""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from scipy.io import mmwrite

from blocklearn.datasources import DataError
from blocklearn.datasources.formats.text_kind import FileData
from blocklearn.datasources.holdout.samples import Reading
from blocklearn.datasources.parsing.array_files import READERS
from blocklearn.datasources.parsing.market_files import load_market
from blocklearn.datasources.ratings.kind import RatingsData
from blocklearn.datasources.tables.kind import TableData
from tests.support.formats import read

X = sparse.csr_array(np.eye(4, dtype=np.float32))
MARKET = "%%MatrixMarket matrix coordinate real general\n4 2 1\n1 1 5\n"


def as_targets(path: Path) -> Any:
    sparse.save_npz(path.with_name("counts.npz"), X)
    return FileData(path=path.with_name("counts.npz"), targets=path).load()


def as_counts(path: Path) -> Any:
    return FileData(path=path).load()


def as_ratings(path: Path) -> Any:
    return RatingsData(path=path).load()


@pytest.mark.parametrize("load", [as_targets, as_counts, as_ratings])
def test_a_banner_that_is_none_is_an_error_and_not_the_end(
    tmp_path: Path, load: Callable[[Path], Any]
) -> None:
    path = tmp_path / "m.mtx"
    path.write_text(MARKET)
    assert load(path).X.shape[0] == 4
    path.write_text(MARKET.replace("Market", "Maket"))
    with pytest.raises(DataError, match=r"m\.mtx:1: .*begin with a line such as"):
        load(path)


@pytest.mark.parametrize("load", [as_targets, as_counts, as_ratings])
@pytest.mark.parametrize("number", ["0x10", "5 6", "5e", "5,0", "1e39", "nan", "5\u00bd", ""])
def test_a_number_that_is_none_is_not_read_as_another(
    tmp_path: Path, load: Callable[[Path], Any], number: str
) -> None:
    path = tmp_path / "m.mtx"
    path.write_text(MARKET.replace("1 1 5", f"1 1 {number}"))
    with pytest.raises(DataError, match=r"m\.mtx:3: "):
        load(path)


@pytest.mark.parametrize("kind", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("form", ["array", "coordinate"])
def test_matrices_as_scipy_writes_them(tmp_path: Path, kind: str, form: str) -> None:
    table = np.arange(16, dtype=np.float64).reshape(4, 4)[:, : 3 if kind == "general" else 4]
    if kind != "general":
        sign = 1 if kind == "symmetric" else -1
        table = table + sign * table.T
    path = tmp_path / "m.mtx"
    mmwrite(path, table if form == "array" else sparse.coo_array(table), symmetry=kind)
    found = load_market(path)
    assert found.dtype == np.float32
    dense = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_array_equal(dense, table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("array real general\n2 2\n1\n2\n3\n", "3 numbers, but it declares 4"),
        ("array real general\n2 2\n1\n2\n3\n4\n5\n", "5 numbers, but it declares 4"),
        ("array real general\n2 2\n1\n0x2\n3\n4\n", r"m\.mtx:4: '0x2' is not a number"),
        ("array real general\n2\n1\n", "must be the numbers of rows and columns"),
        ("array real symmetric\n2 3\n1\n", "2 x 3: must be square, as it is symmetric"),
        ("array real hermitian\n2 2\n1\n", "that is array real hermitian: must be array; real"),
        ("array real general\n999999999999 999999999999\n1\n", "1 numbers, but it declares"),
    ],
)
def test_damaged_arrays(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.mtx"
    path.write_text(f"%%MatrixMarket matrix {text}")
    with pytest.raises(DataError, match=message):
        load_market(path)


def test_pages_of_ratings_are_compared_with_their_check_sums(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    table = pa.table({"user": [1, 2], "item": ["a", "b"], "rating": [1.0, 2.0]})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    at = data.index(np.array([1.0, 2.0]).tobytes())
    data[at + 6] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"r\.parquet: cannot be read.*CRC"):
        RatingsData(path=path).load()


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, found: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in found.items():
            archive.writestr(name, data)


def npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


DAMAGES: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "a header without an end": lambda found: found.update(
        {"shape.npy": found["shape.npy"].replace(b"}", b" ")}
    ),
    "a format that is no text": lambda found: found.update({"format.npy": npy(np.array(True))}),
    "a member that is missing": lambda found: found.pop("indices.npy"),
    "Python objects": lambda found: found.update(
        {"data.npy": found["data.npy"].replace(b"<f4", b"|O ")}
    ),
    "more numbers than there are": lambda found: found.update(
        {"data.npy": found["data.npy"].replace(b"(4,), }         ", b"(999999999999,), }")}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("load", [as_targets, as_counts, as_ratings])
def test_damaged_archives(tmp_path: Path, load: Callable[[Path], Any], damage: str) -> None:
    path = tmp_path / "m.npz"
    sparse.save_npz(path, X, compressed=False)
    assert load(path).X.shape[0] == 4
    found = members(path)
    before = dict(found)
    DAMAGES[damage](found)
    assert found != before
    write_members(path, found)
    with pytest.raises(DataError, match=r"m\.npz: cannot be read"):
        load(path)


def test_packed_bytes_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    sparse.save_npz(path, X)
    data = bytearray(path.read_bytes())
    at = data.index(b"indices.npy") + len(b"indices.npy") + 20
    data[at : at + 30] = b"\xff" * 30
    path.write_bytes(data)
    for load in (as_targets, as_counts, as_ratings):
        with pytest.raises(DataError, match=r"m\.npz: cannot be read"):
            load(path)


@pytest.mark.parametrize("what", ["targets", "weights"])
def test_a_header_that_announces_terabytes_takes_no_memory(tmp_path: Path, what: str) -> None:
    sparse.save_npz(tmp_path / "counts.npz", X)
    path = tmp_path / "y.npy"
    path.write_bytes(npy(np.ones(4)).replace(b"(4,), }         ", b"(999999999999,), }"))
    with pytest.raises(DataError, match=r"y\.npy: .*announces 7,999,999,999,992 bytes"):
        FileData(path=tmp_path / "counts.npz", **{what: path}).load()  # type: ignore[arg-type]


def test_an_archive_that_announces_more_than_it_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    sparse.save_npz(path, X, compressed=False)
    data, name = path.read_bytes(), b"data.npy"
    entry = data.index(b"PK\x01\x02", data.rindex(name) - 60)
    path.write_bytes(data[: entry + 24] + b"\xf0\xff\xff\x7f" + data[entry + 28 :])
    with pytest.raises(DataError, match=r"announces 2,147,483,632 bytes"):
        as_counts(path)


def test_every_end_of_a_name_has_its_reader(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    sparse.save_npz(tmp_path / "a.npz", X)
    (tmp_path / "a.mtx").write_text(MARKET)
    for suffix, load in READERS.items():
        assert load(tmp_path / f"a{suffix}").shape in ((3, 3), (4, 4), (4, 2))


def test_pages_of_ratings_that_cannot_be_unpacked(tmp_path: Path) -> None:
    """PyArrow raises an `OSError` without a number: no fault of the disk."""
    path = tmp_path / "r.parquet"
    table = pa.table({"user": [1, 2] * 40, "item": list("ab") * 40, "rating": [1.0, 2.0] * 40})
    pq.write_table(table, path, use_dictionary=False, compression="snappy")
    whole = path.read_bytes()
    messages = set()
    for at in range(4, 200, 8):
        path.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        with pytest.raises(DataError, match=r"r\.parquet") as caught:
            RatingsData(path=path, duplicates="last").load()
        messages.add(type(caught.value.__cause__))
    assert OSError in messages


def test_more_targets_than_there_can_be_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Y.npz"
    sparse.save_npz(path, sparse.csr_array((4, 2**40), dtype=np.float32))
    with pytest.raises(
        DataError, match=r"Y\.npz: 1099511627776 targets: must be at most 2147483647"
    ):
        as_targets(path).source(Reading())


def test_a_piece_of_json_lines_without_documents(tmp_path: Path) -> None:
    """Targets of no documents are a table of no rows."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "some words", "y": 1}\n  ')  # what has no newline comes alone
    found = read(path, targets=["y"])
    assert found.targets.tolist() == [[1.0]]


def test_a_message_about_columns_does_not_repeat_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(["x" * 5000, *(f"c{i}" for i in range(3000))]) + "\n")
    with pytest.raises(DataError, match="column 'q' is not among its 3001 columns") as caught:
        TableData(path=path, numeric=["q"]).load()
    assert len(str(caught.value)) < 1000
