"""Texts in a column of Parquet or CSV, from the command line: trained on, converted, predicted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from blocklearn.datasources import DataError, FileData, read_counts
from blocklearn.datasources.blocks import BlockSource
from blocklearn.learner.exit_codes import ExitCode
from tests.support.learn_command import Learn

WORDS = ["ship sailor, harbour\nmast storm", 'oven "bread" flour; sugar dough']
TEXTS = [" ".join([WORDS[i % 2]] * (1 + i % 3)) for i in range(40)]
CONFIG = """\
model: {kind: lda, topics: 2}
data:
  train: {kind: file, path: a.csv, text: body}
learner: {passes: 2}
"""
SETTINGS = ["--config", "text.yaml", "-q"]


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in a folder with the same texts in files of three kinds."""
    records = [{"id": i, "body": text} for i, text in enumerate(TEXTS)]
    parquet.write_table(pa.Table.from_pylist(records), "a.parquet", row_group_size=15)
    Path("a.jsonl").write_text("\n".join(map(json.dumps, records)))
    Path("text.yaml").write_text(CONFIG)
    with Path("a.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["id", "body"], *enumerate(TEXTS)])

    return command


def test_a_run_is_the_same_whatever_its_texts_lie_in(learn: Learn) -> None:
    found = set()
    for kind in ("jsonl", "parquet", "csv"):
        more = ["--set", "data.train.separator=';'"] if kind == "csv" else []
        code, _, err = learn(*SETTINGS, "--set", f"data.train.path=a.{kind}", *more, "--out", kind)
        assert code == 0, err
        found.add((Path(kind) / "weights.safetensors").read_bytes())
    assert len(found) == 1
    said = [learn("predict", "csv", "--data", f"a.{kind}") for kind in ("csv", "parquet", "jsonl")]
    assert [code for code, _, _ in said] == [0, 0, 0]
    shares = [[line.partition(": ")[2] for line in out.splitlines()] for _, out, _ in said]
    assert shares[0] == shares[1] == shares[2] and len(shares[0]) == len(TEXTS)
    assert said[1][1].startswith("a.parquet:0: ")
    assert learn("evaluate", "csv", "--data", "a.parquet")[0] == 0
    code, out, err = learn("predict", "jsonl", "--data", "a.csv", "--separator", ";")
    assert code == 0, err
    assert [line.partition(": ")[2] for line in out.splitlines()] == shares[0]
    code, _, err = learn("predict", "jsonl", "--data", "a.jsonl", "--separator", ";")
    assert code == ExitCode.DATA and "a.jsonl: separator=';': must be left out" in err
    for kind in ("csv", "jsonl"):  # with the separator of the training data; a folder of such files
        Path(f"of-{kind}").mkdir()
        Path(f"of-{kind}", f"b.{kind}").write_text(Path(f"a.{kind}").read_text())
        code, out, err = learn("predict", "csv", "--data", f"of-{kind}", "--text", "body")
        assert code == 0, err
        assert [line.partition(": ")[2] for line in out.splitlines()] == shares[0]


def test_a_dataset_of_texts_does_not_know_the_column(learn: Learn) -> None:
    assert learn("convert", "a.parquet", "blocks", "--text", "body", "--ids", "id", "-q")[0] == 0
    data = "data.train={kind: blocks, paths: [blocks]}"
    assert learn(*SETTINGS, "--set", data, "--out", "run")[0] == 0
    code, _, err = learn("predict", "run", "--data", "a.parquet")
    assert code and "no column 'bread' of numbers, which the model has; there are 'id'" in err
    assert "--text COLUMN counts the words" in err
    code, out, _ = learn("predict", "run", "--data", "a.parquet", "--text", "body")
    assert code == 0 and len(out.splitlines()) == len(TEXTS)
    assert learn("evaluate", "run", "--data", "a.jsonl", "--text", "body")[0] == 0
    code, _, err = learn("predict", "run", "--data", "blocks", "--text", "body")
    assert code and "blocks: neither JSON lines nor a table, so it has no text field 'body'" in err


def test_inspection_of_a_column(learn: Learn) -> None:
    code, out, err = learn("inspect", "a.parquet", "--text", "body", "-q")
    assert code == 0, err
    assert out.startswith("a.parquet: texts in a column of a table") and f"{len(TEXTS)}, 0" in out
    code, _, err = learn("inspect", "a.parquet", "--text", "bdy", "-q")
    assert code and "a.parquet: no column 'bdy'; it has id, body. Did you mean 'body'?" in err


def test_a_pattern_of_files(learn: Learn) -> None:
    """A value that begins with a star is a text, and no alias of YAML."""
    Path("b.jsonl").write_text(Path("a.jsonl").read_text())
    code, _, err = learn(*SETTINGS, "--set", "data.train.path=*.jsonl", "--out", "both")
    assert code == 0, err
    assert len(learn("predict", "both", "--data", "*.jsonl")[1].splitlines()) == 2 * len(TEXTS)
    assert len(read_counts("*.jsonl", text="body").documents) == 2 * len(TEXTS)
    assert list(FileData(path=Path("*.jsonl")).files()) == [Path("a.jsonl"), Path("b.jsonl")]
    with pytest.raises(DataError, match=r"x\*\.jsonl: file or folder does not exist"):
        read_counts("x*.jsonl")
    code, _, err = learn(*SETTINGS, "--set", "data.train={kind: file, path: *.jsonl}")
    assert code and "a value that starts with * is written in quotes" in err


def test_texts_from_afar_are_converted_first(learn: Learn) -> None:
    here = f"file://{Path.cwd()}/*.parquet"
    assert learn("convert", here, "afar", "--text", "body", "-q")[0] == 0
    assert learn("convert", "a.jsonl", "here", "--text", "body", "-q")[0] == 0
    first, second = BlockSource([Path("afar")]), BlockSource([Path("here")])
    assert first.names == second.names and first.shape == second.shape
    assert "no file matches this pattern" in learn("convert", f"{here}.csv", "x", "-q",
                                                     "--format", "csv")[2]  # fmt: skip
    code, _, err = learn(*SETTINGS, "--set", "data.train.path=s3://bucket/a.parquet")
    assert code and "`learn convert s3://bucket/a.parquet DIR --text COLUMN` makes blocks" in err
