"""What a run says of itself while it works: events, and their other receivers."""

from __future__ import annotations

import json
import logging
import math
import mmap
import re
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.learner.hooks import Progress
from blocklearn.learner.memory import resident_bytes
from blocklearn.learner.training.settings.work import Work
from blocklearn.learner.watch.events import Event, Metrics, events_of, scores_of
from blocklearn.learner.watch.prometheus import Prometheus, sample
from blocklearn.learner.watch.tensorboard import TensorBoard, crc32c, varint
from blocklearn.models.topic_quality import QUALITY
from tests.support.corpora import planted

# ---- what training costs -------------------------------------------------------------------------


def test_work_is_additive() -> None:
    a = Work(3, 30, 300, 3000, 1.5, 0.125, 0.25, 1.0, 0.125, 2.5)
    b = Work(1, 10, 100, 1000, 0.5, 0.125, 0.0, 0.5, 0.0, 0.5)
    assert (a + b) - b == a
    assert (a.rows_per_s, a.gb_per_s, a.gflops) == (20.0, 2e-7, 2e-6)
    assert a.queue == pytest.approx(2.5 / 3)
    assert Work().rows_per_s == Work().queue == 0.0


def test_bytes_of_a_block_are_those_of_its_true_rows() -> None:
    X = bl.sparse(np.eye(10, 7))
    source = MatrixSource(X, targets=np.ones((10, 2)), weights=np.ones(10), block_rows=4)
    block = HostBlock(source.shape)
    source.read(0, 2, block)  # two rows, of which none has a number
    assert block.shape.data_bytes(block.rows, block.nnz) == 8 * 3 + 8 * 0 + 2 * 4 * 3
    source.read(0, 0, block)
    assert block.shape.data_bytes(block.rows, block.nnz) == 8 * 5 + 8 * 4 + 4 * 4 * 3
    dense = MatrixSource(np.ones((3, 5), np.float32), block_rows=4)
    block = HostBlock(dense.shape)
    dense.read(0, 0, block)
    assert block.shape.data_bytes(block.rows, block.nnz) == 4 * 3 * 5


class Clock(threading.local):
    """A clock for each thread. It shows the seconds that work in this thread is said to take.

    Each look at it takes a nanosecond.
    """

    now = 0.0

    def __call__(self) -> float:
        self.now += 1e-9
        return self.now


CLOCK = Clock()


@pytest.fixture
def said_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training looks at `CLOCK`."""
    monkeypatch.setattr("blocklearn.learner.training.settings.work.perf_counter", CLOCK)


class Slow(MatrixSource):
    """Takes `seconds` for every block, which the thread that trains reads itself."""

    seconds = 0.0

    def kept(self, pass_: int, index: int) -> bool:
        return True

    def read(self, pass_: int, index: int, into: Any) -> None:
        CLOCK.now += self.seconds
        super().read(pass_, index, into)


class Busy(bl.Model):
    """Takes `seconds` for every update, which a recording would leave out."""

    recorded: ClassVar[bool] = False
    seconds: float = 0.0

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.n = self.parameter("n", 1, 1, merge="sum")

    def update(self, block: Any) -> None:
        CLOCK.now += self.seconds if block.rows else 0.0
        self.n <<= self.n + 1.0

    def score(self, block: Any) -> Any:
        return {}

    def predict(self, block: Any) -> Any:
        return block.X.mat()


def trained(read: float, compute: float, **settings: Any) -> Work:
    """Return the work of 20 blocks that take so many seconds each to read and to compute."""
    source = Slow(np.ones((100, 3), np.float32), block_rows=5, seed=0)
    source.seconds = read
    learner = bl.Learner(Busy(seconds=compute), source, threads=1, **settings)
    learner.fit()
    learner.close()
    return learner.progress.work


@pytest.mark.parametrize(("read", "compute"), [(0.5, 0.0), (0.0, 0.5), (0.25, 1.0)])
def test_a_slow_disk_is_told_from_a_slow_model(
    read: float, compute: float, said_time: None
) -> None:
    work = trained(read, compute)
    assert work.blocks == 20 and work.rows == 100
    assert work.read == pytest.approx(20 * read, abs=1e-5)
    assert work.compute == pytest.approx(20 * compute, abs=1e-5)
    assert work.read + work.copy + work.compute + work.merge <= work.seconds


def test_time_of_replicas_is_their_mean(said_time: None) -> None:
    work = trained(0.0, 0.5, replicas=4, sync_every=1)
    assert work.compute == pytest.approx(5 * 0.5, abs=1e-5)  # their sum would be more
    assert work.merge > 0


# ---- events --------------------------------------------------------------------------------------


@pytest.fixture
def one_block_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the last pass, before it is trained on; another only after a very long time."""
    monkeypatch.setattr("blocklearn.learner.training.scoring.SHARE", 1e-12)
    monkeypatch.setattr("blocklearn.learner.training.scoring.FIRST", 1e12)


