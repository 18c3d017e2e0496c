"""Checkpoints, stopping by signals, and the events of a run, with a learner that only counts."""

import json
import os
import signal
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.checkpoints.checkpoint import Checkpoint, newest
from blocklearn.learner.checkpoints.same_run import check_same
from blocklearn.learner.checkpoints.saving import SaveCheckpoints
from blocklearn.learner.configuration.config import LearnerConfig
from blocklearn.learner.configuration.sections import CheckpointConfig
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.row_pieces import RowPieces
from blocklearn.learner.errors import ConfigError, DivergedError, ModelFolderError, RunInterrupted
from blocklearn.learner.learner import State
from blocklearn.learner.runs.signals import Requests, StopOnSignal
from blocklearn.learner.training.settings import schedule as interval
from blocklearn.learner.training.settings.progress import Best, Progress
from blocklearn.learner.training.settings.schedule import Cadence
from blocklearn.learner.watch import events as metrics
from blocklearn.learner.watch.events import Event, Metrics, rewind
from blocklearn.models import ALS, GLM
from blocklearn.optimizers import SGD, Adam
from tests.support.often import rarely

ROOT = Path(__file__).parents[2]
FORMATS = Path(__file__).parents[1] / "data" / "formats"
CONFIG: dict[str, Any] = {
    "model": {"kind": "lda", "topics": 4},
    "learner": {"passes": 5, "seed": 1},
    "out": "x",
}


def make(passes: int, block: int = 0, best: Best | None = None) -> Checkpoint:
    position = {
        "pass": passes, "block": block, "rows": 10 * passes + block, "note": "x",
        "best": None if best is None else vars(best),
    }  # fmt: skip
    state = State({"w": np.full((2, 3), passes, np.float32).T}, position)
    return Checkpoint(state, {"perplexity": 1.5}, CONFIG, "abc")


def save(folder: Path, *where: int, best: Best | None = None, keep: int = 2) -> Path:
    found = make(*where, best=best)
    path = checkpoint.write(folder, found)
    checkpoint.prune(folder, found.position, keep)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


# ---- checkpoints ---------------------------------------------------------------------------------


