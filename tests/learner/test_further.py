"""Train a saved model further on new data, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.training.states.state import State
from blocklearn.matcache import ShapeError
from tests.support.corpora import planted

SEA, FOOD = ["storm ship sail waves"] * 40, ["bread butter flour sugar"] * 40


def test_a_saved_topic_model_learns_new_texts_and_keeps_the_old(tmp_path: Path) -> None:
    first = bl.Learner(
        bl.models.LDA(topics=3), SEA + FOOD, passes=5, block_rows=16, threads=1, seed=1
    ).fit()
    bl.save(first, tmp_path)
    before = first.evaluate(SEA + FOOD)["perplexity"]
    learner = bl.load(tmp_path, threads=1)
    same = learner.fit(["ship bread unknowns"] * 8, passes=2)
    assert same is learner and learner.progress.position == (7, 0)
    assert learner.names == first.names  # new words are left out
    # a first step of size 1 would have replaced all topics by those of eight equal documents
    assert learner.evaluate(SEA + FOOD)["perplexity"] < 1.5 * before
    bl.save(learner, tmp_path / "again")
    assert bl.load(tmp_path / "again").progress.pass_ == 7


def test_more_training_on_the_same_data_improves(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    Y = (X @ rng.normal(size=(6, 1)) > 0).astype(np.float32)
    first = bl.Learner("glm", (X, Y), passes=1, block_rows=64, threads=1).fit()
    bl.save(first, tmp_path)
    before = first.evaluate((X, Y))["log_loss"]
    learner = bl.load(tmp_path, threads=1).fit((X, Y), eval=(X, Y), passes=4)
    assert learner.progress.scores["log_loss"] < before
    assert len(learner.history) == 4 and learner.history["pass"][0] == 2


def test_a_learner_in_memory_continues_with_its_optimizer() -> None:
    X, _ = planted(60, 12, topics=2)
    given: dict[str, Any] = {"block_rows": 16, "threads": 1, "of_rows": 60}
    whole = bl.Learner(bl.models.LDA(topics=2), X, passes=4, **given).fit()
    parts = bl.Learner(bl.models.LDA(topics=2), X, passes=3, **given).fit().fit(X, passes=1)
    for name in whole.model.parameters:
        np.testing.assert_array_equal(whole.parameter(name), parts.parameter(name))


def test_a_learner_without_data_takes_them_in_fit() -> None:
    X = np.random.default_rng(0).poisson(1.0, (50, 5)) + 1.0
    later = bl.Learner(bl.models.NMF(components=2), threads=1, block_rows=16).fit(X, passes=2)
    first = bl.Learner(bl.models.NMF(components=2), X, passes=2, threads=1, block_rows=16).fit()
    np.testing.assert_array_equal(later.parameter("H"), first.parameter("H"))
    with pytest.raises(ValueError, match="passes and eval must come with new data"):
        first.fit(passes=3)
    with pytest.raises(ValueError, match="passes=0: must be a whole number, and at least 1"):
        first.fit(X, passes=0)


def test_factors_of_other_users_begin_afresh_and_items_stay(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 20))
    first = bl.Learner(
        bl.models.ALS(rank=3, biases=False), sp.csr_array(truth[:40]), passes=5, threads=1
    ).fit()
    bl.save(first, tmp_path)
    learner = bl.load(tmp_path, threads=1).fit(sp.csr_array(truth[40:]), passes=2)
    assert learner.row_state("users").shape == (20, 3)
    error = np.abs(learner.row_state("users") @ learner.row_state("items").T - truth[40:]).mean()
    assert error < 0.3 * np.abs(truth[40:]).mean()


def test_a_folder_without_the_steps_of_its_optimizer_is_refused(tmp_path: Path) -> None:
    X: Any = np.ones((20, 5))
    bl.save(bl.Learner(bl.models.LDA(topics=2), X, threads=1).fit(), tmp_path)
    learner = bl.load(tmp_path)
    state = learner.state()
    position = {k: v for k, v in state.position.items() if k not in ("steps", "phase")}
    learner.restore(State(state.tensors, position))
    with pytest.raises(ValueError, match="of an earlier version and lacks the optimizer"):
        learner.fit(X)


def test_data_of_other_columns_are_refused(tmp_path: Path) -> None:
    X: Any = np.ones((20, 5))
    learner = bl.Learner(bl.models.NMF(components=2), X, threads=1).fit()
    with pytest.raises(ShapeError, match="the model"):
        learner.fit(X[:, :3])
