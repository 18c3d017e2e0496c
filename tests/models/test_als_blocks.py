"""ALS by the command line, on ratings that were converted to a block dataset."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from tests.support.learn_command import learn
from tests.support.often import first_often

CONFIG = """\
model: {{kind: als, rank: 4, loss: {loss}}}
data: {{train: {train}, block_rows: 16}}
learner: {{passes: 3, threads: 2, seed: 3}}
"""
IN_MEMORY = "{kind: ratings, path: ratings.csv}"
IN_BLOCKS = "{kind: blocks, paths: [blocks]}"


def write_ratings(path: Path, users: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    lines = [
        f"user {u},{item}é,{rng.integers(1, 6)}\n"
        for u in rng.permutation(users)
        for item in np.flatnonzero(rng.random(25) < 0.3)
    ]
    path.write_text("user,item,rating\n" + "".join(lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With ratings of 60 users; as a dataset in both orientations, and with rows of users only."""
    monkeypatch.chdir(tmp_path)
    write_ratings(Path("ratings.csv"), 60)
    convert = ["convert", "ratings.csv", "--format", "ratings", "--block-rows", 16, "--quiet"]
    assert learn(*convert, "blocks", "--both-orientations") == 0
    assert learn(*convert, "rows-only") == 0
    return tmp_path


def train(out: str, data: str, *more: Any, loss: str = "explicit") -> int:
    Path("als.yaml").write_text(CONFIG.format(train=data, loss=loss))
    return learn("--config", "als.yaml", "--out", out, "--quiet", *more)


@pytest.mark.parametrize("loss", first_often(["explicit", "implicit"]))
def test_blocks_make_the_model_that_ratings_in_memory_make(folder: Path, loss: str) -> None:
    assert train("memory", IN_MEMORY, loss=loss) == 0
    runs = {"plain": "learner.seed=3", "mixed": "data.shuffle=true", "two": "learner.replicas=2"}
    for name, setting in runs.items():
        assert train(name, IN_BLOCKS, "--set", setting, loss=loss) == 0
    wanted, *found = (bl.load(name) for name in ("memory", *runs))
    for learner in found:
        for state in ("users", "items"):
            np.testing.assert_array_equal(learner.row_state(state), wanted.row_state(state))
        assert learner.row_names == wanted.row_names and learner.names == wanted.names


def test_evaluation_on_a_file_of_ratings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ratings(Path("further.csv"), 70, seed=1)  # ten of its users are unknown
    held_out = "data.eval={kind: ratings, path: further.csv}"
    assert train("run", IN_BLOCKS, "--set", held_out, "--set", "learner.ranking.top=3") == 0
    event = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    capsys.readouterr()
    assert learn("evaluate", "run", "--data", "further.csv", "--json") == 0
    scores = json.loads(capsys.readouterr().out)
    assert {"rmse", "ndcg@3"} <= scores.keys()
    assert scores == pytest.approx({name: event[name] for name in scores})


def test_lists_leave_out_what_the_dataset_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = []
    for name, data in (("run0", IN_MEMORY), ("run1", IN_BLOCKS)):
        assert train(name, data) == 0
        capsys.readouterr()
        assert learn("recommend", name, "--top", 4) == 0
        lists.append(sorted(capsys.readouterr().out.splitlines()))
    assert len(lists[0]) == 60 and lists[0] == lists[1]


@pytest.mark.parametrize(
    "settings, message",
    [
        ("data.eval={kind: holdout, share: 0.2}", "trained on .* further entries of the same rows"),
        ("data.eval={kind: blocks, paths: [fewer]}", "data of 40 rows, but ALS was trained on 60"),
        ("data.eval={kind: blocks, paths: [others]}", "data of rows with other names"),
        ("data.train={kind: table, path: t.csv, numeric: [a, b]}", "the data are a dense matrix"),
    ],
)
def test_data_that_do_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str], settings: str, message: str
) -> None:
    Path("t.csv").write_text("a,b\n1,2\n3,4\n")
    write_ratings(Path("fewer.csv"), 40)
    text = Path("ratings.csv").read_text(encoding="utf-8")
    Path("others.csv").write_text(text.replace("user 1,", "user 1b,"), encoding="utf-8")
    for name in ("fewer", "others"):
        assert learn("convert", f"{name}.csv", name, "--format", "ratings", "--block-rows", 16) == 0
    capsys.readouterr()
    assert train("run", IN_BLOCKS, "--set", settings) == 65
    error = capsys.readouterr().err
    assert not Path("run").exists() and "Traceback" not in error
    assert re.search(message, error)


def test_it_says_how_items_are_learned_from_rows_of_users(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "{kind: blocks, paths: [rows-only]}"
    Path("als.yaml").write_text(CONFIG.format(train=rows, loss="explicit"))
    notes = {
        1024: "items: their equations are summed over each pass and solved at its end",
        0: "items: steps of an optimizer after each block, not solved exactly",
    }
    for mib, note in notes.items():
        settings = ["--set", f"model.item_equations_mib={mib}"]
        assert learn("--config", "als.yaml", "--out", f"run{mib}", *settings) == 0
        assert note in capsys.readouterr().err