def test_the_newest_comes_back_and_two_are_kept(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None
    for passes in range(1, 5):
        save(tmp_path, passes)
    assert names(tmp_path) == ["pass-0003", "pass-0004"]
    found = newest(tmp_path)
    assert found and (found.position, found.rows) == ((4, 0), 40)
    assert (found.config, found.fingerprint, found.scores) == (CONFIG, "abc", {"perplexity": 1.5})
    assert found.state.position["note"] == "x"
    np.testing.assert_array_equal(found.state.tensors["w"], np.full((3, 2), 4))


def test_names_sort_by_position(tmp_path: Path) -> None:
    for where in [(2, 0), (2, 9), (2, 10), (2, 1000), (3, 0), (3, 1)]:
        save(tmp_path, *where, keep=9)
    assert names(tmp_path) == [
        "pass-0002", "pass-0002-block-0000009", "pass-0002-block-0000010",
        "pass-0002-block-0001000", "pass-0003", "pass-0003-block-0000001"]  # fmt: skip
    found = newest(tmp_path)
    assert found and found.position == (3, 1)


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
def test_a_damaged_one_gives_way_to_the_one_before(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 3), save(tmp_path, 3, 7)
    (tmp_path / "pass-0003-block-0000007" / name).unlink()
    (tmp_path / "pass-0005").mkdir()  # not one of ours, or emptied
    (tmp_path / ".pass-0006.saving").mkdir()
    found = newest(tmp_path)
    assert found and found.position == (3, 0)
    assert "pass-0003-block-0000007" in caplog.text
    save(tmp_path, 3, 4)  # what is damaged counts for nothing
    assert names(tmp_path) == [
        "pass-0003", "pass-0003-block-0000004", "pass-0003-block-0000007", "pass-0005"]  # fmt: skip
    save(tmp_path, 3, 7)
    again = newest(tmp_path)
    assert again and again.position == (3, 7)
    assert names(tmp_path)[0] == "pass-0003-block-0000004"


def test_no_intact_one_is_an_error(tmp_path: Path) -> None:
    damage(save(tmp_path, 1) / "state.safetensors")
    with pytest.raises(ModelFolderError, match=r"(?s)pass-0001.*--overwrite"):
        newest(tmp_path)


def test_that_of_the_best_model_stays(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2, 5, best=Best("auc", 0.8, 2, 5))
    for passes in (3, 4, 5):
        save(tmp_path, passes, best=Best("auc", 0.8, 2, 5, waited=passes))
    assert names(tmp_path) == ["pass-0002-block-0000005", "pass-0004", "pass-0005"]
    save(tmp_path, 6, best=Best("auc", 0.9, 6, 0))  # of pass 5 the best is still the old one
    assert names(tmp_path) == ["pass-0002-block-0000005", "pass-0005", "pass-0006"]
    save(tmp_path, 7, best=Best("auc", 0.9, 6, 0))
    assert names(tmp_path) == ["pass-0006", "pass-0007"]


def test_going_on_refuses_another_run(tmp_path: Path) -> None:
    def changed(**sections: dict[str, Any]) -> dict[str, Any]:
        return {k: {**v, **sections.get(k, {})} if isinstance(v, dict) else v
                for k, v in CONFIG.items()} | {"out": "y"}  # fmt: skip

    free = {"learner": {"passes": 9, "threads": 3}, "evaluation": {"patience": 3}}
    check_same(make(1), changed(**free, checkpoint={"keep": 7}), "abc")
    with pytest.raises(ConfigError) as caught:
        check_same(make(1), changed(model={"topics": 5, "eta": 1}, learner={"seed": 2}), "abc")
    lines = caught.value.problems
    assert [line.split(":")[0] for line in lines[:-1]] == [
        "learner.seed", "model.eta", "model.topics"]  # fmt: skip
    assert "5, but the run was started with 4" in lines[2]
    with pytest.raises(ConfigError, match="the data have changed"):
        check_same(make(1), CONFIG, "other")


@pytest.mark.parametrize("name", LearnerConfig.model_fields)
def test_going_on_allows_what_does_not_change_what_is_computed(name: str) -> None:
    """A new setting of the learner has to say which kind it is."""
    other = CONFIG | {"learner": {**CONFIG["learner"], name: "another"}}
    if name in (
        "seed", "device", "devices", "tables", "replicas", "sync_every", "sync_weight",
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"learner.{name}"):
            check_same(make(1), other, "abc")
    else:
        check_same(make(1), other, "abc")


def test_arrays_are_written_from_where_they_are_and_read_as_pages_of_the_file(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "odd": rng.random((3, 5)).astype(np.float32).T,
        "wide": rng.integers(0, 9, (2, 7)),
        "bytes": rng.integers(0, 9, 13).astype(np.uint8),
        "nothing": np.zeros((0, 4), np.float32),
        "one": np.array(2.5),
    }
    state = State(arrays, {"pass": 1, "block": 2, "rows": 3})
    path = checkpoint.write(tmp_path, Checkpoint(state, {}, CONFIG, ""))
    found = checkpoint.read(path).state.tensors
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
        assert not found[name].flags.owndata and not found[name].flags.writeable
    from safetensors.numpy import load_file

    for name, array in load_file(path / "state.safetensors").items():
        np.testing.assert_array_equal(array, arrays[name])


def test_saving_takes_no_memory(tmp_path: Path) -> None:
    state = State({"rows": np.ones((2**18, 8), np.float32)}, {"pass": 1, "block": 2, "rows": 3})
    tracemalloc.start()
    try:
        path = checkpoint.write(tmp_path, Checkpoint(state, {}, CONFIG, ""))
        assert checkpoint.read(path).state.tensors["rows"].sum() == 2**21
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**20  # of 8; reading digests takes 1
    finally:
        tracemalloc.stop()


# ---- formats of earlier versions -----------------------------------------------------------------


def rows_of_sines() -> tuple[Any, Any]:
    """What the runs of `data/formats` were trained on: the same on every machine."""
    i, j = np.indices((60, 7))
    X = np.sin(1.0 + 3.0 * i + 5.0 * j).astype(np.float32)
    X[X < 0.2] = 0
    return X, (X @ np.cos(np.arange(7)) > 0.1).astype(np.float32)


@pytest.mark.parametrize(
    "name, position",
    [
        ("checkpoint-1-averages", (2, 0)),
        ("checkpoint-2-penalties", (2, 3)),
        ("checkpoint-4-rows", (2, 4)),
        *rarely(
            ("checkpoint-1-penalties", (2, 0)),
            ("checkpoint-1-rows", (2, 0)),
            ("checkpoint-2-averages", (2, 3)),
            ("checkpoint-2-rows", (2, 5)),
        ),
    ],
)
def test_checkpoints_of_all_versions_are_gone_on_with(name: str, position: Any) -> None:
    X, Y = rows_of_sines()
    data: Any = (X, Y)
    model: Any = GLM(l2=0.1, l1=0.01)
    optimizer: Any = SGD(rate=0.1, momentum=0.5)
    if name.endswith("averages"):
        model, optimizer = GLM(), Adam(rate=0.1, average_from=3)
    elif name.endswith("rows"):
        data, model, optimizer = bl.sparse(np.round(3 * X)), ALS(rank=2), None
    else:
        data = (bl.sparse(X), Y)

    class Start(bl.Hook):
        state: Any = None
        scores: Any = None

        def start(self, learner: Any, progress: Any) -> None:
            self.state, self.scores = learner.state(), learner.evaluate(data)

    found, start = checkpoint.read(FORMATS / name), Start()
    assert found.position == position
    given: dict[str, Any] = {"passes": 4, "block_rows": 16, "hooks": [start]}
    given["replicas"] = len(found.state.position.get("optimizers", [None]))
    learner = bl.Learner(model, data, optimizer=optimizer, **given)
    learner.restore(found.state)
    learner.fit()
    for tensor, each in found.state.tensors.items():  # all of it was taken over
        array = each.whole() if isinstance(each, RowPieces) else each
        assert start.state.tensors[tensor].tobytes() == array.tobytes(), tensor
    if "optimizers" in found.state.position:
        assert start.state.position["optimizers"] == found.state.position["optimizers"]
    rows = 67 if name.endswith("rows") else 60  # of a pass: ALS visits the columns, too
    assert learner.progress.rows == 4 * rows
    measure = "objective" if name.endswith("rows") else "log_loss"
    assert learner.evaluate(data)[measure] < start.scores[measure]


# ---- when they are saved -------------------------------------------------------------------------


def run(blocks: int, passes: int, start: int = 0) -> Any:
    """The positions at which a loop asks whether something is due, after block `start`."""
    for done in range(start, blocks * passes):
        pass_, block = divmod(done, blocks)
        yield Progress(passes, blocks, pass_=pass_, block=block + 1)
        if block + 1 == blocks:
            yield Progress(passes, blocks, pass_=pass_, block=blocks, closed=True)


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"passes": 1}, [(1, 0), (2, 0), (3, 0)]),
        ({"passes": 2}, [(2, 0)]),
        ({"blocks": 3}, [(0, 3), (1, 2), (2, 1), (3, 0)]),
        ({"blocks": 4, "passes": 3}, [(1, 0), (2, 0), (3, 0)]),
        ({"blocks": 100}, []),
        ({"seconds": 1e9}, []),
        (
            {"seconds": 1e-9},
            [(p, b) for p in range(3) for b in (1, 2, 3)] + [(1, 0), (2, 0), (3, 0)],
        ),
        ({}, []),
    ],
)
def test_cadence(settings: dict[str, Any], expected: Any) -> None:
    settings = {"passes": None, "blocks": None, "seconds": None, **settings}
    for start in range(12):  # wherever it begins, the rest is the same
        pass_, block = divmod(start, 4)
        cadence = Cadence(Progress(3, 4, pass_=pass_, block=block), **settings)
        due = [p.position for p in run(4, 3, start) if cadence.due(p)]
        assert due == sorted(where for where in expected if where > (pass_, block))


