"""Launches that the model of the time counts, against those of a training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import blocklearn as bl
from blocklearn.learner.training.plans.gpu_time import CARDS
from blocklearn.learner.training.replicas.replica import Replica
from blocklearn.learner.training.scoring import TrainingScores
from blocklearn.matcache.cuda import launcher
from blocklearn.matcache.cuda.launcher import Launcher
from blocklearn.optimizers import LBFGS
from scripts.benchmarks.idle_device import idle_devices
from tests.support.model_variants import ALIKE, data_for, variants
from tests.support.often import paired

FOUND = {  # LBFGS divides by numbers of the device, which are 0 here
    name: variant
    for name, variant in variants().items()
    if not isinstance(variant.optimizer, LBFGS)
}
FIRST = {name.split()[0]: name for name in reversed(FOUND) if name not in ALIKE}.values()
PASSES = 6
UNCOUNTED = {  # launches of a pass
    "ranking softmax": 3,  # the penalty of items follows from sums over the data
    # what no block changes is computed again in the first block of a pass, as in the plan
    "lda kept": 2,
    "gaussian-mixture full": 1,
}


@paired(len(FIRST), index=["host", "device"], name=sorted(FOUND, key=lambda n: n not in FIRST))
def test_a_pass_of_training_makes_as_many(
    name: str, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every model, with graphs, over a device that does nothing, when a pass is like the last.

    Blocks that are scored meanwhile are left out: which these are depends on time.
    """
    made, pass_ = Counter[int](), [0]
    flush, apart, train = Launcher.flush, Launcher.add_apart, Replica.train

    def counted(self: Launcher, *, whole: bool = True) -> None:
        if self.queueing:
            made[pass_[0]] += launcher._count(tuple(self._queue))
        flush(self, whole=whole)

    def counted_apart(self: Launcher, step: Any) -> None:
        made[pass_[0]] += self.queueing
        apart(self, step)

    def noted(self: Replica, host: Any, *args: Any) -> None:
        pass_[0] = host.pass_
        train(self, host, *args)

    variant = FOUND[name]
    options: Any = {"optimizer": variant.optimizer, "mixins": variant.mixins, "index": index}
    with idle_devices():
        learner = bl.Learner(
            variant.model, data_for(variant), device="cuda:0", passes=PASSES, block_rows=30,
            threads=1, verbose=False, **options,
        )  # fmt: skip
        expected = learner.assembly().gpu_floor(CARDS["H200"]).launches
        monkeypatch.setattr(Launcher, "flush", counted)
        monkeypatch.setattr(Launcher, "add_apart", counted_apart)
        monkeypatch.setattr(Replica, "train", noted)
        monkeypatch.setattr(Replica, "converged", False)
        monkeypatch.setattr(TrainingScores, "due", lambda *_: False)
        learner.fit()
        learner.close()
    expected += UNCOUNTED.get(name, 0)
    assert [made[number] for number in range(3, PASSES)] == [expected] * (PASSES - 3)
