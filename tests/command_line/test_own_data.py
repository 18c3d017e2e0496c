"""A newcomer's own data, with the delivered configurations: one command to a model and a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scripts import make_clicks
from tests.support.beside import CONFIGS
from tests.support.learn_command import Learn
from tests.support.often import first_often

THEMES = [
    "harbour anchor sailor wave ship mast sail captain".split(),
    "oven flour butter sugar bread dough recipe kitchen".split(),
    "judge verdict lawyer witness trial jury court appeal".split(),
]


@pytest.fixture
def learn(command: Learn) -> Learn:
    """`learn --config configs/NAME.yaml --set ...` in an empty folder, which must work."""

    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        if name.endswith(".yaml"):
            settings = [word for text in arguments for word in ("--set", text)]
            arguments = ("--config", str(CONFIGS / name), *settings)
        else:
            arguments = (name, *arguments)
        return command(*arguments)

    return run


def texts() -> list[str]:
    """300 texts of 30 words, of one theme each; every third has the same one."""
    rng = np.random.default_rng(0)
    return [" The ".join(rng.choice(THEMES[i % 3], size=30)) for i in range(300)]


def in_a_folder() -> str:
    for number, text in enumerate(texts()):
        file = Path("mails", str(number % 7), f"{number}.txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return "data.train.path=mails"


def in_lines() -> str:
    Path("mails.txt").write_text("\n".join(texts()))
    return "data.train.path=mails.txt"


def as_json_lines() -> str:
    lines = [json.dumps({"id": i, "body": text}) for i, text in enumerate(texts())]
    Path("mails.jsonl").write_text("\n".join(lines))
    return "data.train={kind: file, path: mails.jsonl, text: body, max_df: 0.5}"


@pytest.mark.parametrize("write", first_often([in_a_folder, in_lines, as_json_lines]))
def test_text_in_topics_out(write: Callable[[], str], learn: Learn) -> None:
    code, out, err = learn("lda-text.yaml", write(), "model.topics=3")
    assert code == 0, err
    found = {frozenset(line.split()[1:]) for line in out.splitlines()}
    assert found == {frozenset(theme) for theme in THEMES}
    assert "x 24 columns" in err  # no "the", no name of a file or field
    page = Path("runs/lda-text/report.html").read_text(encoding="utf-8")
    assert all(word in page for theme in THEMES for word in theme[:1])
    assert "the report is in runs/lda-text/report.html" in err


def test_new_texts_are_read_as_the_old_ones(learn: Learn) -> None:
    learn("lda-text.yaml", as_json_lines(), "model.topics=3", "learner.passes=5")
    Path("new.jsonl").write_text('{"body": "ship wave sail"}\n{"body": "jury court"}\n')
    code, out, err = learn("predict", "runs/lda-text", "--data", "new.jsonl")
    assert code == 0, err
    first, second = (line.split(": ")[1].split()[1:4] for line in out.splitlines())
    assert {*first} < {*THEMES[0]} and {*second} < {*THEMES[2]}
    Path("new.jsonl").write_text('{"text": "ship wave sail"}\n')
    code, _, err = learn("predict", "runs/lda-text", "--data", "new.jsonl")
    assert code == 65 and "new.jsonl:1: a line must be an object with a string 'body'" in err


def test_a_field_that_is_not_there_is_named_with_those_that_are(learn: Learn) -> None:
    as_json_lines()
    code, _, err = learn("lda-text.yaml", "data.train.path=mails.jsonl")
    assert code == 65
    assert "a string 'text'" in err and "this one has body: `text` says which field" in err


def test_ratings_in_recommendations_out(learn: Learn) -> None:
    """Everybody likes the films of one theme; what is recommended is of that theme."""
    rng = np.random.default_rng(0)
    lines = ["user,item,rating"]
    for user in range(120):
        for theme, films in enumerate(THEMES):
            liked = theme == user % 3
            for film in rng.choice(films, size=5 if liked else 3, replace=False):
                lines.append(f"user{user},{film},{rng.integers(4, 6) if liked else 1}")
    Path("ratings.csv").write_text("\n".join(lines) + "\n")
    code, _, err = learn("als-ratings.yaml", "data.train.path=ratings.csv")
    assert code == 0, err
    Path("users.txt").write_text("user0\nuser1\nuser2\n")
    code, out, err = learn(
        "recommend", "runs/als-ratings", "--users", "users.txt", "--top", "2", "--json"
    )
    assert code == 0, err
    for theme, line in zip(THEMES, map(json.loads, out.splitlines()), strict=True):
        assert {item["item"] for item in line["items"]} < {*theme}
        assert all(
            f"{line['user']},{item['item']}," not in "\n".join(lines) for item in line["items"]
        )
    assert Path("runs/als-ratings/report.html").exists()


@pytest.mark.parametrize("suffix", first_often([".csv", ".parquet"]))
def test_a_table_in_predictions_out(suffix: str, learn: Learn) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    country, income = rng.integers(3, size=900), rng.normal(50_000, 10_000, 900)
    click = (income > 50_000) == (country > 0)
    names = ["income", "country", "click"]
    table = pa.table([income, [f"c{i}" for i in country], click.astype(int)], names)
    write = csv.write_csv if suffix == ".csv" else parquet.write_table
    write(table, f"clicks{suffix}")
    columns = ["data.train.numeric=[income]", "data.train.categorical=[country]"]
    given = [f"data.train.path=clicks{suffix}", "data.train.targets=[click]", *columns]
    code, out, err = learn("glm-table.yaml", *given)
    assert code == 0, err
    assert float(out.splitlines()[1].split()[2]) > 0.6  # auc
    write(table.select(["country", "income"]).slice(0, 5), f"new{suffix}")
    code, _, err = learn("predict", "runs/glm-table", "--data", f"new{suffix}", "--out", "p.npy")
    assert code == 0, err
    assert np.load("p.npy").shape == (5, 1)
    assert Path("runs/glm-table/report.html").exists()


@pytest.mark.slow
def test_a_log_of_clicks_in_a_model_out(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    given = "make_clicks clicks --rows 12000 --test 3000 --bits 16"
    monkeypatch.setattr(sys, "argv", given.split())
    make_clicks.main()
    code, out, err = learn("clicks.yaml", "data.block_rows=256", "learner.threads=1")
    assert code == 0, err
    assert float(out.splitlines()[-1].split()[2]) > 0.72  # auc; 0.88 at best
    assert f"x {13 + sum(make_clicks.slot_sizes(16)):,} columns" in err


def test_libsvm_in_classes_out(learn: Learn) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{label} {label + 1}:1 {rng.integers(4, 9)}:1" for label in rng.integers(3, size=300)]
    Path("a9a").write_text("\n".join(lines) + "\n")
    code, out, err = learn("glm-libsvm.yaml", "data.train.path=a9a")
    assert code == 0, err
    assert float(out.splitlines()[1].split()[2]) == 1.0  # accuracy
    assert Path("runs/glm-libsvm/report.html").exists()


@pytest.mark.parametrize("name", ["lda-text", "als-ratings", "glm-table", "glm-libsvm"])
def test_a_configuration_without_data_says_how_to_name_them(name: str, learn: Learn) -> None:
    code, _, err = learn(f"{name}.yaml")
    assert code == 78
    assert "data.train.path: missing, and there is no default; --set data.train.path=VALUE" in err
