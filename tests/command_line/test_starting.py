"""`learn init` and `learn lda FILE`: what is found in data, and configurations that run."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from blocklearn.datasources import DataError
from blocklearn.datasources.packed.streams import opened
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.yaml_config import resolve
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.inspection import look
from blocklearn.learner.inspection.table_report import table_report, told
from blocklearn.learner.results.persistence import load
from blocklearn.learner.runs import workers
from blocklearn.learner.starting.write import BEGUN, configuration, scalar, settings
from tests.support.learn_command import Learn
from tests.support.often import first_often
from tests.support.thread_workers import thread_exchanges

MAILS = "id,subject,body\n1,hello there,a ship and a storm at sea\n2,re: hello,bread with butter\n"
RATINGS = "userId;movieId;rating;timestamp\n7;film, 1;4;100\n8;film 2;5;101\n"
PLAYS = "u1\ts1\t40\nu2\ts2\t3\n"
BOUGHT = "customer,product,date\nann,milk,2020-01-01\nbob,tea,2020-01-02\n"
FLOWERS = "id,size,age,country,species\n1,1.5,,de,rose\n2,2.5,3,fr,daisy\n"
LINKS = "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 1\n2 3 1\n3 1 1\n"
CLICKS = "click,price,note\n0,1.5,a\n1,2.5,b\n"


@pytest.mark.parametrize("leads", [True, False])
def test_one_of_several_workers_says_what_is_left_out(
    leads: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(workers, "crew_of", lambda run, alone: Crew(thread_exchanges(2)[not leads]))
    (tmp_path / "t.csv").write_text("y,x,born\n0,1,1990-01-02\n1,2,1991-01-02\n")
    with pytest.raises(SystemExit):
        main(["glm", str(tmp_path / "t.csv"), "--target", "y", "--dry-run"])
    assert ("left out (dates, long texts): born" in capsys.readouterr().err) is leads


def test_no_other_thread_reads_a_file_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Arrow that waits for Python at the end of the process would abort it."""
    (tmp_path / "t.csv").write_text(FLOWERS)
    threads = set()

    @contextmanager
    def watched(*given: Any) -> Iterator[BinaryIO]:
        with opened(*given) as file:

            class Watched(io.BytesIO):
                def read(self, *size: Any) -> bytes:
                    threads.add(threading.get_ident())
                    return super().read(*size)

            yield Watched(file.read())

    monkeypatch.setattr(look, "opened", watched)
    look.look_at(tmp_path / "t.csv")
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize(
    "text, told",
    [
        ("who,what,how\nann,milk,3\nann,tea,4\n",
         "users are column 'who', items column 'what', ratings are column 'how'"),
        ("who,what\nann,milk\n",
         "users are column 'who', items column 'what', each line counts as 1"),
        ("user,item,rating\nann,milk,3\nbob,milk,2\n", ""),
        ("user,item,rating\nann,milk,3\nbob,milk,3\n",
         "column 'rating' is 3 in each of the first 2 rows: if all are equal, learn from who has"),
        ("user,item\nann,milk\n", ""),
    ],
)  # fmt: skip
def test_columns_of_ratings_that_no_name_tells_are_told(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "r.csv").write_text(text)
    for model in ("als", "ranking"):
        note = settings(model, tmp_path / "r.csv")[1]
        assert note.startswith(told) and bool(note) == bool(told)


@pytest.mark.parametrize("name", ["rating", "plays"])
def test_ratings_that_are_no_numbers_are_not_left_out(command: Learn, name: str) -> None:
    Path("r.csv").write_text(f"user,item,{name}\na,x,4\na,y,many\nb,x,1\n")
    code, _, err = command("als", "r.csv")
    assert code == ExitCode.DATA and "r.csv:3: the rating 'many' is not a number" in err
    assert err.endswith("or to null: each line counts as 1 then.\n")


