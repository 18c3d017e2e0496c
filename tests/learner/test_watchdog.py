"""A run that hangs says where; one that is slow or stopped is left alone."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import Field, ValidationError

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.configuration.config import LearnerConfig
from blocklearn.learner.hooks import Progress
from blocklearn.learner.watch.watchdog import _watch, watching
from tests.learner.test_learner import Means
from tests.support.own_threads import Started


class Stuck(MatrixSource):
    """Block 2 is not there before `released` is set."""

    released: Any

    def kept(self, pass_: int, index: int) -> bool:
        return False  # a thread reads it

    def read(self, pass_: int, index: int, into: Any) -> None:
        if index == 2:
            self.released.wait(60)
        super().read(pass_, index, into)


def stuck_source() -> Stuck:
    X = np.ones((50, 4), np.float32)
    source = Stuck(bl.sparse(X), block_rows=10, seed=0)
    source.released = threading.Event()
    return source


class Release(logging.Handler):
    """Lets go on what is stuck once it was logged so many times that `done` blocks of 5 are done;
    what was slow before does not matter.
    """

    def __init__(self, stuck: Any, after: int, done: int = 2) -> None:
        super().__init__()
        self.stuck, self.left, self.done = stuck, after, done
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if f"{self.done} of 5 are done" in record.getMessage():
            self.texts.append(record.getMessage())
            self.left -= 1
        if not self.left:
            self.stuck.released.set()


def test_a_hang_is_shown_with_the_block_and_all_stacks_and_training_goes_on() -> None:
    source = stuck_source()
    learner = bl.Learner(bl.models.LDA(topics=2), source, threads=1)
    handler = Release(source, after=2)
    log = logging.getLogger("blocklearn.learner.watch.watchdog")
    log.addHandler(handler)
    begun = time.monotonic()
    try:
        with watching(learner.progress, 0.2):
            learner.fit()
    finally:
        log.removeHandler(handler)
    assert learner.progress.rows == 50
    first, second = handler.texts[:2]  # a slow machine may be told of once more
    place = "2 of 5 are done in pass 1 of 1: block 2 of pass 0 "
    assert re.search(rf"no block was finished for \d+ seconds; {place}", first)
    assert re.search(r"blocklearn-reader\n(    .*\n)*    .*test_watchdog.py:\d+ read\n", first)
    assert re.search(r"MainThread\n(    .*\n)*    .*learner.py:\d+ fit\n", first)
    assert time.monotonic() - begun >= 0.4  # the second time came after twice as long
    assert not [t for t in threading.enumerate() if t.name == "blocklearn-watchdog"]


class StuckModel(Means):
    """The block of 5 rows takes until `released` is set; planning memory does not wait."""

    recorded: ClassVar[bool] = False  # else the code that waits is left out
    released: Any = Field(None, exclude=True)

    def update(self, block: Any) -> None:
        if block.rows == 5 and not self.sums.cache.reserving:
            self.released.wait(60)
        super().update(block)


def test_a_replica_that_hangs_between_merges_is_shown_with_its_block() -> None:
    model = StuckModel(released=threading.Event())
    handler = Release(model, after=1, done=4)
    log = logging.getLogger("blocklearn.learner.watch.watchdog")
    log.addHandler(handler)
    data = MatrixSource(np.ones((45, 4), np.float32), block_rows=10)
    learner = bl.Learner(model, data, threads=1, replicas=3, sync_every=8)
    try:
        with watching(learner.progress, 0.2):
            learner.fit()
    finally:
        log.removeHandler(handler)
    text = handler.texts[0]
    assert "4 of 5 are done in pass 1 of 1: block 4 of pass 0 " in text
    assert re.search(r"blocklearn-model-1\n(    .*\n)*    .*test_watchdog.py:\d+ update\n", text)
    assert learner.progress.rows == 45


@pytest.mark.parametrize(("looks", "reports"), [(3, 0), (4, 10), (9, 20)])
def test_a_run_that_moves_is_left_alone(
    looks: int, reports: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks four times a second here. looks: how many find the run at the same block."""
    progress = Progress(1, 100)

    class Over(threading.Event):
        seen = 0

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout == 0.25
            self.seen += 1
            progress.block = self.seen // (looks + 1)
            return progress.block == 10

    _watch(progress, 1.0, looks / 4 + 0.25, Over())
    assert len(caplog.records) == reports


def test_without_seconds_nobody_watches() -> None:
    started = Started()
    with watching(Progress(1, 1), None):
        assert not started()


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_it_looks_before_it_ends_a_run(seconds: float | None) -> None:
    with pytest.raises(ValidationError, match=r"at least watchdog_seconds \((null|5)\)"):
        LearnerConfig(watchdog_seconds=seconds, watchdog_exit_seconds=4.0)


WAIT = """
import sys, time
from blocklearn.learner.hooks import Progress
from blocklearn.learner.watch.watchdog import _watch, watching
from tests.learner.test_learner import Means
print("begun", flush=True)
with watching(Progress(1, 1), 0.4, {end_after}):
    print("watching", file=sys.stderr, flush=True)
    {wait}
print("over", flush=True)
"""


def test_ends_the_process_where_it_is_told_to() -> None:
    code = WAIT.format(end_after=0.8, wait="time.sleep(300)")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 75
    assert found.stdout == "begun\n" and "the run ends here" in found.stderr


@pytest.mark.slow
def test_a_process_that_was_stopped_does_not_hang() -> None:
    """Suspended by a batch system, or with Ctrl-Z: that is no time in which nothing moved."""
    code = WAIT.format(end_after=6.0, wait="sys.stdin.readline()")
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stderr is not None and process.stderr.readline() == "watching\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(8.0)
    os.kill(process.pid, signal.SIGCONT)
    rest, _ = process.communicate("\n", timeout=60)
    assert (process.returncode, rest) == (0, "begun\nover\n")