def test_a_stop_at_the_last_block_does_not_lose_what_is_due_at_the_end_of_the_pass() -> None:
    stopped = Progress(3, 4, pass_=1, block=4)
    cadence = Cadence(stopped, passes=None, blocks=4, seconds=None)
    assert not cadence.due(stopped)
    assert cadence.due(Progress(3, 4, pass_=1, block=4, closed=True))


def test_seconds_are_not_those_of_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(interval.time, "monotonic", lambda: now)
    monkeypatch.setattr(interval.time, "time", lambda: pytest.fail("that clock jumps"))
    cadence = Cadence(Progress(9, 10), passes=None, blocks=None, seconds=60.0)
    due = []
    for block in range(1, 10):
        now += 25.0
        due.append(cadence.due(Progress(9, 10, block=block)))
    assert due == [False, False, True, False, False, True, False, False, True]
    now += 1000.0  # what was due took its time
    cadence.restart()
    assert not cadence.due(Progress(9, 10, block=9))


class Trained:
    """As much of a learner as is saved; what it says it is."""

    def __init__(self) -> None:
        self.where = (0, 0)
        self.model = SimpleNamespace(parameters={"w": None}, row_states={})
        self.placed_tables = None
        self.part_writer = SimpleNamespace(write=lambda staging: None)
        self.value = 1.0

    def state(self, copy: bool) -> State:
        found = make(*self.where).state
        found.tensors["w"][0, 0] = self.value
        return found