def test_texts_that_are_no_table_are_named_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for name in ("UTF-16", "UTF-32"):
        file.write_bytes(FLOWERS.encode(name))
        with pytest.raises(DataError, match=f"is {name}: must be UTF-8. Convert it with iconv"):
            settings("glm", file)
    file.write_text('x,y,z\n1,0,1\n2,"1,0\n' + "3,0,1\n" * 9)
    with pytest.raises(DataError, match=r'Row #3: Expected 3 columns, got 2: 2,"1,0$'):
        settings("glm", file)
    file.write_bytes("name,item,y\nJosé,a,1\nAnn,b,0\n".encode("latin-1"))
    for model in ("glm", "kmeans", "lda"):
        with pytest.raises(DataError, match=r"column 'name' has a byte that is not UTF-8: convert"):
            settings(model, file)
    file.write_bytes("user,item,rating,title\na,x,2,José\nb,y,1,Ann\n".encode("latin-1"))
    settings("als", file)  # it does not read the title


@pytest.mark.parametrize("name, loss", [("plays", "implicit"), ("how", "explicit")])
def test_small_numbers_are_ratings_unless_their_name_says_counts(
    tmp_path: Path, name: str, loss: str
) -> None:
    (tmp_path / "r.csv").write_text(f"user,item,{name}\na,x,2\nb,y,1\n")
    found = {each.path: each.text for each in settings("als", tmp_path / "r.csv")[0]}
    assert found["model.loss"] == f'"{loss}"'


