"""Rows that the next block needs travel while a block trains; all workers are threads here."""

from __future__ import annotations

from threading import Semaphore
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.errors import WorkerError
from blocklearn.learner.training.replicas.replica import Replica
from blocklearn.learner.training.teams import needed_tables
from blocklearn.models import GLM
from blocklearn.optimizers import AdaGrad
from tests.engines.test_workers import learnt
from tests.support.workers import PATIENCE, as_workers, few_travel, results

ROUNDS = 2


def learner(**given: Any) -> bl.Learner:
    """A learner of nine blocks, of which worker 1 of two has one less than worker 0."""
    X = sp.random(90, 400, 0.02, format="csr", dtype=np.float32, random_state=0)
    y = (np.random.default_rng(1).random(90) < 0.5).astype(np.float32)
    return bl.Learner(
        GLM(), (X, y), optimizer=AdaGrad(rate=0.5), passes=2, block_rows=10, seed=3,
        sync_every=ROUNDS, threads=1, verbose=False, **given,
    )  # fmt: skip


class Counted(needed_tables.NeededRows):
    """Counts the blocks whose rows a worker has got, before they go into tables."""

    done = (Semaphore(0), Semaphore(0))

    def __init__(self, crew: Any, *given: Any, **named: Any) -> None:
        super().__init__(crew, *given, **named)
        self._done = self.done[crew.rank]

    def ask(self, *given: Any) -> Any:
        """Get rows, and count."""
        came = super().ask(*given)
        self._done.release()
        return came


def test_rows_of_the_next_block_come_while_one_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block after a merge waits for them here: else they would come after it."""
    monkeypatch.setattr(Counted, "done", (Semaphore(0), Semaphore(0)))
    monkeypatch.setattr(needed_tables, "NeededRows", Counted)
    train, came = Replica.train, []

    def waiting(replica: Replica, host: Any, *given: Any) -> Any:
        worker, turn = host.index % 2, host.index // 2
        if turn % ROUNDS == 0 and turn < 4:
            done = Counted.done[worker]
            came.append(all(done.acquire(timeout=PATIENCE) for _ in range(ROUNDS)))
        return train(replica, host, *given)

    expected = learnt(learner(replicas=2).fit())
    monkeypatch.setattr(Replica, "train", waiting)
    with few_travel():
        found = results(2, lambda own: learnt(learner(engine=own).fit()))
    assert found == [expected] * 2
    assert came == [True] * 8


def test_engines_that_keep_exchanges_to_one_thread_fetch_before_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    class Noted(needed_tables.Lane):
        def ask(self, *given: Any) -> Any:
            threads.append("another")
            return super().ask(*given)

    def work(own: Exchange) -> dict[str, Any]:
        own.any_thread = False
        return learnt(learner(engine=own).fit())

    expected = learnt(learner(replicas=2).fit())
    monkeypatch.setattr(needed_tables, "Lane", Noted)
    with few_travel():
        assert results(2, work) == [expected] * 2
        assert not threads
        assert results(2, lambda own: learnt(learner(engine=own).fit())) == [expected] * 2
    assert threads


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_while_rows_travel_ends_all(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that fails says why, and the others say which it was."""
    train = Replica.train

    def broken(replica: Replica, host: Any, *given: Any) -> Any:
        if (host.pass_, host.index) == (1, 4 + failing):
            raise ValueError("broken here")
        return train(replica, host, *given)

    monkeypatch.setattr(Replica, "train", broken)
    with few_travel():
        found = as_workers(2, lambda own: learner(engine=own).fit())
    assert isinstance(found[failing], ValueError)
    other = found[1 - failing]
    assert isinstance(other, WorkerError) and "broken here" in str(other)
