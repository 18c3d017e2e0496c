"""Links between pages from tables: what is read, and what is refused where."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from blocklearn.datasources import DataError, LinksData, Reading


def put(folder: Path, text: str, name: str = "e.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def links(data: LinksData) -> tuple[list[str], dict[tuple[str, str], float]]:
    """The pages, and the weights of links by their names."""
    found = data.load()
    assert found.row_names is not None and list(found.row_names) == list(found.names or ())
    X, names = found.X.tocoo(), list(found.row_names)
    assert X.shape == (len(names), len(names))
    pairs = zip(X.row, X.col, X.data, strict=True)
    return names, {(names[i], names[j]): float(w) for i, j, w in pairs}


def test_pages_of_both_columns_are_rows_and_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "source,target\nb,a\nc,a\na,é\nb,a\n")
    wanted = {("a", "é"): 1.0, ("b", "a"): 2.0, ("c", "a"): 1.0}
    assert links(LinksData(path=path)) == (["a", "b", "c", "é"], wanted)


def test_numbers_are_sorted_as_numbers_and_kept_as_they_are(tmp_path: Path) -> None:
    text = "10 2 0.5\n2 9 1\n9 10 1\n10 2 1\n"
    given: dict[str, Any] = {"columns": ["source", "target", "weight"], "separator": " "}
    names, found = links(LinksData(path=put(tmp_path, text, "e.txt"), **given))
    assert names == ["2", "9", "10"] and found[("10", "2")] == 1.5
    path = put(tmp_path, "source\ttarget\n007\t7\n", "e.tsv")
    assert links(LinksData(path=path)) == (["007", "7"], {("007", "7"): 1.0})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_comments_before_the_first_record_are_left_out(
    tmp_path: Path, packed: bool, end: str
) -> None:
    """Edge lists of SNAP begin like this."""
    lines = ['# Directed graph, "wiki', "#", "# From\tTo", "30\t1412", "30\t#3", "#3\t5"]
    path, text = tmp_path / ("e.tsv.gz" if packed else "e.tsv"), (end.join(lines) + end).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    wanted = {("30", "1412"): 1.0, ("30", "#3"): 1.0, ("#3", "5"): 1.0}
    names, found = links(LinksData(path=path, columns=["source", "target"]))
    assert names == ["#3", "1412", "30", "5"] and found == wanted

    faulty = put(tmp_path, "# one\n# two\nsource,target\na,b\nc\n")
    with pytest.raises(DataError, match=r"e\.csv:5: 1 fields"):
        LinksData(path=faulty).load()
    for text in ("# only\n", "# header alone\nsource,target\n"):
        with pytest.raises(DataError, match="no records"):
            LinksData(path=put(tmp_path, text)).load()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(b"# a comment\nsource,target\na,b\n" * 50)[:30])
    with pytest.raises(DataError, match=r"e\.csv\.gz: cannot be read"):
        LinksData(path=path).load()


def test_parquet_with_ids_of_two_types(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    parquet.write_table(pa.table({"from": [3, 20], "to": ["20", "3"], "n": [2.0, 1.0]}), path)
    data = LinksData(path=path, source="from", target="to", weight="n")
    assert links(data) == (["3", "20"], {("3", "20"): 2.0, ("20", "3"): 1.0})


def test_evaluation_data_have_the_pages_of_the_training_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    like = LinksData(path=put(tmp_path, "source,target\na,b\nb,c\n")).open_source(Reading())
    other = LinksData(path=put(tmp_path, "source,target\nc,a\nz,a\n", "other.csv")).load(like)
    assert other.X.toarray().tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert "1 links are of pages that the model does not know" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,target\na,b\n,c\n", r"e\.csv:3: the page '' is empty"),
        ("source,target\na,b\nc,\n", r"e\.csv:3: the page '' is empty"),
        ("source,target,weight\na,b,1\nb,c,x\n", r"e\.csv:3: the weight 'x' is not a number"),
        ("source,target,weight\na,b,1\nb,c,inf\n", r"e\.csv:3: the weight inf: must be finite"),
        ("source,target\na,b\nc\n", r"e\.csv:3: 1 fields, but the file has 2 columns"),
        ("from,target\na,b\n", r"no column 'source'; its columns are .* `source: NAME` says"),
        ("source,target,n\na,b,1\n", r"no column 'weight'.*or counts each record as 1: null"),
        ("source,target\n", r"e\.csv: the file has no records"),
        ("a,b\nb,c\n", r"If its first line is a record.*columns: \[source, target\]\."),
    ],
)
def test_faults_are_named_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        LinksData(path=put(tmp_path, text)).load()


def test_missing_ids_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    parquet.write_table(pa.table({"source": ["a", "b"], "target": ["b", None]}), path)
    with pytest.raises(DataError, match=r"record 1: the target is missing"):
        LinksData(path=path).load()