@pytest.mark.parametrize(
    "text, directions",
    [("a,b\n1,2\n", "2"), ("a,b\n1,x\n", "20"), ("id,when\n1,2020-01-01\n", "20")],
)
def test_a_narrow_table_has_no_more_directions_than_columns(
    tmp_path: Path, text: str, directions: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    found = {each.path: each.text for each in settings("svd", tmp_path / "t.csv")[0]}
    assert found["model.components"] == directions


def test_an_entry_that_makes_categories_of_numbers_is_told(tmp_path: Path) -> None:
    ages = ["?" if row == 1203 else str(row % 70) for row in range(1, 1301)]  # beyond the values
    lines = [f"{age},{row % 7}b,{row % 2}\n" for row, age in enumerate(ages)]
    (tmp_path / "t.csv").write_text("age,flat,y\n" + "".join(lines))
    told = "column 'age' has categories, since line 1204 has '?'"
    for model in ("glm", "kmeans"):
        assert settings(model, tmp_path / "t.csv")[1].startswith(told)
        assert f"categorical: [age, flat]  # {told}" in configuration(model, tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"t\.csv:1204: column 'age', to predict, is '\?', and"):
        settings("glm", tmp_path / "t.csv", "age")


def test_a_few_numbers_and_texts_to_predict_are_classes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,size\n\n1,1\n2,2\n\n3,3+\n4,1\n")
    found, told = settings("glm", tmp_path / "t.csv")
    assert {each.path: each.text for each in found}["model.link"] == '"softmax"'
    assert told.startswith("column 'size' has categories, since line 6 has '3+'")
    for odd, numbers in (("None", 2), ("3+", 100)):  # a missing number, and numbers of any size
        rows = "".join(f"1,{row % numbers}\n" for row in range(200))
        (tmp_path / "t.csv").write_text(f"x,size\n{rows}4,{odd}\n")
        with pytest.raises(DataError, match=r"t.csv:202: column 'size', to predict, is "):
            settings("glm", tmp_path / "t.csv")


@pytest.mark.parametrize("model", ["lda", "als", "glm"])
def test_a_block_dataset_needs_a_configuration(command: Learn, model: str) -> None:
    Path("d.txt").write_text("ship sail storm\n" * 4)
    assert command("convert", "d.txt", "blocks")[0] == 0
    code, _, err = command(model, "blocks")
    assert code == ExitCode.CONFIG and "blocks: is a block dataset" in err
    rest = " --set data.eval=null" if model == "als" else ""
    assert f"--set 'data.train={{kind: blocks, paths: [blocks]}}'{rest}`" in err


@pytest.mark.parametrize("value", ["1", "2.5"])
def test_a_target_that_is_the_same_everywhere_is_told(tmp_path: Path, value: str) -> None:
    (tmp_path / "t.csv").write_text(f"x,y\n1,{value}\n2,{value}\n")
    note = settings("glm", tmp_path / "t.csv")[1]
    assert note == f"column 'y', to predict, is {value} in each of the first 2 rows"
    (tmp_path / "t.csv").write_text(f"x,y\n1,{value}\n2,0\n")
    assert settings("glm", tmp_path / "t.csv")[1] == ""


@pytest.mark.parametrize("model", first_often(["glm", "fm"]))
def test_targets_of_minus_1_and_1_and_real_labels_are_trained(command: Learn, model: str) -> None:
    rows = [(row % 7 - 3, row % 5) for row in range(60)]
    signs = [f"{a},{b},{1 if a > 0 else -1}\n" for a, b in rows]
    Path("s.csv").write_text("x,z,y\n" + "".join(signs))
    assert command(model, "s.csv", "--quiet")[0] == 0
    predicted = command("predict", f"runs/{model}-s", "--data", "s.csv")[1]
    assert predicted.startswith("row 0: y.-1 ") and ", y.1 " in predicted.splitlines()[0]
    Path("n.svm").write_text("".join(f"{a + b / 10} 1:{a} 2:{b}\n" for a, b in rows))
    assert command(model, "n.svm", "--quiet")[0] == 0
    assert command("predict", f"runs/{model}-n", "--data", "n.svm")[1].startswith("row 0: 0 -3")


def test_json_lines_that_are_none_are_refused(tmp_path: Path) -> None:
    for text in ("a storm\n", "[1, 2]\n", "3\n"):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(DataError, match="a.jsonl:1: must be a JSON object, such as"):
            configuration("lda", tmp_path / "a.jsonl")


@pytest.mark.parametrize("damage", ["cut off", "not packed"])
def test_a_damaged_packed_table_is_bad_data(damage: str, tmp_path: Path) -> None:
    file, whole = tmp_path / "r.csv.gz", gzip.compress(FLOWERS.encode() * 50)
    file.write_bytes(whole[:-40] if damage == "cut off" else FLOWERS.encode())
    for model in ("glm", "als", "lda"):
        with pytest.raises(DataError, match=r"r\.csv\.gz: damaged or cut off"):
            configuration(model, file)
    with pytest.raises(DataError, match=r"r\.csv\.gz: damaged or cut off"):
        table_report(file)


def test_a_table_is_looked_at_in_each_packing(tmp_path: Path) -> None:
    plain = tmp_path / "r.csv"
    plain.write_text(RATINGS)
    told_of_plain = configuration("als", plain)
    for ending, pack in ((".gz", gzip), (".bz2", bz2), (".xz", lzma)):
        file = tmp_path / f"r.csv{ending}"
        file.write_bytes(pack.compress(RATINGS.encode()))
        assert configuration("als", file) == told_of_plain.replace("r.csv", file.name)
        assert table_report(file)["columns"] == table_report(plain)["columns"]


def section(model: str, path: Path) -> RunConfig:
    """The configuration that `learn init` writes, read back and validated."""
    file = path.parent / "begun.yaml"
    file.write_text(configuration(model, path), encoding="utf-8")
    return resolve(RunConfig, [file], {})


@pytest.mark.parametrize(
    "model, name, text, train, of_model",
    [
        ("lda", "m.csv", MAILS, {"kind": "file", "text": "body", "min_df": 3}, {"topics": 20}),
        ("nmf", "a.txt", "a storm\n", {"kind": "file", "max_df": 0.5}, {"components": 20}),
        (
            "als", "r.csv", RATINGS,
            {"user": "userId", "item": "movieId", "rating": "rating", "separator": ";"},
            {"loss": "explicit"},
        ),
        (
            "als", "p.tsv", PLAYS,
            {"user": "column 1", "columns": ["column 1", "column 2", "column 3"]},
            {"loss": "implicit"},
        ),
        (
            "als", "b.csv", BOUGHT,
            {"user": "customer", "item": "product", "rating": None, "duplicates": "sum"},
            {"loss": "implicit"},
        ),
        (
            "ranking", "b.csv", BOUGHT,
            {"user": "customer", "item": "product", "rating": None, "duplicates": "sum"},
            {"kind": "ranking", "reg": "auto"},
        ),
        (
            "lda", "d.csv", "when,body\n2024-01-05,a ship\n2024-02-01,a storm\n",
            {"text": "body", "date": "when"}, {},
        ),
        (
            "lda", "y.csv", "year,size,body\n2024,3,a ship at sea\n2023,4,a storm\n",
            {"text": "body", "date": "year"}, {},
        ),
        (
            "lda", "d.jsonl", '{"published": "2024-05", "title": "x", "body": "a ship"}\n',
            {"text": "body", "date": "published"}, {},
        ),
        ("lda", "e.jsonl", '{"words": "a ship", "n": 3}\n', {"text": "words", "date": None}, {}),
        (
            "glm", "f.csv", FLOWERS,
            {"targets": ["species"], "classes": True, "numeric": ["size", "age"],
             "categorical": ["country"], "nulls": "zero"},
            {"link": "softmax"},
        ),
        (
            "glm", "c.csv", CLICKS,
            {"targets": ["click"], "numeric": ["price"], "categorical": ["note"],
             "nulls": "error", "classes": False},
            {"link": "logistic"},
        ),
        (
            "glm", "s.csv", "x,y\n3,-1\n4,1\n5,-1\n",
            {"targets": ["y"], "classes": True, "numeric": ["x"]}, {"link": "softmax"},
        ),
        ("glm", "x.svm", "1 1:2\n", {"kind": "libsvm", "classes": True}, {"link": "softmax"}),
        (
            "glm", "signs.svm", "# two\n\n+1 1:2\n-1.0 1:.5\n1e0\n",
            {"kind": "libsvm", "classes": True}, {"link": "softmax"},
        ),
        (
            "glm", "n.svm", "1,2 1:2\n2,.5 1:3\n",
            {"kind": "libsvm", "classes": False}, {"link": "linear"},
        ),
        (
            "glm", "i.csv", ",a,b,y\n0,1.5,True,2.5\n1,2.5,False,7\n",  # by pandas, with its index
            {"ids": "", "numeric": ["a"], "categorical": ["b"], "classes": False},
            {"link": "linear"},
        ),
        (
            "glm", "t.csv", "a,y\n1.5,True\n2.5,False\n",
            {"numeric": ["a"], "classes": True}, {"link": "softmax"},
        ),
        ("fm", "c.csv", CLICKS, {"targets": ["click"], "numeric": ["price"]}, {"link": "logistic"}),
        (
            "kmeans", "f.csv", FLOWERS,
            {"kind": "table", "numeric": ["size", "age"], "categorical": ["country", "species"],
             "ids": "id", "standardize": True, "nulls": "zero"},
            {"spherical": False},
        ),
        ("kmeans", "m.csv", MAILS, {"kind": "file", "text": "body"}, {"spherical": True}),
        ("kmeans", "x.svm", "1 1:2\n", {"kind": "libsvm"}, {"clusters": 20}),
        ("svd", "f.csv", FLOWERS, {"kind": "table", "ids": "id"}, {"components": 20}),
        ("svd", "m.csv", MAILS, {"kind": "file", "text": "body"}, {"components": 20}),
        (
            "gaussian-mixture", "f.csv", FLOWERS,
            {"kind": "table", "standardize": True}, {"components": 10, "reg_covar": 0.01},
        ),
        (
            "word-vectors", "m.csv", MAILS,
            {"kind": "sentences", "text": "body"}, {"dimensions": 100},
        ),
        ("word-vectors", "a.txt", "a storm\n", {"kind": "sentences", "text": "text"}, {}),
        *[
            (model, "a.mtx", LINKS, {"kind": "file"}, {"kind": model})
            for model in ("pagerank", "components", "triangles")
        ],
        (
            "pagerank", "e.csv", "Src,dst,weight\na,b,1\nb,c,x\n",
            {"kind": "links", "source": "Src", "target": "dst", "weight": "weight"}, {},
        ),
        (
            "components", "e.txt", "10 2\n2 9\n",
            {"kind": "links", "source": "column 1", "columns": ["column 1", "column 2"],
             "weight": None, "separator": " "}, {},
        ),
        (
            "triangles", "e.txt", "# Nodes: 3 Edges: 2\n# From\tTo\n10\t2\n2\t9\n",
            {"kind": "links", "source": "column 1", "columns": ["column 1", "column 2"],
             "separator": "\t"}, {},
        ),
    ],
)  # fmt: skip
def test_a_configuration_is_found_in_the_data(
    tmp_path: Path, model: str, name: str, text: str, train: Any, of_model: Any
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    config = section(model, path)
    found = config.data.train.model_dump()
    assert {key: found[key] for key in train} == train and str(found["path"]) == str(path)
    assert {key: getattr(config.model, key) for key in of_model} == of_model


def test_parquet_is_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"y": [1.5, 2.5], "a b": [1, 2], "t": ["x", "z"]}), path)
    config = section("glm", path)
    train = config.data.train.model_dump()
    assert train["numeric"] == ["a b"] and train["categorical"] == ["t"]
    assert train["targets"] == ["y"] and config.model.link == "linear"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["a: b #.csv", "größe\u2028x.csv", "'\"\\.csv"])