def saver(folder: Path, told: list[str], **settings: Any) -> SaveCheckpoints:
    keep_best = settings.pop("keep_best", False)
    return SaveCheckpoints(
        folder, CheckpointConfig(**settings), config=CONFIG, fingerprint="abc", keep_best=keep_best,
        saved=lambda _, path, seconds: told.append(path.name),
    )  # fmt: skip


def test_the_hook_saves_when_it_is_time_and_tells(tmp_path: Path) -> None:
    told: list[str] = []
    hook: Any = saver(tmp_path, told, every_blocks=3, keep=3)
    learner: Any = Trained()
    hook.start(learner, Progress(3, 4))
    for progress in run(4, 3):
        learner.where = progress.position
        progress.scores = {"a": float("nan")}
        (hook.pass_end if progress.closed else hook.block)(learner, progress)
    assert told == [
        "pass-0000-block-0000003", "pass-0001", "pass-0001-block-0000002", "pass-0002",
        "pass-0002-block-0000001", "pass-0003"]  # fmt: skip
    found = newest(tmp_path)
    assert names(tmp_path) == told[-3:]
    assert found and (found.position, found.rows, found.scores) == ((3, 0), 30, {"a": None})


def test_the_end_and_the_best_are_saved_whenever_they_come(tmp_path: Path) -> None:
    told: list[str] = []
    hook: Any = saver(tmp_path, told, every_passes=None, keep_best=True)
    learner: Any = Trained()
    hook.start(learner, Progress(2, 4))
    for progress in run(4, 2):
        learner.where = progress.position
        if learner.where in [(0, 2), (1, 0)]:
            hook.improved(learner, progress)
        (hook.pass_end if progress.closed else hook.block)(learner, progress)
    assert told == ["pass-0000-block-0000002", "pass-0001", "pass-0002"]
    stopped = Progress(4, 4, pass_=2, block=1, stop=True)
    learner.where = stopped.position
    hook.block(learner, stopped)
    hook.save(learner, stopped)  # it is there already
    assert told[3:] == ["pass-0002-block-0000001"]


def test_what_a_killed_process_left_goes_when_another_goes_on(tmp_path: Path) -> None:
    for passes in (1, 2, 3):
        save(tmp_path, passes, keep=3)
    (tmp_path / "pass-0001").rename(tmp_path / ".pass-0001.old")
    (tmp_path / ".pass-0004.saving").mkdir()
    hook: Any = saver(tmp_path, [], keep=2)
    hook.start(Trained(), Progress(3, 4, pass_=3))
    assert names(tmp_path) == ["pass-0002", "pass-0003"]


def test_what_has_diverged_is_not_saved(tmp_path: Path) -> None:
    hook: Any = saver(tmp_path, [])
    learner: Any = Trained()
    hook.start(learner, Progress(3, 4))
    learner.where, learner.value = (1, 0), float("nan")
    with pytest.raises(DivergedError, match=r"w is not finite after blocks 0 to 3 of pass 0 \("):
        hook.pass_end(learner, Progress(3, 4, block=4, closed=True))
    assert names(tmp_path) == []


# ---- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_stops_at_the_next_block_once_that_is_saved(number: signal.Signals) -> None:
    learner: Any = None
    saved: list[Any] = []
    requests = Requests()
    hook = StopOnSignal(requests, lambda _, progress: saved.append(progress.position))
    before = signal.getsignal(number)
    with requests.caught():
        hook.start(learner, Progress(2, 10))
        hook.block(learner, Progress(2, 10, block=3))
        os.kill(os.getpid(), number)
        hook.pass_end(learner, Progress(2, 10, pass_=1, block=10))  # nothing left to stop
        hook.pass_end(learner, Progress(2, 10, block=10, stop=True))
        assert saved == []
        with pytest.raises(RunInterrupted, match=f"{number.name} in pass 1 of 2, block 4 of 10"):
            hook.block(learner, Progress(2, 10, block=4))
        with pytest.raises(RunInterrupted):
            hook.pass_end(learner, Progress(2, 10, block=10, closed=True))
        assert saved == [(0, 4), (1, 0)]
    assert signal.getsignal(number) == before