def run(folder: Path, **settings: Any) -> tuple[bl.Learner, list[dict[str, Any]]]:
    X, _ = planted(documents=200)
    hook = Metrics(folder / "metrics.jsonl", run="a run", every=1e-9, **settings)
    learner = bl.Learner(
        bl.models.LDA(topics=3), X, X[:50], passes=3, block_rows=40, threads=1, hooks=[hook]
    )
    learner.fit()
    return learner, events_of(folder / "metrics.jsonl")


def test_train_events_divide_the_run(tmp_path: Path, one_block_is_scored: None) -> None:
    """Each is of the time since the one before, so their sums are those of the whole run."""
    learner, events = run(tmp_path)
    for event in events:
        Event.model_validate(event)
    train = [event for event in events if event["event"] == "train"]
    (end,) = [event for event in events if event["event"] == "end"]
    assert [event["batch"] for event in train] == 3 * [1, 2, 3, 4, 5]
    for part in ("read_s", "copy_s", "compute_s", "merge_s"):
        assert sum(event[part] for event in train) == pytest.approx(end[part], abs=1e-4)
    seconds = np.diff([0.0] + [event["seconds"] for event in train])
    assert sum(e["rows_per_s"] * s for e, s in zip(train, seconds, strict=True)) == pytest.approx(
        600, rel=0.05
    )
    assert end["rows_per_s"] == pytest.approx(600 / end["seconds"], rel=0.05)
    assert 0 <= end["queue"] <= 1 and end["gb_per_s"] > 0 and end["gflops"] > 0
    assert (
        scores_of(end).keys()
        == {"perplexity", "elbo_per_token", *QUALITY}
        == learner.progress.scores.keys()
    )
    scored = [n for n, event in enumerate(train) if scores_of(event)]
    assert scored == [10]  # the first block of the last pass, before it is trained on
    assert scores_of(train[10]).keys() == {"perplexity", "elbo_per_token"}


def test_resident_memory_grows_with_what_is_in_memory() -> None:
    before = resident_bytes()
    with mmap.mmap(-1, 50_000_000) as new:  # what an allocator gives may have been there before
        new.write(b"1" * len(new))
        assert 40e6 < resident_bytes() - before < 200e6
        assert resident_bytes(Path("/none")) >= before + len(new) // 2  # the most so far


def test_no_training_no_speed(tmp_path: Path) -> None:
    hook: Any = Metrics(tmp_path / "m.jsonl", run="x", every=1.0)
    hook.start(None, Progress(1, 1))
    (event,) = events_of(tmp_path / "m.jsonl")
    assert event["rows_per_s"] is event["gb_per_s"] is event["queue"] is None
    with (tmp_path / "m.jsonl").open("a") as file:
        file.write('{"event": "trai')
    assert events_of(tmp_path / "m.jsonl") == [event]


def test_a_sink_that_fails_later_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str] = []

    def sink(event: Mapping[str, Any]) -> None:
        got.append(event["event"])
        if len(got) == 3:
            raise OSError(28, "No space left on device", "board")

    _, events = run(tmp_path, sinks=[sink])
    assert got == [event["event"] for event in events][:3]
    assert "No space left on device" in caplog.text
    assert [r.levelno for r in caplog.records].count(logging.WARNING) == 1


def test_a_sink_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        run(tmp_path, sinks=[Prometheus(tmp_path / "file" / "x.prom")])


# ---- Prometheus ----------------------------------------------------------------------------------

SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+)')


