"""Numbers that are not finite: which are found, where, and what a look costs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.errors import DivergedError
from blocklearn.learner.training.divergence import (
    BLOCK_BYTES,
    CHECK_BYTES,
    blocks_between,
    learnt,
)
from blocklearn.learner.training.replicas.replica import Replica
from blocklearn.matcache import colsum, exp
from tests.support.beside import CONFIGS
from tests.support.corpora import planted
from tests.support.often import paired


class Sums(bl.Model):
    """Column sums; from block `fails` of pass `fails_in` on they are NaN."""

    fails_in: int = 0
    fails: int = 0

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns, merge="sum")
        self.fault = self.number("fault")
        self.seen = [0, -1]

    def update(self, block: Any) -> None:
        if block.rows:  # not while memory is planned
            self.seen = [block.pass_, self.seen[1] + 1 if block.pass_ == self.seen[0] else 0]
        broken = self.seen >= [self.fails_in, self.fails]
        self.fault.set(1e38 if broken else 0.0)
        self.sums <<= self.sums + colsum(block.X) + (exp(self.fault) - 1.0) * 0.0

    def score(self, block: Any) -> Any:
        return {}

    def predict(self, block: Any) -> Any:
        return (block.X + self.sums).mat()


def learner(fails_in: int, fails: int, **settings: Any) -> bl.Learner:
    X = np.ones((40, 3), np.float32)
    model = Sums(fails_in=fails_in, fails=fails)
    return bl.Learner(model, X, passes=3, block_rows=4, threads=1, **settings)


def test_the_first_block_is_named() -> None:
    with pytest.raises(DivergedError, match=r"sums is not finite after block 0 of pass 0 \("):
        learner(0, 0).fit()


@pytest.mark.parametrize("fails_in, fails", [(0, 3), (1, 7), (2, 9)])
def test_the_block_is_named_when_every_block_is_looked_at(
    fails_in: int, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.learner.training.divergence.SHARE", np.inf)
    with pytest.raises(DivergedError, match=f"after block {fails} of pass {fails_in} "):
        learner(fails_in, fails).fit()


@pytest.mark.parametrize("fails_in", [0, 1, 2])
def test_found_at_the_end_of_the_pass_at_the_latest(
    fails_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "blocklearn.learner.training.divergence.SHARE", 1e-12
    )  # no look after the first
    first = 1 if fails_in == 0 else 0
    with pytest.raises(DivergedError, match=f"after blocks {first} to 9 of pass {fails_in} "):
        learner(fails_in, 5).fit()


def test_looks_read_little_of_what_training_reads() -> None:
    """A hundredth of its bytes, at most, however large the model is."""
    for columns, targets in [(10, 1), (10_000, 1), (300, 50)]:
        X = sp.random_array((400, columns), density=0.1, rng=0, format="csr", dtype=np.float32)
        Y = np.ones((400, targets), np.float32)
        learner = bl.Learner(bl.models.GLM(), (X, Y), block_rows=40, threads=1).fit()
        replica, shape = learner.team.first, learner.train.shape  # type: ignore[union-attr]
        every = blocks_between(replica, [shape])
        looked = sum(mat.numpy().nbytes for mat in learner.model.parameters.values()) + CHECK_BYTES
        trained = shape.nbytes + 4 * targets * shape.nnz + BLOCK_BYTES
        assert looked <= 0.01 * every * trained
        assert every == 1 or looked > 0.01 * (every - 1) * trained


class Where(bl.Hook):
    """Where looks were, and a stop after so many blocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int = 0) -> None:
        self.looks: list[tuple[int, int]] = []
        self.left = stop
        monkeypatch.setattr("blocklearn.learner.training.divergence.check_finite", self.look)

    def look(self, arrays: Any, progress: Any) -> None:
        self.looks.append((progress.pass_, progress.block))

    def block(self, learner: Any, progress: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@paired(2, replicas=[1, 2], second=[0.0, 1e6])
def test_looks_come_after_fixed_blocks(
    monkeypatch: pytest.MonkeyPatch, second: float, replicas: int
) -> None:
    """Whatever the clock says, and wherever the run was stopped."""
    clock = itertools.count()
    monkeypatch.setattr(
        "blocklearn.learner.training.settings.work.perf_counter", lambda: next(clock) * second
    )
    monkeypatch.setattr("blocklearn.learner.training.loop.blocks_between", lambda *_: 4)
    more = {"replicas": replicas, "sync_every": 1}
    whole = Where(monkeypatch)
    learner(9, 9, hooks=[whole], **more).fit()
    first = [(0, replicas)]
    assert whole.looks == first + [(p, b) for p in range(3) for b in (4, 8, 10)]
    for stop in (1, 3, 4):
        begun = Where(monkeypatch, stop)
        stopped = learner(9, 9, hooks=[begun], **more)
        with pytest.raises(KeyboardInterrupt):
            stopped.fit()
        rest = Where(monkeypatch)
        resumed = learner(9, 9, hooks=[rest], **more)
        resumed.restore(stopped.state())
        resumed.fit()
        assert begun.looks + rest.looks == whole.looks


class Shares(bl.Model):
    """A state of rows that is 0 / 0 in rows of padding; from `fails` on in the first row, too."""

    row_states: ClassVar[Mapping[str, int]] = {"share": 0}
    fails: bool = False

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.share = self.row_state("share", shapes, 1)
        self.one = self.number("one")

    def update(self, block: Any) -> None:
        self.one.set(float("nan") if self.fails and 0 < block.rows < 5 else 1.0)
        rows = self.share.rows
        rows <<= self.one * block.weights / block.weights

    def score(self, block: Any) -> Any:
        return {}

    def predict(self, block: Any) -> Any:
        return (block.X + 0.0).mat()


@pytest.mark.parametrize("fails", [False, True])
def test_rows_of_padding_do_not_count(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklearn.learner.training.divergence.SHARE", np.inf)
    learner = bl.Learner(
        Shares(fails=fails), np.ones((7, 2), np.float32), block_rows=5, passes=2, threads=1
    )
    if fails:
        with pytest.raises(DivergedError, match="share is not finite after block 1 of pass 0"):
            learner.fit()
        return
    learner.fit()
    assert learner.row_state("share").tolist() == [[1.0]] * 7
    kept = learner.team.first.model.states["share"].rows  # type: ignore[union-attr]
    assert kept.numpy().tolist() == [[1.0]] * 2 + [[0.0]] * 3


def test_replicas_are_looked_at_when_they_are_merged() -> None:
    with pytest.raises(DivergedError, match="sums is not finite after block"):
        learner(0, 2, replicas=2, sync_every=1).fit()


def test_the_command_stops_with_76_and_keeps_what_was_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate without bounds: the run ends, names the blocks, and what is on disk is finite."""
    config = str(CONFIGS / "glm.yaml")
    settings = ["optimizer={kind: sgd, rate: 1.0e+38}", "checkpoint.every_blocks=1",
                "model.targets=[{link: linear, column: class}]", "data.eval=null"]  # fmt: skip
    given = [part for setting in settings for part in ("--set", setting)]
    with pytest.raises(SystemExit) as stop:
        main(["--config", config, "--out", str(tmp_path / "run"), "-q", *given])
    err = capsys.readouterr().err
    assert stop.value.code == 76 and "Traceback" not in err
    assert re.search(r"(W|intercept) is not finite after blocks? [\d to]+ of pass \d+", err)
    assert "are from before it did" in err or "No checkpoint is saved" in err
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.safetensors"):
        tensors = load_file(path)
        assert all(np.isfinite(tensors[name]).all() for name in ("W", "intercept"))


def test_counts_of_kept_topics_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers and means of them cannot diverge, and are most of what a check would read."""
    looked: list[str] = []

    def noted(replica: Replica, *, whole: bool) -> Iterator[tuple[str, bool]]:
        for name, finite in learnt(replica, whole=whole):
            looked.append(name)
            yield name, finite

    monkeypatch.setattr("blocklearn.learner.training.divergence.learnt", noted)
    names = []
    for more in ({"fresh_passes": 0}, {"fresh_passes": 1}):
        model = bl.models.LDA(topics=4, assignments="kept", warm_up=0, **more)
        bl.Learner(model, planted(documents=60)[0], passes=2, threads=1).fit()
        names.append(set(looked))
        looked.clear()
    assert names == [{"averaged"}, {"averaged", "lambda"}]
