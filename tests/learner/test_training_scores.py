"""Scores of training rows before they are trained on: honest, cheap, and without any influence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn import mixins, optimizers
from blocklearn.learner.training.scoring import TrainingScores
from tests.support.corpora import planted
from tests.support.often import paired


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch, every_block_is_scored: None) -> list[dict[str, float]]:
    """Every block is scored; all that is found."""
    found: list[dict[str, float]] = []
    take = TrainingScores.take

    def kept(self: TrainingScores, *given: Any) -> None:
        take(self, *given)
        found.append(self._progress.train_scores)

    monkeypatch.setattr(TrainingScores, "take", kept)
    return found


def labelled(dense: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((300, 20)) * (rng.random((300, 20)) < 0.3)
    Y = np.stack([X[:, 0] > 0.1, X[:, 1] + X[:, 2] > 0.2], axis=1).astype(np.float32)
    return (X.astype(np.float32) if dense else sp.csr_array(X)), Y


def counts() -> Any:
    return planted(documents=200)[0]


LEARNERS: dict[str, Any] = {
    "gibbs": lambda: (bl.models.LDA(topics=3, inference="gibbs"), counts(), {}),
    "adagrad": lambda: (bl.models.GLM(l1=1e-3), labelled(), {"optimizer": optimizers.AdaGrad()}),
    "nmf": lambda: (bl.models.NMF(components=3), counts(), {}),
    "als": lambda: (bl.models.ALS(rank=3), counts(), {}),
    "lbfgs": lambda: (bl.models.GLM(l2=1e-2), labelled(), {"optimizer": optimizers.LBFGS()}),
    "group": lambda: (
        bl.models.GLM(),
        labelled(),
        {"optimizer": optimizers.SGD(), "mixins": [mixins.GroupLasso(weight=1e-3)]},
    ),
    "vb": lambda: (bl.models.LDA(topics=3, inference="vb"), counts(), {}),
    "cvb0": lambda: (bl.models.LDA(topics=3, inference="cvb0"), counts(), {}),
    "nmf-kl": lambda: (bl.models.NMF(components=3, loss="kullback-leibler"), counts(), {}),
    "als-implicit": lambda: (bl.models.ALS(rank=3, loss="implicit"), counts(), {}),
    "rows": lambda: (bl.models.GLM(), labelled(), {}),
    "dense": lambda: (bl.models.GLM(l2=1e-2), labelled(dense=True), {}),
    "ftrl": lambda: (bl.models.GLM(l1=1e-3), labelled(), {"optimizer": optimizers.FTRL()}),
    "adam": lambda: (bl.models.GLM(), labelled(), {"optimizer": optimizers.Adam()}),
}


def learn(name: str, **more: Any) -> tuple[bl.Learner, dict[str, bytes]]:
    model, data, settings = LEARNERS[name]()
    learner = bl.Learner(
        model, data, passes=3, block_rows=32, threads=1, seed=3, **settings, **more
    ).fit()
    return learner, {k: v.tobytes() for k, v in learner.state().tensors.items()}


@paired(5, name=LEARNERS, replicas=[1, 2])
def test_looking_changes_nothing(
    name: str, replicas: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingScores, "due", lambda *given: False)
    _, without = learn(name, replicas=replicas, sync_every=2)
    monkeypatch.undo()
    found = request.getfixturevalue("always")
    learner, bits = learn(name, replicas=replicas, sync_every=2)
    assert bits == without
    assert learner.progress.allocations_after_warmup == 0
    assert len(found) > 8 and all(found)


def test_the_score_is_that_of_the_model_before_the_block(always: list[dict[str, float]]) -> None:
    """The first block is scored by a model that knows nothing but the mean."""
    X, Y = labelled()
    learner = bl.Learner(bl.models.GLM(intercept=False), (X, Y), passes=1, block_rows=50, threads=1)
    learner.fit()
    assert always[0]["log_loss"] == pytest.approx(np.log(2), rel=1e-5)
    assert always[-1]["log_loss"] < 0.9 * np.log(2)
    assert all("/" not in name for scores in always for name in scores)


def test_the_time_that_it_takes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    taken: list[float] = []

    class Plain:
        complete, model = True, bl.models.LDA(topics=2)

    def score() -> Any:
        clock[0] += 1.0
        return {}

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    scores = TrainingScores(bl.Progress(2, 1))
    replica: Any = Plain()
    while clock[0] < 1000:
        if scores.due(replica, side=0, pass_=0):
            taken.append(clock[0])
            scores.take(replica, score, rows=0)
        clock[0] += 0.5
    assert 9 <= len(taken) <= 11
    assert taken[0] == 5.0
    assert not scores.due(replica, side=1, pass_=0)


def test_a_short_run_scores_the_first_block_of_its_last_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("blocklearn.learner.training.scoring.FIRST", 1e9)
    monkeypatch.setattr("blocklearn.learner.training.scoring.SHARE", 1e-12)
    scored: list[tuple[int, int]] = []
    take = TrainingScores.take

    def noted(self: TrainingScores, *given: Any) -> None:
        take(self, *given)
        scored.append((self._progress.pass_, self._progress.block))

    monkeypatch.setattr(TrainingScores, "take", noted)
    for passes in (3, 1):
        model = bl.models.KMeans(clusters=3)
        data = labelled(dense=True)[0]
        bl.Learner(model, data, passes=passes, block_rows=50, threads=1).fit()
    assert scored == [(2, 0), (0, 0)]


def test_scored_blocks_are_replayed_in_later_trainings() -> None:
    """The first block of each training is scored. One call has confirmed what another recorded."""
    called: list[str] = []

    class Noted(bl.models.KMeans):
        def update(self, block: Any) -> None:
            called.append("update")
            super().update(block)

        def score(self, block: Any) -> Any:
            called.append("score")
            return super().score(block)

    parts = [labelled(dense=True)[0][start : start + 50] for start in range(0, 300, 50)]
    model = Noted(clusters=3)
    learner = bl.Learner(model, parts[0], block_rows=50, threads=1).fit()
    scored = [learner.progress.train_scores]
    for part in parts[1:3]:
        learner.fit(part)
    called.clear()
    for part in parts[3:]:
        learner.fit(part)
        scored.append(learner.progress.train_scores)
    assert called == []
    assert all(scored) and scored[-1] != scored[-2]


def test_estimators_score_no_blocks_of_training(always: list[dict[str, float]]) -> None:
    """They hand on no such scores, and these take a twelfth of a small fit."""
    X = labelled(dense=True)[0]
    bl.KMeans(3, random_state=0).fit(X).partial_fit(X)
    assert always == []


def test_estimators_without_callbacks_plan_neither_scores_nor_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def called(*_: Any) -> None:
        raise AssertionError("neither is asked for")

    for name in ("score", "predict"):
        monkeypatch.setattr(bl.models.NMF, name, called)
    bl.NMF(3, max_iter=2, random_state=0).fit(labelled(dense=True)[0])


def test_kernels_of_scores_wait_for_the_first_score() -> None:
    put_off, scores = [], []
    for soon in (True, False):
        learner = bl.Learner(bl.models.NMF(components=4), counts(), block_rows=50, threads=1)
        learner.scores_training = soon
        learner.fit()
        assert learner.team is not None
        backend: Any = learner.team.first.cache.backend
        put_off.append(set(backend._put_off))
        scores.append(learner.evaluate(counts()))
    assert put_off[0] < put_off[1]
    assert scores[0] == scores[1]


def test_a_model_that_reads_numbers_is_not_scored(always: list[dict[str, float]]) -> None:
    """Its plan is incomplete, so a score might need memory that is not reserved."""

    class Reads(bl.models.GLM):
        def update(self, block: Any) -> None:
            float(self.W[0, 0])
            super().update(block)

    bl.Learner(Reads(), labelled(), passes=2, block_rows=50, threads=1).fit()
    assert always == []