def test_hostile_names_of_files_and_columns_are_text(tmp_path: Path, name: str) -> None:
    path, column = tmp_path / name, '#: "x"\\'
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[column, "null", "y"], [1.5, 2, 0], [2.5, 1, 1]])
    train = section("glm", path).data.train.model_dump()
    assert train["numeric"] == [column, "null"] and train["path"] == path


@pytest.mark.parametrize(
    "model, name, text, error, told",
    [
        ("lda", "c.csv", "a,b\n1,2\n", ConfigError, "must be a table with a column of texts"),
        ("lda", "x.svm", "1 1:2\n", ConfigError, "must be a folder of .txt files"),
        ("word-vectors", "a.npz", "x", ConfigError, "which words are neighbours"),
        ("triangles", "c.csv", "a\n1\n", ConfigError, "must be a table with two columns of pages"),
        ("triangles", "c.jsonl", "{}\n", ConfigError, "must be a table of links"),
        ("pagerank", "e.csv", "a,b\nb,c\n", ConfigError, "'b' is a page of a later line, too"),
        ("als", "a.txt", "x\n", ConfigError, "must be a table of users and items"),
        ("als", "a.csv", "user\n1\n", ConfigError, "it has one column"),
        ("glm", "a.csv", "1,2\n3,4\n", ConfigError, "whose first line names the columns"),
        ("glm", "a.jsonl", "{}\n", ConfigError, "Write its fields as columns: pandas.read_json"),
        ("glm", "a.csv", "", DataError, "the file is empty"),
        ("glm", "a.csv", "a,b\n", DataError, "the table has no rows"),
        ("gaussian-mixture", "a.txt", "a storm\n", ConfigError, "a table of numbers and categor"),
        ("glm", "a.csv", "a;y\n1,5;0\n2,25;1\n", DataError, "'a' has numbers with decimal commas"),
        ("glm", "a.csv", "a;y\n1;0,5\n2;1,5\n", DataError, "such as 0,5: must have decimal point"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    tmp_path: Path, model: str, name: str, text: str, error: type[Exception], told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=told):
        configuration(model, tmp_path / name)


@pytest.mark.parametrize(
    "model, target, told",
    [
        ("glm", "size", r"must be a column of .*t\.csv: survived, sex, class"),
        ("kmeans", "sex", "kmeans predicts no column; glm and fm do"),
        ("lda", "sex", "lda predicts no column"),
    ],
)
def test_a_target_that_cannot_be_predicted_is_refused(
    tmp_path: Path, model: str, target: str, told: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("survived,sex,class\n1,f,first\n0,m,third\n")
    with pytest.raises(ConfigError, match=f"--target='{target}': {told}"):
        configuration(model, path, target)
    with pytest.raises(ConfigError, match="FILE is missing"):
        configuration(model, None, target)
    path = tmp_path / "t.svm"
    path.write_text("1 1:2\n")
    with pytest.raises(ConfigError, match="must be a table, to have a column 'x'"):
        configuration("glm", path, "x")


@pytest.mark.parametrize("model", first_often(["glm", "fm"]))
def test_another_target_than_the_one_that_is_found(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{i % 2},{'fm'[i % 2]},{'abc'[i % 3]}" for i in range(40)]
    Path("t.csv").write_text(
        "\n".join(["survived,sex,class,born", *(f"{x},1990-01-02" for x in lines)])
    )
    line = f"{model} t.csv --target survived --threads 1 --set learner.report=false"
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    said = capsys.readouterr().err
    assert stop.value.code == 0 and said.startswith("t.csv: left out (dates, long texts): born\n")
    train = resolve(RunConfig, [Path(f"runs/{model}-t/config.yaml")], {}).data.train.model_dump()
    assert train["targets"] == ["survived"] and train["categorical"] == ["sex", "class"]
    with pytest.raises(SystemExit) as stop:
        main("als t.csv --target sex".split())
    assert stop.value.code == 2 and "--target" in capsys.readouterr().err


@pytest.mark.parametrize("model", BEGUN)
def test_without_data_the_delivered_configuration_is_written(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for expected in (0, 2):  # the second time the file exists
        with pytest.raises(SystemExit) as stop:
            main(["init", model])
        assert stop.value.code == expected
    assert resolve(RunConfig, [tmp_path / f"{model}.yaml"], {}).model.kind == model  # type: ignore[attr-defined]
    assert "--overwrite replaces it" in capsys.readouterr().err


def test_inspect_describes_columns_of_text(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.csv"
    rows = ["a,t,n,mixed", '1,"x\ny",,1', "2,x,,z", ",x,,3", "4,\x1b[2J,,4"]
    path.write_text("\n".join(rows) + "\n")
    report = table_report(path)
    a, t, n, mixed = report["columns"]
    assert report["rows"] == 4
    assert (a["kind"], a["least"], a["largest"], a["missing"], a["values"]) == (
        "number",
        1,
        4,
        1,
        3,
    )
    assert a["mean"] == pytest.approx(7 / 3)
    assert t["kind"] == "text" and t["frequent"][0] == {"value": "x", "count": 2}
    assert n["kind"] == "empty" and n["missing"] == 4 and mixed["kind"] == "text"
    for line in (f"inspect {path}", f"inspect {path} --json"):
        with pytest.raises(SystemExit) as stop:
            main(line.split())
        assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "text, 3 values: 'x' (2)" in shown and "\x1b" not in shown


def test_columns_of_many_values_and_of_lists_are_counted_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.learner.inspection.table_report.MOST_VALUES", 5)
    path = tmp_path / "t.parquet"
    lists = [[i] for i in range(9)]
    parquet.write_table(pa.table({"id": [f"d{i}" for i in range(9)], "l": lists}), path)
    ids, other = table_report(path)["columns"]
    assert ids["values"] == 5 and ids["more_values"]
    assert other["kind"] == "text" and "more than 0 values" in told(other)


def test_scalars_read_back() -> None:
    from ruamel.yaml import YAML

    for value in ["true", "-", "a-b", "1e5", "", "größe", "\x1b", ["null", 1.5, None], {"a": True}]:
        assert YAML(typ="safe").load(io.StringIO(f"x: {scalar(value)}\n"))["x"] == value


def test_a_table_with_classes_is_trained_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kinds = ["daisy", "red, rose", "tulip"]
    rows = [(k, 3.0 * k + rng.normal(), rng.normal()) for k in rng.integers(0, 3, 200)]
    with open("flowers.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["size", "age", "species"], *([size, age, kinds[k]] for k, size, age in rows)]
        )
    for line in (
        "glm flowers.csv --quiet --threads 1 --set learner.report=false",
        "predict runs/glm-flowers --data flowers.csv --out found.csv",
        "evaluate runs/glm-flowers --data flowers.csv --json",
    ):
        with pytest.raises(SystemExit) as stop:
            main(line.split())
        assert stop.value.code == 0, capsys.readouterr()
    assert '"accuracy":' in capsys.readouterr().out
    with open("found.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["row", "document", *kinds]
    best = [max(kinds, key=lambda kind, row=row: float(row[kind])) for row in found]  # type: ignore[misc]
    assert np.mean([kinds[k] == name for (k, *_), name in zip(rows, best, strict=True)]) > 0.7
    Path("new.csv").write_text("size,age,species\n1,1,nettle\n")
    with pytest.raises(SystemExit) as stop:
        main("evaluate runs/glm-flowers --data new.csv".split())
    assert stop.value.code == 65
    assert "row 0 has the class 'nettle', which the training data do not" in capsys.readouterr().err


def test_a_target_of_any_size_is_learned_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = 3e5 + 8e4 * (X[:, 0] - X[:, 1])
    lines = [f"{a},{b},{price}" for (a, b), price in zip(X, y, strict=True)]
    (tmp_path / "p.csv").write_text("\n".join(["a,b,price", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["glm", "p.csv", "--out", "p", "--quiet"])
    assert stop.value.code == 0
    scores = [line for line in Path("p/metrics.jsonl").read_text().splitlines() if '"r2"' in line]
    assert json.loads(scores[-1])["r2"] > 0.99


def test_a_larger_share_of_few_rows_is_held_out(tmp_path: Path) -> None:
    """A twentieth of a hundred rows, chosen by a hash, may be none."""
    path = tmp_path / "docs.txt"
    for lines, share in ((100, 0.2), (20_000, 0.05)):
        path.write_text("waves and storm\n" * lines)
        assert getattr(section("lda", path).data.eval, "share", None) == share


@pytest.mark.slow
def test_triangles_and_near_words_are_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.mtx").write_text(LINKS)
    Path("star.csv").write_text("from,to\n" + "".join(f"p{i},hub\nhub,p{i}\n" for i in range(4)))
    Path("texts.txt").write_text("a red cat\na red dog\nsome green tea\nsome green milk\n" * 60)
    Path("words.txt").write_text("cat\nmilk\n")
    quiet = "--quiet --threads 1 --set learner.report=false"
    for line in (
        f"triangles ring.mtx {quiet}",
        f"pagerank star.csv {quiet}",
        "predict runs/pagerank-star --data star.csv --out scores.csv",
        f"word-vectors texts.txt {quiet} --set model.sample=0 --set learner.passes=20",
        "similar runs/word-vectors-texts --words words.txt --top 1",
    ):
        with pytest.raises(SystemExit) as stop:
            main(line.split())
        assert stop.value.code == 0, capsys.readouterr()
    cat, milk = capsys.readouterr().out.splitlines()[-2:]
    assert cat.startswith("cat: dog (") and milk.startswith("milk: tea (")
    scores = list(csv.reader(Path("scores.csv").read_text().splitlines()))[1:]
    assert max(scores, key=lambda row: float(row[2]))[1] == "hub" and len(scores) == 5
    assert load("runs/triangles-ring").parameter("triangles").tolist() == [[1.0]] * 3
    for line, fault in (
        ("similar runs/triangles-ring --words words.txt", "has no vectors of words"),
        ("similar runs/word-vectors-texts --words a --items b", "choose one of"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(line.split())
        assert stop.value.code != 0 and fault in capsys.readouterr().err
