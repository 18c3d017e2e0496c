"""Numeric columns of a table brought to mean 0 and standard deviation 1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from blocklearn.datasources import DataError, Reading, TableData
from blocklearn.datasources.arrays.moments import Moments
from blocklearn.fields import FieldError
from blocklearn.learner.command_line.cli import main

CONFIG = """\
model: {kind: glm}
data:
  train:
    {kind: table, path: clicks.csv, targets: [click], numeric: [income, age], standardize: true}
  eval: {kind: holdout, share: 0.2}
  block_rows: 100
learner: {passes: 10, seed: 1}
"""

Learn = Callable[..., tuple[int, str, str]]


def write(path: Path, rows: int, seed: int) -> np.ndarray:
    """Who clicks depends on income, a number of five digits, and not on age."""
    rng = np.random.default_rng(seed)
    income, age = rng.normal(60_000, 20_000, rows), rng.integers(18, 80, rows)
    click = rng.random(rows) < 1 / (1 + np.exp(-2 * (income - 60_000) / 20_000))
    lines = [f"{i:.2f},{a},{c:d}" for i, a, c in zip(income, age, click, strict=True)]
    path.write_text("income,age,click\n" + "\n".join(lines) + "\n")
    return np.stack([income.round(2), age], axis=1)


@pytest.fixture
def learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Learn:
    monkeypatch.chdir(tmp_path)
    write(Path("clicks.csv"), 1000, 0)
    Path("clicks.yaml").write_text(CONFIG)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        return int(stop.value.code or 0), *capsys.readouterr()

    return run


@given(st.lists(st.lists(st.floats(-1e6, 1e6)), min_size=1))
def test_moments_of_parts(parts: list[list[float]]) -> None:
    moments = Moments()
    for part in parts:
        moments.add(np.array(part))
    whole = np.concatenate([np.array(part) for part in parts])
    if whole.size:
        assert moments.mean == pytest.approx(whole.mean(), rel=1e-9, abs=1e-6)
        expected = whole.std() if moments.squares > 0 else 1.0
        assert moments.deviation == pytest.approx(expected, rel=1e-6, abs=1e-4)


def table(path: Path, **more: Any) -> TableData:
    return TableData(path=path, numeric=["income", "age"], targets=["click"], **more)


@pytest.mark.parametrize("stream", [False, True])
def test_columns_have_mean_0_and_deviation_1(tmp_path: Path, stream: bool) -> None:
    from blocklearn.datasources import HostBlock

    raw = write(tmp_path / "a.csv", 500, 1)
    source = table(tmp_path / "a.csv", standardize=True, stream=stream).open_source(Reading(500))
    block = HostBlock(source.shape)
    source.read(0, 0, block)
    expected = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    np.testing.assert_allclose(block.dense[:500], expected, atol=1e-4)
    assert set(np.unique(block.targets)) == {0.0, 1.0}  # as they are


def test_large_offsets_do_not_cost_digits(tmp_path: Path) -> None:
    times = 1.7e9 + np.arange(100)
    (tmp_path / "a.csv").write_text("t\n" + "\n".join(f"{t:.0f}" for t in times) + "\n")
    X = TableData(path=tmp_path / "a.csv", numeric=["t"], standardize=True).load().X
    expected = (times - times.mean()) / times.std()
    np.testing.assert_allclose(X[:, 0], expected, rtol=1e-5)


def test_what_is_missing_is_the_mean_and_what_is_constant_is_zero(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,7\n,7\n5,7\n")
    kind = TableData(path=tmp_path / "a.csv", numeric=["x", "y"], standardize=True, nulls="zero")
    assert kind.load().X.tolist() == [[-1, 0], [0, 0], [1, 0]]
    assert kind.settled().standardize == {"x": (3.0, 2.0), "y": (7.0, 1.0)}


@pytest.mark.parametrize("number", ["inf", "-inf", "1e+300"])
def test_numbers_that_have_no_mean_are_named(tmp_path: Path, number: str) -> None:
    (tmp_path / "a.csv").write_text(f"x\n1\n{number}\n3\n")
    kind = TableData(path=tmp_path / "a.csv", numeric=["x"], standardize=True)
    with pytest.raises(DataError, match=re.escape(f"'x': row 1 is {number}, but every number")):
        kind.load()


def test_a_run_writes_down_what_it_took_off(learn: Learn) -> None:
    code, out, err = learn("--config", "clicks.yaml")
    assert code == 0, err
    assert float(out.splitlines()[1].split()[2]) > 0.8  # auc; 0.5 without
    kept = YAML(typ="safe").load(Path("runs/clicks/config.yaml"))["data"]["train"]["standardize"]
    assert 58_000 < kept["income"][0] < 62_000 and 19_000 < kept["income"][1] < 21_000

    learn("predict", "runs/clicks", "--data", "clicks.csv", "--out", "all.npy")
    lines = Path("clicks.csv").read_text().splitlines()
    Path("few.csv").write_text("\n".join([lines[0], *lines[5:8]]) + "\n")
    learn("predict", "runs/clicks", "--data", "few.csv", "--out", "few.npy")
    # Of three rows alone, mean and deviation would be quite different ones.
    np.testing.assert_allclose(np.load("few.npy"), np.load("all.npy")[4:7], rtol=1e-5)

    code, _, err = learn(
        "--config", "clicks.yaml", "--resume", "auto", "--set", "learner.passes=12"
    )
    assert code == 0 and "resuming after" in err


def test_data_to_evaluate_on_are_brought_to_the_same_scale(learn: Learn) -> None:
    write(Path("other.csv"), 200, 3)
    eval_ = "data.eval={kind: table, path: other.csv, targets: [click], numeric: [income, age], "
    learn("--config", "clicks.yaml", "-q", "--set", eval_ + "standardize: true}")
    config = YAML(typ="safe").load(Path("runs/clicks/config.yaml"))["data"]
    assert config["eval"]["standardize"] == config["train"]["standardize"]
    learn("evaluate", "runs/clicks", "--data", "other.csv", "--json")
    scores = json.loads(learn("evaluate", "runs/clicks", "--data", "other.csv", "--json")[1])
    kept = json.loads(Path("runs/clicks/metrics.json").read_text())
    assert scores["log_loss"] == pytest.approx(kept["log_loss"], rel=1e-5)


def test_given_numbers_are_used(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n2\n3\n")
    kind = TableData(path=tmp_path / "a.csv", numeric=["x"], standardize={"x": (1.0, 2.0)})
    assert kind.load().X.tolist() == [[0.0], [0.5], [1.0]]
    for wrong in ({}, {"x": (0.0, 0.0)}, {"y": (0.0, 1.0)}):
        with pytest.raises(FieldError, match="'x': must have"):
            TableData(path=tmp_path / "a.csv", numeric=["x"], standardize=wrong)
