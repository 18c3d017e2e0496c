"""Killed at any moment, saves included, a run goes on to the bits of one that was left alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from blocklearn.learner.cli import main
from blocklearn.learner.metrics import scores_of

LOOP = Path(__file__).parent / "kill_loop.py"

LEARNER = """\
learner: {passes: 60, threads: 1, log_every_seconds: 1.0e+6}
checkpoint: {every_blocks: 1}
"""
MODELS = {
    "glm": """\
model: {kind: glm, l1: 1.0e-3, l2: 1.0e-2}
optimizer: {kind: adam, rate: 0.05}
data: {train: {kind: file, path: rows.npz, targets: y.npy}, eval: {kind: holdout}, block_rows: 40}
evaluation: {every_blocks: 7, metric: log_loss}
""",
    "lda": """\
model: {kind: lda, topics: 4, sweeps: 2}
data: {train: {kind: file, path: rows.npz}, eval: {kind: holdout}, block_rows: 40}
evaluation: {every_passes: 3}
""",
    "nmf": """\
model: {kind: nmf, components: 4}
data: {train: {kind: file, path: rows.npz}, eval: {kind: holdout}, block_rows: 40}
evaluation: {every_passes: 3}
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind, kills", [("glm", 20), ("lda", 15), ("nmf", 15)])
def test_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, kills: int
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.1, (400, 200)).astype(np.float32))
    sparse.save_npz("rows.npz", X)
    np.save("y.npy", (X @ rng.standard_normal(200) > 0).astype(np.float32))
    Path("run.yaml").write_text(MODELS[kind] + LEARNER)
    options = ["--config", "run.yaml", "-q"]
    with pytest.raises(SystemExit) as stop:
        main([*options, "--out", "whole"])
    assert stop.value.code == 0

    done = subprocess.run(
        [sys.executable, LOOP, f"{kind} 1", str(kills), *options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    killed, *runs = done.stdout.split()
    assert int(killed) == kills
    for run in runs:
        assert weights(run) == weights("whole")
        assert scores(run) == scores("whole")
        kept = sorted(path.name for path in Path(run, "checkpoints").iterdir())
        assert kept == sorted(path.name for path in Path("whole", "checkpoints").iterdir())
        happened = [(e["event"], e["rows"]) for e in events(run) if e["event"] != "start"]
        assert len(happened) == len(set(happened))
        starts = [e.get("checkpoint") for e in events(run) if e["event"] == "start"]
        assert len(starts) == len(set(starts))


def weights(run: str) -> bytes:
    return Path(run, "weights.safetensors").read_bytes()


def events(run: str) -> list[dict]:
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def scores(run: str) -> list[tuple]:
    """What happened where, and all held-out scores."""
    found = []
    for event in events(run):
        where = (event["event"], event["pass"], event["batch"], event["rows"])
        if event["event"] in ("eval", "end"):
            found.append((*where, *sorted(scores_of(event).items())))
        elif event["event"] == "train":  # its scores are of blocks that depend on time
            found.append(where)
    return found
