"""Tables in text: numbers in columns, and ratings."""

import csv
import io
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from blocklearn.datasources import DataError
from blocklearn.datasources.formats import Known
from blocklearn.datasources.formats.detect import find_files
from blocklearn.datasources.formats.documents import TextFolder
from blocklearn.datasources.parsing.scratch import Scratch
from blocklearn.datasources.ratings import read_ratings
from tests.support.formats import packed, read

TABLE = "id,age,income,click,weight\nann,31,5e4,1,0.5\nbob,-4,1.25,0,2\nzoë,0,7,1,1\n"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_columns_by_name(tmp_path: Path, name: str, end: str, bom: bytes) -> None:
    text = TABLE.replace("\n", end)
    text = text.replace(",", "\t") if ".tsv" in name else text
    path = tmp_path / name
    path.write_bytes(packed(bom + text.encode(), name))
    found = read(path, memory=1, targets=["click"], weights="weight", ids="id")
    assert found.dense.tolist() == [[31, 5e4], [-4, 1.25], [0, 7]]
    assert found.layout.names == ["age", "income"] and found.layout.target_names == ["click"]
    assert found.targets.tolist() == [[1], [0], [1]] and found.weights.tolist() == [0.5, 2, 1]
    assert found.ids == ["ann", "bob", "zoë"]


numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
)


@given(
    rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=200),
    header=st.booleans(),
    quoted=st.booleans(),
    memory=st.sampled_from([1, 1 << 28]),
)
@settings(max_examples=50, deadline=None)
def test_numbers_as_python_reads_them(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    header: bool,
    quoted: bool,
    memory: int,
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    if header:
        writer.writerow(["a", "b, c"])
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(buffer.getvalue())
    found = read(path, memory=memory)
    np.testing.assert_array_equal(found.dense, np.array(rows, float).astype(np.float32))
    assert found.layout.names == (["a", "b, c"] if header else ["0", "1"])


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,2020\n1,2\n")
    with pytest.raises(DataError, match=r"a.csv:1: some fields .* say --header or --no-header"):
        read(path)
    assert read(path, header=True).layout.names == ["x", "2020"]
    path.write_text("1,2\n3,4\n")
    assert read(path).dense.tolist() == [[1, 2], [3, 4]]
    assert read(path, header=True).dense.tolist() == [[3, 4]]
    assert read(path, columns=["a", "b"]).layout.names == ["a", "b"]
    with pytest.raises(DataError, match="2 columns, '0', '1', but must have 3, 'a', 'b'"):
        read(path, columns=["a", "b", "c"])


def test_features_of_a_model_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("b,x,a\n1,2,3\n")
    assert read(path, known=Known(2, ["a", "b"])).dense.tolist() == [[3, 1]]
    with pytest.raises(DataError, match="no column 'c'"):
        read(path, known=Known(2, ["a", "c"]))


def test_parts_and_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("a,day,b\n1,monday,\n")
    (tmp_path / "1.csv").write_text("a,day,b\n\n2,friday,4")
    found = read(tmp_path, leave_out=["day"], nulls="zero")
    assert found.dense.tolist() == [[1, 0], [2, 4]]
    (tmp_path / "2.csv").write_text("a,b,day\n1,2,x\n")
    with pytest.raises(DataError, match=r"2\.csv: 3 columns, 'a', 'b', 'day', but must have"):
        read(tmp_path, leave_out=["day"])


def test_rows_with_empty_fields_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,a,b,y\nx,1,2,1\ny,,3,1\nz,4,5,\n,6,7,0\n")
    found = read(path, nulls="drop_row", ids="n", targets=["y"])
    assert found.dense.tolist() == [[1, 2], [6, 7]] and found.targets.tolist() == [[1], [0]]
    assert found.ids == ["x", ""] and found.dropped == 2
    path.write_text("a,b\n1,2\n3,\n")
    assert read(path, nulls="zero").dropped == 1


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("", {}, "a.csv: has no records"),
        ("\n\n", {}, "a.csv: has no records"),
        ("a,b\n", {}, "a.csv: has a header but no records"),
        ("a,b\n1,2\n3\n", {}, "a.csv:3: 1 fields, but the file has 2 columns (separator ',')"),
        ("a,b\n1,2\n\n3,x\n", {}, "a.csv:4: column 'b' is 'x', not a number"),
        ("a,b\n1,2\n\n3,\n", {}, "a.csv:4: column 'b' is empty"),
        ("a,b\n1,2\n3,nan\n", {}, "a.csv:3: column 'b' is nan, but every number"),
        ("a,b\n1,inf\n", {}, "a.csv:2: column 'b' is inf, but every number"),
        ("a,b\n1,1e39\n", {}, "a.csv:2: column 'b' is 1e+39, but every number"),
        ("a,a\n1,2\n", {}, "the column 'a' occurs twice"),
        ("a,b\n1,2\n", {"targets": ["c"]}, "no column 'c'; there are 'a', 'b'"),
        (
            "a,b\n1,2\n",
            {"targets": ["a"], "weights": "a"},
            "a column is named twice",
        ),
        ("a,b\n1,2\n", {"targets": ["a", "b"]}, "0 columns: must be 1 to"),
        ("a,b\n1,2\n", {"separator": "::"}, "separator='::': must be one ASCII character"),
        ('a,b\n1,"2\n', {}, "a.csv:2: cannot be divided into fields"),
        ("a,b\r1,2\r", {}, "carriage returns alone: write line feeds"),
        ("a,b\n1;2\n", {}, "a.csv:2: 1 fields, but the file has 2 columns"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path, **options)
    assert str(path) in str(raised.value) or "separator" in str(raised.value)
    assert message in str(raised.value)


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"name,x\nann,1\nzo\xeb,2\n")
    with pytest.raises(DataError, match=r"a.csv:3: byte 0xeb is not UTF-8"):
        read(path, ids="name")


