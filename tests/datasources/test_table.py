"""Tables as data: a log of clicks from CSV or Parquet to a model, and what is wrong with others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from csv import field_size_limit
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy import sparse

from blocklearn.datasources import (
    DataError,
    DataSource,
    HashedWords,
    HostBlock,
    Ids,
    Reading,
    TableData,
    hash_features,
    target_names,
)
from blocklearn.datasources.arrays.same_names import check_names
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.exit_codes import ExitCode

COUNTRIES, ADS = ["no", "it", "jp"], ["shoe", "boat", "tea", "hat"]
CONFIG = """\
model: {kind: glm, l2: 1.0e-4}
data:
  train:
    kind: table
    path: clicks.csv
    targets: [click]
    weights: importance
    categorical: [country, ad]
    numeric: [price]
    hash_bits: 14
  eval: {kind: holdout, share: 0.3}
  block_rows: 100
learner: {passes: 5, seed: 1}
"""

Learn = Callable[..., tuple[int, str, str]]


def clicks(rows: int = 2000) -> pa.Table:
    """Clicks depend on country and ad together, on neither of them alone."""
    rng = np.random.default_rng(0)
    country, ad = rng.integers(3, size=rows), rng.integers(4, size=rows)
    return pa.table(
        {
            "click": ((country + ad) % 2 == 0).astype(np.int64),
            "importance": rng.integers(1, 3, rows),
            "country": [COUNTRIES[i] for i in country],
            "ad": [ADS[i] for i in ad],
            "price": rng.random(rows).round(3),
            "note": ["unused, of course"] * rows,
        }
    )


@pytest.fixture
def learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Learn:
    """Runs `learn` in a folder with a log of clicks: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    csv.write_csv(clicks(), "clicks.csv")
    Path("ads.yaml").write_text(CONFIG)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


def auc(out: str) -> float:
    """Of the only target in the table that `learn` prints."""
    head, row = (line.split() for line in out.splitlines()[:2])
    return float(row[head.index("auc")])


def test_pairs_of_columns_say_what_columns_do_not(learn: Learn) -> None:
    code, out, err = learn("--config", "ads.yaml")
    assert code == ExitCode.DONE, err
    alone = auc(out)
    pairs = ("--set", "data.train.interactions=[[country, ad]]")
    code, out, err = learn("--config", "ads.yaml", *pairs, "--out", "runs/pairs")
    assert code == ExitCode.DONE, err
    stream = ("--set", "data.train.stream=true", "--out", "runs/stream")
    code, streamed, err = learn("--config", "ads.yaml", *pairs, *stream)
    assert code == ExitCode.DONE and auc(streamed) > 0.98, err
    assert auc(out) > 0.98 > 0.8 > alone
    assert f"{2**14 + 1:,} columns" in err


def test_a_model_is_used_on_other_tables(learn: Learn) -> None:
    """New files are read like the one that was trained on; to predict, they need no targets."""
    pairs = ("--set", "data.train.interactions=[[country, ad]]")
    assert learn("--config", "ads.yaml", *pairs)[0] == ExitCode.DONE
    table = pa.table({"country": ["no", "no"], "ad": ["shoe", "boat"], "price": [0.5, 0.5]})
    parquet.write_table(table, "new.parquet")
    code, out, err = learn("predict", "runs/ads", "--data", "new.parquet", "--out", "-")
    assert code == ExitCode.DONE, err
    shoe, boat = (json.loads(line)["prediction"][0] for line in out.splitlines())
    assert shoe > 0.9 and boat < 0.1
    code, out, _ = learn("predict", "runs/ads", "--data", "new.parquet")
    assert out.startswith("row 0: click 0.9")
    code, out, err = learn("evaluate", "runs/ads", "--data", "clicks.csv", "--json")
    assert code == ExitCode.DONE, err
    assert json.loads(out)["auc"] > 0.99
    code, _, err = learn("evaluate", "runs/ads", "--data", "new.parquet")
    assert code == ExitCode.DATA and "column 'click' is not among its 3 columns" in err
    code, _, err = learn("predict", "runs/ads", "--data", "none.csv")
    assert code == ExitCode.NO_INPUT and "none.csv" in err
    Path("y.npy").touch()
    code, _, err = learn("evaluate", "runs/ads", "--data", "clicks.csv", "--targets", "y.npy")
    assert code == ExitCode.DATA and "y.npy: must be left out" in err