def test_a_signal_of_another_worker_stops_as_an_own_one_does() -> None:
    learner: Any = None
    saved: list[Any] = []
    crew = Crew()
    hook = StopOnSignal(Requests(), lambda _, progress: saved.append(progress.position), crew)
    hook.block(learner, Progress(2, 10, block=3))
    crew.asked = "SIGTERM"
    with pytest.raises(RunInterrupted, match="SIGTERM in pass 1 of 2, block 4 of 10"):
        hook.block(learner, Progress(2, 10, block=4))
    assert saved == [(0, 4)]


def test_a_second_interrupt_does_not_wait() -> None:
    requests = Requests()
    requests.deferred = True
    with requests.caught():
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)  # batch systems send several
        assert requests.received is signal.SIGUSR1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_before_training_a_signal_stops_at_once() -> None:
    requests = Requests()
    with requests.caught(), pytest.raises(RunInterrupted, match="SIGTERM before training began"):
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        requests = Requests()
        with requests.caught():
            os.kill(os.getpid(), signal.SIGINT)
        assert requests.received is None
    finally:
        signal.signal(signal.SIGINT, before)


# ---- metrics -------------------------------------------------------------------------------------


def progress(pass_: int, rows: int, block: int = 10) -> Progress:
    return Progress(
        2, 10, pass_=pass_, block=block, rows=rows, seconds=0.5, rows_per_s=float(np.float64(9.0)),
        gflops=float("nan"), scores={"perplexity": 12.5}, cache_bytes=7)  # fmt: skip


def test_events_fit_the_schema_and_survive_going_on(tmp_path: Path) -> None:
    file, learner = tmp_path / "metrics.jsonl", None
    hook: Any = Metrics(file, run="lda", every=0.0)
    hook.start(learner, progress(0, 0))
    for pass_ in (0, 1):
        hook.block(learner, progress(pass_, 100 * pass_ + 50, block=5))
        hook.evaluated(learner, progress(pass_, 100 * pass_ + 100))
        hook.pass_end(learner, progress(pass_, 100 * pass_ + 100))
        saved = tmp_path / f"pass-000{pass_ + 1}"
        saved.mkdir()
        (saved / "state").write_bytes(b"12345")
        (saved / "shared").hardlink_to(file)  # not written again
        hook.saved(progress(pass_, 100 * pass_ + 100), saved, 0.25)
    hook.end(learner, progress(1, 200))

    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        Event.model_validate(event)
    names = "start train eval train checkpoint train eval train checkpoint end".split()
    assert [event["event"] for event in events] == names
    assert events[-1].pop("host_bytes") > 2**20
    for name in ("disk_read_bytes", "disk_written_bytes", "page_waits"):
        assert events[-1].pop(name) >= events[0][name] >= 0
    assert events[-1] | {"ts": 0} == {
        "ts": 0, "run": "lda", "event": "end", "pass": 2, "batch": 10, "rows": 200, "seconds": 0.5,
        "rows_per_s": None, "gb_per_s": None, "gflops": None, "queue": None, "read_s": 0.0,
        "copy_s": 0.0, "compute_s": 0.0, "merge_s": 0.0, "cache_bytes": 7, "device_bytes": 0,
        "allocations_after_warmup": 0,
        "perplexity": 12.5}  # fmt: skip
    assert events[4]["checkpoint"] == "pass-0001"
    assert (events[4]["checkpoint_bytes"], events[4]["checkpoint_s"]) == (5, 0.25)

    with file.open("a") as torn:
        torn.write('{"event": "tra')
    rewind(file, 100)
    assert [json.loads(line) for line in file.read_text().splitlines()] == events[:5]
    again: Any = Metrics(file, run="lda", every=0.0, after="pass-0001")
    again.start(learner, progress(0, 100))
    assert json.loads(file.read_text().splitlines()[-1])["checkpoint"] == "pass-0001"
    rewind(file, 100)  # it was killed before it did anything
    assert [json.loads(line) for line in file.read_text().splitlines()] == events[:5]
    within = tmp_path / "pass-0001-block-0000010"  # the pass is not complete
    within.mkdir()
    again.saved(progress(1, 200), within, 0.25)
    again.evaluated(learner, progress(1, 200))
    again.pass_end(learner, progress(1, 200))
    rewind(file, 200, "pass-0001-block-0000010")
    found = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert found == ["start", "train", "eval", "train", "checkpoint", "checkpoint"]
    rewind(file, 0)
    assert file.read_text() == ""
    rewind(tmp_path / "none", 0)


def test_the_schema_file_is_the_schema() -> None:
    file = ROOT / "docs" / "metrics.schema.json"
    if not file.exists():
        pytest.skip("the documentation is not here")
    stored = json.loads(file.read_text())
    assert stored == metrics.Event.model_json_schema()
