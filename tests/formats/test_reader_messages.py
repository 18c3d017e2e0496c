"""Files that once ended with a traceback, were refused or took minutes: each reads, or says why."""

from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse

from blocklearn.datasources import DataError, ParquetSource, Reader
from blocklearn.datasources.blocks import BlockWriter
from blocklearn.datasources.formats.delimited import Delimited
from blocklearn.datasources.formats.vowpal_wabbit import BASED, parse_example
from blocklearn.datasources.parsing.scratch import Scratch
from tests.support.formats import read


@pytest.mark.parametrize(
    "text, line",
    [
        (b"a,b\r\n1,2\r\n3,4\r,4\r\n\r\n", 3),
        (b"a,b\n1\r2,3\n", 2),
        (b"a,b\n1,2\n3,4\r\r\n", 3),
        (b"a,b\r\n1,2\r\n\r\r\n", 3),
    ],
)
def test_a_carriage_return_within_a_line_is_named(tmp_path: Path, text: bytes, line: int) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=rf"a\.csv:{line}: .*carriage return"):
        read(path)


def test_lines_that_end_in_both_ways_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\r\n1,2\n3,4\r\n\r\n5,6\r")
    assert read(path).dense.tolist() == [[1, 2], [3, 4], [5, 6]]


class Counted(str):
    """A name that counts how often it is compared."""

    compared: ClassVar[Counter[str]] = Counter()

    def __eq__(self, other: object) -> bool:
        Counted.compared["=="] += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_columns_are_looked_up_not_compared_with_all(tmp_path: Path) -> None:
    """3,000 names compared with each other would be 4.5 million comparisons."""
    path = tmp_path / "wide.csv"
    count = 3000
    names = [Counted(f"c{i}") for i in range(count)]
    path.write_text(",".join("1" * count) + "\n")
    Counted.compared.clear()
    file = Delimited([path], Scratch(tmp_path, 1 << 20), columns=names)
    assert [file.places[name] for name in names] == list(range(count))
    assert Counted.compared["=="] < 20 * count


def test_a_name_that_occurs_twice_in_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(300_000)]
    path.write_text(",".join([*names, "c7"]) + "\n" + "1," * 300_000 + "1\n")
    with pytest.raises(DataError, match="the column 'c7' occurs twice"):
        Delimited([path], Scratch(tmp_path, 1 << 26))


@pytest.mark.parametrize(
    "kind", [pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.uint64()]
)
def test_nulls_of_any_type_of_numbers_are_read_as_zero(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "a.parquet"
    given = [1, None, 0]
    if pa.types.is_boolean(kind):
        given = [True, None, False]
    elif pa.types.is_float16(kind):
        given = [np.float16(1), None, np.float16(0)]
    parquet.write_table(pa.table({"x": pa.array(given, kind)}), path)
    with Reader(ParquetSource(path, "x", nulls="zero")) as reader:
        (block,) = reader.blocks(0)
        assert block.dense[:3, 0].tolist() == [1.0, 0.0, 0.0]
    assert read(path, nulls="zero").dense[:, 0].tolist() == [1.0, 0.0, 0.0]
    table = pa.table({"x": pa.array([given, None], pa.list_(kind, 3))})
    parquet.write_table(table, path)
    with Reader(ParquetSource(path, "x", nulls="zero")) as reader:
        (block,) = reader.blocks(0)
        assert block.dense.ravel()[:6].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("1 2 0.5 'a|f x", (1.0, 2.0, 0.5, "a", ["f^x"], [1.0])),
        ("-1 1 -3 |x", (-1.0, 1.0, -3.0, "", [], [])),
        ("1 |f :0.03 :0.5 a", (1.0, 1.0, 0.0, "", ["f^:0", "f^:1", "f^a"], [0.03, 0.5, 1.0])),
        ("1 |f :1 |g :2 | :3 :4", (1.0, 1.0, 0.0, "", ["f^:0", "g^:0", ":0", ":1"], [1, 2, 3, 4])),
        ("1 |f:2 :3", (1.0, 1.0, 0.0, "", ["f^:0"], [6.0])),
    ],
)
def test_bases_and_features_without_names(line: str, expected: tuple[object, ...]) -> None:
    found = parse_example(line)
    shown = (found.label, found.importance, found.base, found.tag, found.features, found.values)
    assert shown == expected


@pytest.mark.parametrize(
    "line, text",
    [("1 2 3 4 |f a", "a label, an importance and a base"), ("1 |f :", "not a number"),
     ("1 |f :a", "not a number"), ("1 2 x |f a", "not a number"), ("1 |:2 a", "has no name")],
)  # fmt: skip
def test_what_stands_for_neither(line: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_example(line)


def test_bases_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "a.vw"
    path.write_text("1 1 0.5 |f :0.03 a\n-1 1 0 |f :2\n")
    found = read(path)
    assert found.layout.names is not None
    columns = {name: column for column, name in enumerate(found.layout.names)}
    assert found.dense[:, columns["f^:0"]].tolist() == [np.float32(0.03), 2.0]
    assert found.dense[:, columns["f^a"]].tolist() == [1.0, 0.0]
    assert "left out" in BASED


@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "coo_array"])
@pytest.mark.parametrize("name", ["indptr", "dense", "targets"])
def test_a_writer_says_how_a_sparse_matrix_is_appended(
    tmp_path: Path, form: str, name: str
) -> None:
    X = getattr(sparse, form)(np.eye(3))
    with (
        BlockWriter([tmp_path / "blocks"], block_rows=2) as writer,
        pytest.raises(DataError, match=rf"{name}={form}: must be .*X\.indptr, X\.indices, X\.data"),
    ):
        writer.append(**{name: X})


def test_a_writer_says_how_a_table_is_appended(tmp_path: Path) -> None:
    with (
        BlockWriter([tmp_path / "blocks"], block_rows=2) as writer,
        pytest.raises(DataError, match=r"append\(dense=X\)"),
    ):
        writer.append(np.eye(3))