def test_reports_of_mixins_are_printed(learn: Learn) -> None:
    top = ("--set", "mixins=[{kind: top-weights, count: 3, parameters: [W]}]")
    code, out, err = learn("--config", "ads.yaml", *top)
    assert code == ExitCode.DONE, err
    line = out.splitlines()[-1]
    assert line.startswith("W[0]: ") and line.count(",") == 2
    assert learn("--config", "ads.yaml", *top, "--out", "runs/b", "--quiet")[1] == ""


def test_csv_and_parquet_are_the_same_data(tmp_path: Path) -> None:
    table = clicks(300)
    csv.write_csv(table, tmp_path / "t.csv")
    csv.write_csv(table, tmp_path / "t.tsv", csv.WriteOptions(delimiter="\t"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    country = table["country"].dictionary_encode()
    parquet.write_table(table.set_column(2, "country", country), tmp_path / "t.parquet")
    settings: dict[str, Any] = {
        "targets": ["click"],
        "weights": "importance",
        "categorical": ["country", "ad"],
        "numeric": ["price"],
        "hash_bits": 12,
        "interactions": [("country", "ad")],
    }
    expected = hash_features(
        {name: table[name].to_pylist() for name in ("country", "ad")},
        12,
        interactions=[("ad", "country")],
    ).toarray()
    for name in ("t.csv", "t.tsv", "t.csv.gz", "t.parquet"):
        rows = TableData(path=tmp_path / name, **settings).load()
        X = rows.X.toarray()
        assert (X[:, 1:] == expected).all()
        assert X[:, 0] == pytest.approx(table["price"].to_numpy())
        assert rows.names == HashedWords(12, ["price"]) and rows.target_names == ["click"]
        assert rows.targets[:, 0].tolist() == table["click"].to_pylist()
        assert rows.weights.tolist() == table["importance"].to_pylist()


def test_numbers_alone_are_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,0\n3,,1\n")
    data = TableData(path=tmp_path / "t.csv", numeric=["b", "a"], nulls="zero", targets=["y"])
    rows = data.load()
    assert rows.X.tolist() == [[2, 1], [0, 3]] and rows.names == ["b", "a"]
    assert rows.weights is None and rows.X.dtype == np.float32


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_streams_have_the_same_rows(tmp_path: Path, name: str) -> None:
    table = clicks(70_000)
    csv.write_csv(table, tmp_path / "t.csv")
    parquet.write_table(table, tmp_path / "t.parquet")
    data = TableData(
        path=tmp_path / name,
        categorical=["country", "ad"],
        interactions=[("country", "ad")],
        numeric=["price"],
        targets=["click"],
        weights="importance",
        hash_bits=10,
    )
    stream = data.model_copy(update={"stream": True})
    reading = Reading(block_rows=1000)
    pairs = [
        (data.open_source(reading), stream.open_source(reading)),
        *zip(*(kind.hold_out(0.1, reading, reading) for kind in (data, stream)), strict=True),
    ]
    for memory, streamed in pairs:
        assert memory.shape.total_rows == streamed.shape.total_rows
        assert memory.names == streamed.names
        np.testing.assert_array_equal(row_sums(memory), row_sums(streamed))
        assert target_names(memory) == target_names(streamed) == ["click"]


def row_sums(source: DataSource) -> Any:
    """Of two passes, [rows x 3]: each row's features in one sum, its target and its weight."""
    found = []
    block, columns = HostBlock(source.shape), np.arange(source.shape.columns) % 97 + 1.0
    for pass_ in (0, 1):
        for index in range(source.blocks):
            source.read(pass_, index, block)
            part = slice(0, block.nnz)
            X = sparse.csr_array(
                (block.values[part].astype(float), block.indices[part], block.indptr),
                shape=(source.shape.rows, source.shape.columns),
            )
            rows = np.column_stack([X @ columns, block.targets[:, 0], block.weights])
            found.append(rows[: block.rows])
    return np.concatenate(found)


def test_missing_categories_are_no_feature(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,b\nNA,x\n,x\n"",\n')
    data = TableData(path=tmp_path / "t.csv", categorical=["a", "b"], interactions=[("a", "b")])
    assert np.diff(data.load().X.indptr).tolist() == [3, 1, 0]
    table = pa.table({"a": pa.array([7, None, 7], pa.uint8()), "b": pa.array([True, None, None])})
    parquet.write_table(table, tmp_path / "t.parquet")
    X = TableData(path=tmp_path / "t.parquet", categorical=["a", "b"]).load().X
    assert np.diff(X.indptr).tolist() == [2, 0, 1]
    assert (X[[0]] != hash_features({"a": ["7"], "b": ["True"]})).nnz == 0


def test_a_category_is_the_same_in_every_file_and_record(tmp_path: Path) -> None:
    """Whole numbers and booleans are text in CSV files and have types of their own elsewhere."""
    table = pa.table({"n": [1, -2, None], "b": [True, False, None], "t": ["x", "é", None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    coded = table.set_column(0, "n", table["n"].dictionary_encode())
    parquet.write_table(coded, tmp_path / "coded.parquet")
    (tmp_path / "t.csv").write_text("n,b,t\n1,True,x\n-2,False,é\n,,\n")
    names = ["n", "b", "t"]
    found = [
        TableData(path=tmp_path / name, categorical=names).load().X
        for name in ("t.parquet", "coded.parquet", "t.csv")
    ]
    records = table.to_pylist()
    found.append(TableData(path=tmp_path / "t.parquet", categorical=names).features_of(records))
    assert found[0].nnz == 6
    for other in found[1:]:
        assert (found[0] != other).nnz == 0


def test_blocks_of_a_file_do_not_matter(tmp_path: Path) -> None:
    """More than one batch of rows, of either format."""
    table = clicks(150_000).select(["country", "price"])
    csv.write_csv(table, tmp_path / "t.csv")
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=70_000)
    found = [
        TableData(path=tmp_path / name, categorical=["country"], numeric=["price"]).load().X
        for name in ("t.csv", "t.parquet")
    ]
    assert found[0].shape == (150_000, 2**20 + 1) and (found[0] != found[1]).nnz == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "t.csv: cannot be read as a table: Empty CSV file"),
        (b"a,x,y\n", "has no rows"),
        (b"a,y\nr,1\n", "column 'x' is not among its 2 columns: a, y"),
        (b"a,X,y\nr,1,1\n", "column 'x' is not among its 3 columns"),
        (b"a,x,x,y\nr,1,2,3\n", "column 'x' is twice"),
        (
            b"a,x,y\nr,1,1\nr,one,1\n",
            "'one', not a number; name columns of text in `categorical`. A target of text needs",
        ),
        (
            b"a,x,y\nr,1,1\nr,NA,1\n",
            "'NA', not a number; leave the fields of missing numbers empty",
        ),
        (b"a,x,y\nr,1,1\nr,1\n", "Row #3: Expected 3 columns, got 2"),
        (b"a,x,y\nr,1,1\nr,,1\n", "column 'x': row 1 is empty; set `nulls: zero`"),
        (b"a,x,y\nr,1,1\nr,1,\n", "column 'y': row 1 is empty; leave such rows out"),
        (b"a,x,y\nr,nan,1\n", "column 'x': row 0 is nan, but every number must be a finite"),
        (b"a,x,y\nr,1,1e39\n", "column 'y': row 0 is 1e+39"),
        (b"a,x,y\n\nr,1,1\n\xff,1,1\n", "t.csv:4: column 'a' has a byte that is not UTF-8:"),
        (b'a,x,y\n"r\ns",1,1\n\n\nr,two,1\n', "t.csv:6: column 'x' is 'two', not a number"),
        (b"a,x,y\r\n\r\nr,1,1\r\nr,'a,1\r\n", "t.csv:4: column 'x' is \"'a\", not a number"),
        (b'a,x,y\nr,"1\n2",1\n', "t.csv:2: column 'x' is '1\\n2', not a number"),
    ],
)
def test_faults_of_csv_are_named(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    data = TableData(path=tmp_path / "t.csv", categorical=["a"], numeric=["x"], targets=["y"])
    with pytest.raises(DataError, match="t.csv") as error:
        data.load()
    assert message in str(error.value)


def test_a_fault_behind_a_field_that_python_cannot_read_names_its_record(tmp_path: Path) -> None:
    long = b"r" * (2**17 + 1)
    (tmp_path / "t.csv").write_bytes(b"a,x,y\n\n%s,1,1\nr,a,1\n" % long)
    data = TableData(path=tmp_path / "t.csv", categorical=["a"], numeric=["x"], targets=["y"])
    before = field_size_limit(2**17)  # of the process; readers of texts raise it
    try:
        with pytest.raises(DataError, match="t.csv: record 3: column 'x' is 'a'"):
            data.load()
    finally:
        field_size_limit(before)


def test_faults_of_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.5], "x": ["one"], "n": [None]}), path)
    with pytest.raises(DataError, match="column 'a' is of type double, but a category must be"):
        TableData(path=path, categorical=["a"]).load()
    with pytest.raises(DataError, match="column 'x' is of type string, but must be numbers"):
        TableData(path=path, numeric=["x"]).load()
    with pytest.raises(DataError, match="column 'x' is named as a number and as a category"):
        TableData(path=path, numeric=["x"], categorical=["x"]).load()
    assert TableData(path=path, categorical=["n"]).load().X.nnz == 0
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="t.parquet: cannot be read as a table"):
        TableData(path=path, numeric=["a"]).load()
    with pytest.raises(DataError, match=r"t.xls: unknown kind of table.*\.csv, \.tsv, \.parquet"):
        TableData(path=tmp_path / "t.xls", numeric=["a"]).load()


