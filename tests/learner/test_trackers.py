"""Runs tell MLflow and Weights & Biases what they tell metrics.jsonl, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blocklearn.learner.watch.trackers import MLflow, WeightsAndBiases

CONFIG = """\
model: {kind: nmf, components: 3, loss: kullback-leibler}
data: {train: {kind: python-calls}, eval: {kind: holdout, by: entries}, block_rows: 2048}
"""


def train(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `learn train` in `folder`."""
    (folder / "run.yaml").write_text(CONFIG)
    command = [sys.executable, "-c", "from blocklearn.learner.command_line.cli import main; main()"]
    given = ["--config", "run.yaml", "--out", "run", "--quiet", *options]
    env = os.environ | variables
    return subprocess.run([*command, *given], cwd=folder, env=env, capture_output=True, text=True)


def held_out(folder: Path) -> dict[int, float]:
    """The held-out divergence by rows, as metrics.jsonl has it."""
    lines = (folder / "run/metrics.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "eval"]
    return {event["rows"]: event["divergence"] for event in events}


@pytest.mark.parametrize(("kind", "sink"), [("mlflow", MLflow), ("wandb", WeightsAndBiases)])
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sink: Any
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(ImportError, match=rf"^learner.{kind} needs .*'blocklearn\[{kind}\]'$"):
        sink("x", tmp_path / "note", {})


@pytest.mark.services
def test_mlflow_has_settings_and_scores_of_a_run_that_was_resumed(tmp_path: Path) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    store = f"file://{tmp_path}/store"
    given = {"MLFLOW_TRACKING_URI": store, "MLFLOW_ALLOW_FILE_STORE": "true"}
    for passes in ("2", "4"):
        options = ["--set", "learner.mlflow=calls", "--set", f"learner.passes={passes}"]
        done = train(tmp_path, *options, "--resume", "auto", **given)
        assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = mlflow.MlflowClient(store)
        experiment = client.get_experiment_by_name("calls")
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.status == "FINISHED" and run.info.run_name == "run"
        assert run.data.params["model.components"] == "3"
        logged = client.get_metric_history(run.info.run_id, "held_out/divergence")
    assert {metric.step: metric.value for metric in logged} == pytest.approx(held_out(tmp_path))


@pytest.mark.services
def test_mlflow_that_refuses_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    given = {"MLFLOW_TRACKING_URI": "nowhere://x"}
    done = train(tmp_path, "--set", "learner.mlflow=calls", **given)
    assert done.returncode == 78 and "learner.mlflow='calls':" in done.stderr, done.stderr


@pytest.mark.services
def test_weights_and_biases_gets_the_scores_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    given = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)}
    options = ["--set", "learner.wandb=calls", "--set", "learner.passes=2"]
    done = train(tmp_path, *options, **given)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert file.stem == f"run-{(tmp_path / 'run/wandb.txt').read_text().strip()}"
    content = file.read_bytes()
    assert content.count(b"held_out/divergence") >= len(held_out(tmp_path)) == 2
