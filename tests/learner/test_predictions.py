"""Predictions go out block by block: the same as all at once, in row order, whole or not at all."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.blocks.write import write_blocks
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.results import predictions
from blocklearn.learner.results.predictions import (
    Predicted,
    json_lines,
    part_of,
    predict_blocks,
    write_predictions,
)
from blocklearn.learner.training.replicas.replica import Replica
from tests.support.learn_command import Learn
from tests.support.often import first_often

X = sparse.csr_array(np.random.default_rng(0).poisson(0.3, (100, 12)).astype(np.float32))


@pytest.fixture(scope="module")
def learner() -> bl.Learner:
    return bl.Learner(bl.models.LDA(topics=3), X, passes=1, threads=1, block_rows=32).fit()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("group", [1, 40, 1000])
def test_files_hold_what_predict_says(
    learner: bl.Learner, tmp_path: Path, named: bool, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "ROW_GROUP", group)
    names = [f"d{i}" for i in range(100)] if named else None
    source = MatrixSource(X, block_rows=32, row_names=names)
    expected = learner.predict(source)
    for name in ("p.npy", "p.parquet"):
        write_predictions(tmp_path / "deep" / name, predict_blocks(learner, source), 100)
    assert (np.load(tmp_path / "deep" / "p.npy") == expected).all()
    table = parquet.read_table(tmp_path / "deep" / "p.parquet")
    assert table["row"].to_pylist() == list(range(100))
    assert table["document"].to_pylist() == (names or [f"row {i}" for i in range(100)])
    assert (np.array(table["prediction"].to_pylist(), np.float32) == expected).all()
    lines = [json.loads(line) for line in json_lines(predict_blocks(learner, source))]
    assert [line["row"] for line in lines] == list(range(100))
    assert np.array([line["prediction"] for line in lines]) == pytest.approx(expected)
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["p.npy", "p.parquet"]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("names", [None, ["a,\tb", 'say "x"\n', "row"]])
def test_tables_of_text_hold_what_parquet_holds(
    learner: bl.Learner, tmp_path: Path, ending: str, names: list[str] | None
) -> None:
    called = [f'd"{i},\t\n' for i in range(100)]
    source = MatrixSource(X, block_rows=32, row_names=called)
    write_predictions(tmp_path / f"p{ending}", predict_blocks(learner, source), 100, names)
    with (tmp_path / f"p{ending}").open(newline="") as file:
        lines = list(csv.reader(file, delimiter="\t" if ending == ".tsv" else ","))
    columns = (names and [*names[:2], "prediction row"]) or [f"prediction {i}" for i in range(3)]
    assert lines[0] == ["row", "document", *columns]
    assert [line[:2] for line in lines[1:]] == [[str(i), name] for i, name in enumerate(called)]
    found = np.array([line[2:] for line in lines[1:]], np.float32)
    np.testing.assert_allclose(found, learner.predict(source), rtol=1e-6)
    write_predictions(tmp_path / "p.parquet", predict_blocks(learner, source), 100, names)
    if names:
        assert parquet.read_table(tmp_path / "p.parquet").column_names == lines[0]


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_make_up_the_whole(learner: bl.Learner, tmp_path: Path, parts: int) -> None:
    """Also where a part has a shorter block; 5 parts of 4 blocks are refused."""
    source = MatrixSource(X, block_rows=32, row_names=[f"d{i}" for i in range(100)])
    whole = {name: tmp_path / name for name in ("p.npy", "p.parquet", "p.csv")}
    for path in whole.values():
        write_predictions(path, predict_blocks(learner, source), 100)
    files: dict[str, list[Path]] = {name: [] for name in whole}
    for number in range(parts):
        for name, path in whole.items():
            files[name].append(part_of(path, (number, parts)))
            blocks = predict_blocks(learner, source, (number, parts))
            write_predictions(files[name][-1], blocks, None)
    found = np.concatenate([np.load(path) for path in files["p.npy"]])
    assert found.tobytes() == np.load(whole["p.npy"]).tobytes()
    tables = [parquet.read_table(path) for path in files["p.parquet"]]
    assert pa.concat_tables(tables).equals(parquet.read_table(whole["p.parquet"]))
    lines = [path.read_text().splitlines() for path in files["p.csv"]]
    rows = [lines[0][0], *(line for part in lines for line in part[1:])]
    assert rows == whole["p.csv"].read_text().splitlines()
    with pytest.raises(ConfigError, match="5 parts of 4 blocks: each must have one at least"):
        next(predict_blocks(learner, source, (0, 5)))


def test_the_command_predicts_a_part(learner: bl.Learner, tmp_path: Path, command: Learn) -> None:
    bl.save(learner, tmp_path / "model")
    write_blocks(MatrixSource(X, block_rows=32), [tmp_path / "data"])
    common = ["predict", str(tmp_path / "model"), "--data", str(tmp_path / "data")]
    out = ["--out", str(tmp_path / "p.npy")]
    for number, rows in enumerate((64, 36)):
        code, text, _ = command(*common, *out, "--part", f"{number}/2")
        assert (code, text) == (0, f"{tmp_path}/p-{number}-of-2.npy: {rows} rows\n")
    assert command(*common, *out)[0] == 0
    parts = [np.load(tmp_path / f"p-{number}-of-2.npy") for number in range(2)]
    assert (np.concatenate(parts) == np.load(tmp_path / "p.npy")).all()
    wrong = [[*out, "--part", "2/2"], ["--part", "0/2"], [*out, "--part", "0/2", "--engine", "mpi"]]
    for given in [*wrong, [*out, "--engine", "none"]]:
        assert command(*common, *given)[0] == 2


@pytest.mark.parametrize("name", ["p.npy", "p.parquet"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    def blocks() -> Iterator[Predicted]:
        yield Predicted(np.arange(2), ["a", "b"], np.ones((2, 3), np.float32))
        raise OSError("the disk is full")

    (tmp_path / name).write_text("old")
    with pytest.raises(OSError, match="the disk is full"):
        write_predictions(tmp_path / name, blocks(), 4)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_replicas_share_the_blocks_and_change_no_bit(
    learner: bl.Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    bl.save(learner, "model")
    write_blocks(MatrixSource(X, block_rows=16), ["x.blocks"])
    bound: list[str] = []
    receive = Replica._receive

    def watched(self: Replica, host: Any, *args: Any, **options: Any) -> Any:
        bound.append(threading.current_thread().name.removesuffix("_0"))
        return receive(self, host, *args, **options)

    monkeypatch.setattr(Replica, "_receive", watched)

    def run(*arguments: str) -> tuple[int | str | None, str]:
        with pytest.raises(SystemExit) as stop:
            main([arguments[0], "model", "--data", "x.blocks", *arguments[1:]])
        captured = capsys.readouterr()
        return stop.value.code, captured.out + captured.err

    for count, names in [("1", {"MainThread"}), ("3", {f"blocklearn-model-{i}" for i in range(3)})]:
        bound.clear()
        assert run("predict", "--out", f"{count}.npy", "--replicas", count)[0] == 0
        assert (len(bound), set(bound)) == (7, names)
    assert Path("1.npy").read_bytes() == Path("3.npy").read_bytes()
    scores = run("evaluate", "--json")
    for count, threads in [("3", 3), ("auto", 1)]:  # auto: there is one CPU
        bound.clear()
        assert run("evaluate", "--json", "--replicas", count) == scores
        assert len(set(bound)) == threads
    assert set(bound) == {"MainThread"}
    for wrong in ("0", "many"):
        code, text = run("predict", "--replicas", wrong)
        assert code == 2 and "must be a number above 0, or auto" in text


PARQUET = "{kind: parquet, path: train.parquet, features: [{indices: i, values: v, size: 12}]"
BLOCKS = "{kind: blocks, paths: [train.blocks]"


@pytest.mark.parametrize("kind", first_often(["parquet", "blocks"]))
def test_new_data_are_read_as_the_training_data_were(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "new"):
        part = X if name == "train" else X[:30]
        indices = pa.ListArray.from_arrays(part.indptr, part.indices)
        values = pa.ListArray.from_arrays(part.indptr, part.data)
        parquet.write_table(pa.table({"i": indices, "v": values}), f"{name}.parquet")
        write_blocks(MatrixSource(part, block_rows=16), [f"{name}.blocks"])
    data = PARQUET if kind == "parquet" else BLOCKS
    Path("lda.yaml").write_text(
        f"model: {{kind: lda, topics: 3}}\ndata: {{train: {data}}}, block_rows: 16}}\n"
    )

    def learn(*arguments: str) -> str:
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        out, err = capsys.readouterr()
        assert not exit_.value.code, err
        return out

    learn("--config", "lda.yaml")
    learn("predict", "runs/lda", "--data", f"new.{kind}", "--out", "p.npy")
    assert np.load("p.npy") == pytest.approx(bl.load("runs/lda").predict(X[:30]), rel=1e-5)
    out = json.loads(learn("evaluate", "runs/lda", "--data", f"new.{kind}", "--json"))
    assert out == pytest.approx(bl.load("runs/lda").evaluate(X[:30]), rel=1e-5)