def test_fields_may_be_split_at_anything(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x;word\n1.5;one\n2;two\n")
    with pytest.raises(DataError, match="first line is not split: .*separator: ';'"):
        TableData(path=path, numeric=["x"]).load()
    other = tmp_path / "u.csv"
    for data, fault in [
        (b"x;word\n1,5;one\n", "first line is not split: .*separator: ';'"),  # decimal commas
        ("x,word\n1.5,one\n".encode("utf-16"), "the file is UTF-16: must be UTF-8. Convert it"),
        ("x,word\n1.5,one\n".encode("utf-32"), "the file is UTF-32: must be UTF-8. Convert it"),
        (b"x,word\n1,5,one\n", "Expected 2 columns, got 3"),
    ]:
        other.write_bytes(data)
        with pytest.raises(DataError, match=fault):
            TableData(path=other, numeric=["x"]).load()
    found = TableData(path=path, numeric=["x"], separator=";").load()
    assert found.X.tolist() == [[1.5], [2.0]]
    scaled = TableData(path=path, numeric=["x"], separator=";", standardize=True).load()
    assert scaled.X.tolist() == [[-1.0], [1.0]]


def test_mistakes_in_the_configuration_have_their_place(learn: Learn) -> None:
    for setting, message in [
        ("data.train.interactions=[[country, add]]", "'add': must be one of `categorical`"),
        ("data.train.interactions=[[ad, ad]]", "'ad' with itself: must be two different columns"),
        ("data.train={categorical: [], numeric: []}", "no features: name columns in"),
        ("data.train.numeric=[price, click]", "'click' is a target and a feature: must be one of"),
        ("data.train.categoric=[ad]", "unknown key (did you mean 'categorical'?)"),
    ]:
        code, _, err = learn("--config", "ads.yaml", "--set", setting)
        assert code == ExitCode.CONFIG and message in err, err
    code, _, err = learn("--config", "ads.yaml", "--set", "data.train.path=none.csv")
    assert code == ExitCode.NO_INPUT and "none.csv" in err


def test_equal_names_are_compared_at_once() -> None:
    class Whole(Ids):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("names are looked at one by one")

    names = [f"column {i}" for i in range(5)]
    check_names("data", Whole(names), Whole(names))
    other = [*names[:4], "x"]
    for kind in (Ids, np.array):
        check_names("data", kind(names), kind(names))
        with pytest.raises(DataError, match="data: column 4 is 'x', but in the training data"):
            check_names("data", kind(other), kind(names))


def test_data_to_evaluate_have_the_same_columns(learn: Learn) -> None:
    other = "{kind: table, path: clicks.csv, targets: [click], categorical: [ad, country]"
    other += ", numeric: [price]"
    code, _, err = learn("--config", "ads.yaml", "--set", f"data.eval={other}, hash_bits: 10}}")
    assert code == ExitCode.DATA
    assert "data.eval has 1,025 columns, but data.train has 16,385" in err
    code, _, err = learn("--config", "ads.yaml", "--set", f"data.eval={other}, hash_bits: 14}}")
    assert code == ExitCode.DONE, err
    for categories, fault in [
        ("ad", "data.eval: column 'country' is categorical in data.train alone: must be so in"),
        ("ad, country, note", "data.train: column 'note' is categorical in data.eval alone"),
    ]:
        given = f"data.eval={other}, hash_bits: 14}}".replace("ad, country", categories)
        code, _, err = learn("--config", "ads.yaml", "--set", given, "--overwrite")
        assert code == ExitCode.DATA and fault in err, err


def test_data_to_evaluate_have_columns_of_the_same_names(learn: Learn) -> None:
    table = clicks(200).append_column("day", pa.array(np.arange(200.0)))
    parquet.write_table(table, "clicks.parquet")
    train = {
        "kind": "table",
        "path": "clicks.parquet",
        "targets": ["click", "importance"],
        "numeric": ["price", "day"],
        "standardize": True,
    }
    rows = {"kind": "parquet", "path": train["path"], "targets": train["targets"]}
    told = "column 0 is 'day', but in the training data it is 'price'"
    for other, fault in [
        (train | {"numeric": ["day", "price"]}, told),
        (rows | {"features": ["day", "price"]}, told),
        (train | {"targets": ["importance", "click"]}, "target 0 is 'importance'"),
        (train | {"standardize": False}, "standardize: false"),
    ]:
        config = {"model": {"kind": "glm"}, "data": {"train": train, "eval": other}}
        Path("ads.yaml").write_text(json.dumps(config))
        code, _, err = learn("--config", "ads.yaml")
        assert code == ExitCode.DATA and f"data.eval: {fault}" in err, err


def test_weights_of_documents_from_a_file(learn: Learn) -> None:
    """Weight 0 is as if the document were not there."""
    lines = ["harbour anchor sailor"] * 40 + ["oven flour butter"] * 40
    Path("docs.txt").write_text("\n".join(lines))
    np.save("y.npy", np.r_[np.ones(40), np.zeros(20), np.ones(20)])
    np.save("w.npy", np.r_[np.ones(60), np.zeros(20)])
    Path("docs.yaml").write_text(
        "model: {kind: glm}\n"
        "data: {train: {kind: file, path: docs.txt, targets: y.npy, weights: w.npy}}\n"
        "learner: {passes: 20}\n"
    )
    code, _, err = learn("--config", "docs.yaml")
    assert code == ExitCode.DONE, err
    Path("new.txt").write_text("oven flour\nanchor\n")
    code, out, err = learn("predict", "runs/docs", "--data", "new.txt", "--out", "-")
    oven, anchor = (float(line.split("[")[1].split("]")[0]) for line in out.splitlines())
    assert oven < 0.2 and anchor > 0.8
    for name, values, message in [
        (
            "w.npy",
            np.ones(3),
            "weights of shape (3,) and dtype float64: must be 80 real numbers",
        ),
        ("w.npy", -np.ones(80), "row 0 has the weight -1.0, but a weight must be a finite number"),
        ("w.txt", None, "unknown kind of weights; name a .npy file"),
    ]:
        if values is not None:
            np.save(name, values)
        else:
            Path(name).write_text("1\n")
        setting = f"data.train.weights={name}"
        code, _, err = learn("--config", "docs.yaml", "--out", "runs/b", "--set", setting)
        assert code == ExitCode.DATA and message in err


def test_a_streamed_file_must_not_change(tmp_path: Path) -> None:
    """Passes would be of different data."""
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "1,0\n" * 30)
    source = TableData(path=path, numeric=["x"], targets=["y"], stream=True).open_source(
        Reading(block_rows=10)
    )
    block = HostBlock(source.shape)
    for index in range(source.blocks):
        source.read(0, index, block)
    path.write_text("x,y\n" + "1,1.0\n" * 30)  # of another size: clocks of files are coarse
    with pytest.raises(DataError, match=r"t\.csv: the file was replaced or changed while"):
        for index in range(source.blocks):
            source.read(1, index, block)


@pytest.mark.parametrize("ending", [".parquet", ".parq", ".pq"])
def test_all_endings_of_parquet_are_tables(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"clicks{ending}"
    parquet.write_table(pa.table({"click": [0.0, 1.0, 1.0], "price": [1.0, 2.0, 3.0]}), path)
    rows = TableData(path=path, targets=["click"], numeric=["price"]).load()
    assert rows.X[:, 0].tolist() == [1.0, 2.0, 3.0]