# ---- ratings -------------------------------------------------------------------------------------

RATINGS = "user,item,rating,day\n10,b,5,x\n9,a,3,x\n10,a,1.5,y\n9,c,0,z\n"


@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_ratings_in_any_order(tmp_path: Path, name: str, memory: int) -> None:
    path = tmp_path / name
    path.write_bytes(packed(RATINGS.encode(), name))
    found = read(path, format="ratings", memory=memory)
    assert found.ids == ["9", "10"] and list(found.layout.names or []) == ["a", "b", "c"]
    assert found.dense.tolist() == [[3, 0, 0], [1.5, 5, 0]]
    assert found.X.nnz == 4  # a rating of 0 is one
    assert read(path, user="user").ids == ["9", "10"]  # the option says that these are ratings


records = st.lists(
    st.tuples(st.sampled_from(["7", "07", "10", "x", "y z"]), st.integers(0, 5), st.integers(1, 9)),
    min_size=1,
    max_size=30,
)


@given(records=records, duplicates=st.sampled_from(["last", "sum", "mean"]),
       memory=st.sampled_from([1, 1 << 28]))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_ratings_are_those_that_are_read_into_memory(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, int, int]],
    duplicates: Any,
    memory: int,
) -> None:
    path = tmp_path_factory.mktemp("ratings") / "a.csv"
    lines = (f"{user},{item},{rating}\n" for user, item, rating in records)
    path.write_text("user,item,rating\n" + "".join(lines))
    found = read(path, format="ratings", duplicates=duplicates, memory=memory)
    want = read_ratings(path, duplicates=duplicates)
    assert found.ids == list(want.users) and found.layout.names == want.items
    np.testing.assert_array_equal(found.dense, want.matrix.toarray())


def test_ratings_without_numbers_and_of_known_items(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("u,i\nann,x\nbob,y\n")
    found = read(path, format="ratings", user="u", item="i", known=Known(2, ["y", "z"]))
    assert found.dense.tolist() == [[0, 0], [1, 0]] and found.ids == ["ann", "bob"]
    assert read(path, user="u", item="i", rating="").dense.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "text, message",
    [
        (RATINGS + "9,a,4,x\n", "row '9', column 'a' comes twice; choose how to"),
        (RATINGS + ",a,4,x\n", "a.csv:6: the user is empty"),
        (RATINGS + "1,,4,x\n", "a.csv:6: the item is empty"),
        (RATINGS + "1,a,,x\n", "a.csv:6: column 'rating' is empty"),
        (RATINGS + "1,a,?,x\n", "a.csv:6: column 'rating' is '?', not a number"),
        (RATINGS + "1,a,1e99,x\n", "a.csv:6: column 'rating' is 1e+99"),
        (RATINGS + "1,a\n", "a.csv:6: 2 fields, but the file has 4 columns"),
        ("user,thing,rating\n1,2,3\n", "no column 'item'; its columns are"),
        ("user,item,rating\n", "has a header but no records"),
    ],
)
def test_mistakes_in_ratings_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path, format="ratings")
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_conditions_choose_rows_of_parquet(tmp_path: Path) -> None:
    days = pa.array([date(2024, 1, n) for n in range(1, 9)])
    table = pa.table({"a": np.arange(8.0), "land": ["de", "fr", "it", "es"] * 2, "day": days})
    parquet.write_table(table, tmp_path / "a.parquet")
    for where, rows in (
        (["day >= 2024-01-06"], [5, 6, 7]),
        (["land in de, fr"], [0, 1, 4, 5]),
        (['land not in ["de", "fr"]', "a < 4"], [2, 3]),
        (["a == 3"], [3]),
    ):
        found = read(tmp_path / "a.parquet", where=where)
        assert found.dense.ravel().tolist() == rows
    for wrong, told in (
        ("a", "where='a': must be COLUMN, an operation and a value. Write it as in"),
        ("a =3", "the operation must be one of ==, !=, <"),
        ("b > 3", "no column 'b'"),
    ):
        with pytest.raises(DataError, match=told):
            read(tmp_path / "a.parquet", where=[wrong])


def test_locks_of_editors_are_no_data(tmp_path: Path) -> None:
    """They are hidden links that lead nowhere."""
    for ending in ("csv", "txt"):
        folder = tmp_path / ending
        folder.mkdir()
        (folder / f"1.{ending}").write_text("a,y\n1,0\n")
        (folder / f".#1.{ending}").symlink_to("me@here.1234")
        kind, files = find_files([str(folder)])
        if ending == "txt":
            files = TextFolder(files[0], Scratch(tmp_path))._files
        assert [file.name for file in files] == [f"1.{ending}"]


@pytest.mark.parametrize("how", ["given", "matched", "in a folder", "a text in a folder"])
def test_a_link_that_leads_nowhere_is_missing_data(tmp_path: Path, how: str) -> None:
    """Not left out, and not followed for ever."""
    ending = "txt" if "text" in how else "csv"
    (tmp_path / f"1.{ending}").write_text("a,y\n1,0\n")
    link = tmp_path / f"2.{ending}"
    for target in ("/nowhere/2.csv", str(link)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        name = {"given": link, "matched": tmp_path / f"*.{ending}"}.get(how, tmp_path)
        with pytest.raises(FileNotFoundError, match=f"a link to {target}, which is not there"):
            kind, files = find_files([str(name)])
            assert kind == "text"
            TextFolder(files[0], Scratch(tmp_path))
