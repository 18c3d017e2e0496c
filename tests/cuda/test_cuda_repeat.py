"""Updates that a device repeats: without their Python code, to the bits of updates with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blocklearn.matcache.cuda.idle import IdleDriver
from blocklearn.matcache.cuda.launcher import Clear, Launcher, Repeated
from blocklearn.matcache.cuda.repeat import Launches
from blocklearn.mixins import MIXINS
from blocklearn.models import Model
from blocklearn.models.glm.links import LINKS
from tests.cuda.test_cuda_learner import CASES, drivers, learnt, trained  # noqa: F401
from tests.support.backends import needs_compiler
from tests.support.often import rarely

OFTEN = ["lda", "als", "glm, dense, full passes"]
ELEMENTWISE = {f"glm, {name}" for name in [*LINKS, *MIXINS]}
"""Cases whose launches are those of others, of kernels with another text."""
RARELY = [name for name in CASES if name not in {*OFTEN, *ELEMENTWISE}]


@needs_compiler
@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize("name", [*OFTEN, *rarely(*RARELY)])
def test_repeated_updates_have_the_bits_of_their_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    original = Launcher.add

    def add(self: Launcher, step: Any, where: str) -> None:
        calls.append(isinstance(step, Repeated) and where == "a recording")
        original(self, step, where)

    monkeypatch.setattr(Launcher, "add", add)
    found = learnt(name, trained(name, "cuda", passes=6))
    assert any(calls)
    monkeypatch.setattr(Model, "recorded", False)
    calls.clear()
    wanted = learnt(name, trained(name, "cuda", passes=6))
    assert not any(calls)
    for what, numbers in found.items():
        np.testing.assert_array_equal(numbers, wanted[what], err_msg=what)


def backend() -> Any:
    driver = IdleDriver()
    launcher = Launcher(driver, None, [], graphs=True)
    launcher.queueing = True
    return SimpleNamespace(side=0, launcher=launcher)


def queue(found: Any) -> list[Any]:
    queued = list(found.launcher._queue)
    found.launcher.flush()
    return queued


def test_launches_are_one_step_when_two_blocks_of_a_side_asked_for_the_same() -> None:
    found = backend()
    asked = [Clear(256, 4), Clear(512, 4), Clear(1024, 4)]
    made: list[int] = []

    def launch() -> None:
        made.append(found.side)
        for step in asked:
            found.launcher.add(Clear(step.address + found.side, 4), "here")

    launches = Launches(found, [launch], "here")
    for block in range(8):
        found.side = block % 2
        launches()
        (*_, last) = steps = queue(found)
        if block < 4:
            assert steps == [Clear(step.address + found.side, 4) for step in asked]
        else:
            assert isinstance(last, Repeated) and len(steps) == 1
            assert [step.address for step in last.steps] == [256 + found.side, 512 + found.side,
                                                             1024 + found.side]  # fmt: skip
    assert made == [0, 1, 0, 1]
    assert len(found.launcher._captured) == 4 and found.launcher.replays == 4


def test_launches_that_differ_or_ran_meanwhile_are_made_anew() -> None:
    found = backend()
    sizes = iter(range(100))

    def differ() -> None:
        found.launcher.add(Clear(256, next(sizes)), "here")

    def run() -> None:
        found.launcher.add(Clear(256, 4), "here")
        found.launcher.flush()

    for launch in (differ, run):
        launches = Launches(found, [launch], "here")
        for _ in range(6):
            launches()
            assert not any(isinstance(step, Repeated) for step in queue(found))