def test_the_text_is_what_prometheus_reads(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "run.prom"
    _, events = run(tmp_path, sinks=[Prometheus(file)])
    lines = file.read_text().splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert set(kinds.values()) == {"gauge", "counter"}
    found = {}
    for line in lines:
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            assert name in kinds and (kinds[name] == "counter") == name.endswith("_total")
            found[name, labels] = float(value)
    train = [event for event in events if event["event"] == "train"]
    run_ = 'run="a run"'
    assert found["blocklearn_rows_total", run_] == 600
    assert found["blocklearn_rows_per_second", run_] == train[-1]["rows_per_s"]  # not the mean
    assert found["blocklearn_finished", run_] == 1
    assert found["blocklearn_score", f'{run_},figure="perplexity"'] == events[-1]["perplexity"]
    computing = found["blocklearn_part_seconds_total", f'{run_},part="compute"']
    assert computing == pytest.approx(events[-1]["compute_s"], abs=1e-4)
    assert abs(found["blocklearn_updated_seconds", run_] - time.time()) < 60
    assert [p.name for p in file.parent.iterdir()] == ["run.prom"]


def test_targets_are_labels_and_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    sink = Prometheus(tmp_path / "x.prom")
    hook: Any = Metrics(tmp_path / "m.jsonl", run="x", every=1.0, sinks=[sink])
    hook.evaluated(None, Progress(1, 1, scores={"auc": math.nan, 'auc/a "b"': 0.5}))
    text = (tmp_path / "x.prom").read_text()
    assert r'blocklearn_score{run="x",figure="auc",target="a \"b\""} 0.5' in text
    assert text.count("blocklearn_score{") == 1


@given(st.text())
def test_any_label_stays_on_its_line(text: str) -> None:
    line = sample("x", {"run": text or "-"}, 1.0)
    assert "\n" not in line and SAMPLE.fullmatch(line)


# ---- TensorBoard ---------------------------------------------------------------------------------


def messages(data: bytes) -> Iterator[tuple[int, Any]]:
    """Fields of a protocol buffer: number and value (bytes, int or float)."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            size = number()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[key & 7]
            yield key >> 3, struct.unpack(code, data[at : at + size])[0]
            at += size


def records(file: Path) -> Iterator[dict[int, Any]]:
    """Events of a TFRecord file, with their checksums compared."""
    data, at = file.read_bytes(), 0

    def check(part: bytes, crc: bytes) -> None:
        rotated = (struct.unpack("<I", crc)[0] - 0xA282EAD8) % 2**32
        assert ((rotated >> 17) | (rotated << 15)) % 2**32 == crc32c(part)

    while at < len(data):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        check(data[at : at + 8], data[at + 8 : at + 12])
        body = data[at + 12 : at + 12 + size]
        check(body, data[at + 12 + size : at + 16 + size])
        at += 16 + size
        yield dict(messages(body))


def scalars(file: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value)."""
    found = []
    for event in records(file):
        for _, value in messages(event.get(5, b"")):
            fields = dict(messages(value))
            found.append((event[2], fields[1].decode(), fields[2]))
    return found


def test_checksum_of_rfc_3720() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(bytes([255] * 32)) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@given(st.integers(0, 2**63 - 1))
def test_numbers_of_any_size(number: int) -> None:
    assert list(messages(b"\x08" + varint(number))) == [(1, number)]


def test_scalars_are_those_of_the_events(tmp_path: Path, one_block_is_scored: None) -> None:
    _, events = run(tmp_path, sinks=[TensorBoard(tmp_path / "board")])
    (file,) = (tmp_path / "board").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    first, second, *_ = records(file)
    assert first[3] == b"brain.Event:2" and abs(first[1] - time.time()) < 60
    assert dict(messages(second[7])) == {1: 1}  # a session starts: later steps are void
    found = scalars(file)
    expected = [
        (event["rows"], f"held_out/{name}", value)
        for event in events if event["event"] == "eval"
        for name, value in scores_of(event).items()
    ]  # fmt: skip
    held_out = [scalar for scalar in found if scalar[1].startswith("held_out/")]
    assert [(s, t) for s, t, _ in held_out] == [(s, t) for s, t, _ in expected]
    np.testing.assert_allclose([v for *_, v in held_out], [v for *_, v in expected], rtol=1e-6)
    assert [(s, t) for s, t, _ in found if t.startswith("training/")] == [
        (440, "training/perplexity"),
        (440, "training/elbo_per_token"),
    ]
    steps = [step for step, tag, _ in found if tag == "speed/rows_per_s"]
    assert steps == [event["rows"] for event in events if event["event"] == "train"]


def test_a_figure_that_float32_cannot_hold(tmp_path: Path) -> None:
    hook: Any = Metrics(
        tmp_path / "m.jsonl", run="x", every=1.0, sinks=[TensorBoard(tmp_path / "board")]
    )
    hook.start(None, Progress(1, 1))
    hook.evaluated(None, Progress(1, 1, rows=5, scores={"perplexity": 1e300, "loss": -1e300}))
    (file,) = (tmp_path / "board").iterdir()
    assert scalars(file) == [
        (5, "held_out/perplexity", math.inf),
        (5, "held_out/loss", -math.inf),
    ]


def test_tensorboard_reads_it_and_drops_what_was_done_again(tmp_path: Path) -> None:
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    for rows, value in [((0, 10, 20, 30), 1.0), ((20, 30), 2.0)]:  # stopped at 30, on from 20
        board = TensorBoard(tmp_path)
        board.file = board.file.with_name(f"{board.file.name}.{value}")
        base = json.loads(Event.model_construct().model_dump_json()) | {"ts": "", "run": ""}
        for row in rows:
            kind = "start" if row == rows[0] else "eval"
            board(base | {"event": kind, "rows": row, "loss": value})
    accumulator = module.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    found = [(e.step, e.value) for e in accumulator.Scalars("held_out/loss")]
    assert found == [(10, 1.0), (30, 2.0)]
