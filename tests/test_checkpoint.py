"""Checkpoints, stopping by signals, and the events of a run, with a learner that only counts."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blocklearn.learner import checkpoint, metrics
from blocklearn.learner.checkpoint import Checkpoint, SaveCheckpoints, check_same, newest
from blocklearn.learner.errors import ConfigError, ModelFolderError, RunInterrupted
from blocklearn.learner.hooks import Progress
from blocklearn.learner.learner import State
from blocklearn.learner.metrics import Event, Metrics, rewind
from blocklearn.learner.signals import StopOnSignal

ROOT = Path(__file__).parents[1]
CONFIG = {"model": {"kind": "lda", "topics": 4}, "learner": {"passes": 5, "seed": 1}, "out": "x"}


def make(passes: int) -> Checkpoint:
    state = State({"w": np.full((2, 3), passes, np.float32).T}, {"pass": passes, "note": "x"})
    return Checkpoint(passes, 10 * passes, state, {"perplexity": 1.5}, CONFIG, "abc")


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


# ---- checkpoints ---------------------------------------------------------------------------------


def test_the_newest_comes_back_and_two_are_kept(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None
    for passes in range(1, 5):
        checkpoint.write(tmp_path, make(passes))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pass-0003", "pass-0004"]
    found = newest(tmp_path)
    assert found and (found.passes, found.rows, found.scores) == (4, 40, {"perplexity": 1.5})
    assert (found.config, found.fingerprint) == (CONFIG, "abc")
    assert found.state.position == {"pass": 4, "note": "x"}
    np.testing.assert_array_equal(found.state.tensors["w"], np.full((3, 2), 4))


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
def test_a_damaged_one_gives_way_to_the_one_before(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for passes in (3, 4):
        checkpoint.write(tmp_path, make(passes))
    (tmp_path / "pass-0004" / name).unlink()
    (tmp_path / "pass-0005").mkdir()  # not one of ours, or emptied
    (tmp_path / ".pass-0006.saving").mkdir()
    found = newest(tmp_path)
    assert found and found.passes == 3
    assert "pass-0004" in caplog.text
    checkpoint.write(tmp_path, make(4))
    again = newest(tmp_path)
    assert again and again.passes == 4


def test_no_intact_one_is_an_error(tmp_path: Path) -> None:
    damage(checkpoint.write(tmp_path, make(1)) / "state.safetensors")
    with pytest.raises(ModelFolderError, match=r"(?s)pass-0001.*--overwrite"):
        newest(tmp_path)


def test_going_on_refuses_another_run(tmp_path: Path) -> None:
    def changed(**sections: dict[str, Any]) -> dict[str, Any]:
        return {k: {**v, **sections.get(k, {})} if isinstance(v, dict) else v
                for k, v in CONFIG.items()} | {"out": "y"}  # fmt: skip

    check_same(make(1), changed(learner={"passes": 9, "threads": 3}), "abc")
    with pytest.raises(ConfigError) as caught:
        check_same(make(1), changed(model={"topics": 5, "eta": 1}, learner={"seed": 2}), "abc")
    lines = caught.value.problems
    assert [line.split(":")[0] for line in lines[:-1]] == [
        "learner.seed", "model.eta", "model.topics"]  # fmt: skip
    assert "5, but the run was started with 4" in lines[2]
    with pytest.raises(ConfigError, match="the data have changed"):
        check_same(make(1), CONFIG, "other")


def test_the_hook_saves_after_each_pass_and_tells(tmp_path: Path) -> None:
    told: list[str] = []
    hook = SaveCheckpoints(
        tmp_path, config=CONFIG, fingerprint="abc", saved=lambda _, path: told.append(path.name)
    )
    learner: Any = SimpleNamespace(state=lambda copy: make(1).state)
    hook.pass_end(learner, Progress(3, 10, pass_=0, block=10, rows=100, scores={"a": float("nan")}))
    found = newest(tmp_path)
    assert told == ["pass-0001"]
    assert found and (found.passes, found.rows, found.scores) == (1, 100, {"a": None})


# ---- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_the_next_block(number: signal.Signals) -> None:
    learner: Any = None
    hook = StopOnSignal()
    before = signal.getsignal(number)
    with hook.catching():
        hook.block(learner, Progress(2, 10, block=3))
        os.kill(os.getpid(), number)
        hook.block(learner, Progress(2, 10, block=10))  # a complete pass gets its checkpoint
        hook.pass_end(learner, Progress(2, 10, pass_=1, block=10))  # nothing left to stop
        with pytest.raises(RunInterrupted, match=f"{number.name} in pass 1 of 2, block 4 of 10"):
            hook.block(learner, Progress(2, 10, block=4))
        with pytest.raises(RunInterrupted):
            hook.pass_end(learner, Progress(2, 10, block=10))
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hook = StopOnSignal()
        with hook.catching():
            os.kill(os.getpid(), signal.SIGINT)
        assert hook.received is None
    finally:
        signal.signal(signal.SIGINT, before)


# ---- metrics -------------------------------------------------------------------------------------


def progress(pass_: int, rows: int) -> Progress:
    return Progress(
        2, 10, pass_=pass_, block=10, rows=rows, seconds=0.5, rows_per_s=float(np.float64(9.0)),
        gflops=float("nan"), scores={"perplexity": 12.5}, cache_bytes=7)  # fmt: skip


def test_events_fit_the_schema_and_survive_going_on(tmp_path: Path) -> None:
    file, learner = tmp_path / "metrics.jsonl", None
    hook: Any = Metrics(file, run="lda", every=0.0)
    hook.start(learner, progress(0, 0))
    for pass_ in (0, 1):
        hook.block(learner, progress(pass_, 100 * pass_ + 50))
        hook.evaluated(learner, progress(pass_, 100 * pass_ + 100))
        hook.pass_end(learner, progress(pass_, 100 * pass_ + 100))
        hook.saved(progress(pass_, 100 * pass_ + 100), Path(f"x/pass-000{pass_ + 1}"))
    hook.end(learner, progress(1, 200))

    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        Event.model_validate(event)
    names = "start train eval train checkpoint train eval train checkpoint end".split()
    assert [event["event"] for event in events] == names
    assert events[-1] | {"ts": 0} == {
        "ts": 0, "run": "lda", "event": "end", "pass": 2, "batch": 10, "rows": 200, "seconds": 0.5,
        "rows_per_s": 9.0, "gflops": None, "host_bytes": 7, "allocations_after_warmup": 0,
        "perplexity": 12.5}  # fmt: skip
    assert events[4]["checkpoint"] == "pass-0001"

    with file.open("a") as torn:
        torn.write('{"event": "tra')
    rewind(file, 100)
    assert [json.loads(line) for line in file.read_text().splitlines()] == events[:5]
    rewind(file, 0)
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == ["start"]
    rewind(tmp_path / "none", 0)


def test_the_schema_file_is_the_schema() -> None:
    stored = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())
    assert stored == metrics.Event.model_json_schema()
