"""`partial_fit` trains kept replicas at once, and learns what a learner of its own would."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError
from blocklearn.learner.training.further_rows import FurtherRows
from tests.support.often import rarely

SAME = {"random_state": 1, "n_jobs": 1}
ROWS, COLUMNS = 70, 12


def dense(seed: int, rows: int = ROWS) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, COLUMNS)).astype(np.float32)


def sparse(seed: int, rows: int = ROWS) -> Any:
    """Make counts, of which the first rows have most entries, and some rows none."""
    table = np.random.default_rng(seed).poisson(0.5, (rows, COLUMNS))
    table[3] = 0
    if seed == 0:
        table[5:20] += 1
    return sp.csr_array(table.astype(np.float64))


def labels(X: Any) -> Any:
    return (np.asarray(X.sum(axis=1)) > np.median(X.sum(axis=1))).astype(int)


def sums(X: Any) -> Any:
    return 1.0 + np.asarray(X.sum(axis=1))


def weighed(X: Any) -> dict[str, Any]:
    return {"sample_weight": np.arange(X.shape[0]) % 3}


CASES: dict[str, tuple[Any, Any, Any]] = {
    "classes": (bl.GLMClassifier(**SAME), dense, labels),
    "sparse classes": (bl.GLMClassifier(**SAME), sparse, labels),
    "three": (bl.GLMClassifier(**SAME), dense, lambda X: np.arange(X.shape[0]) % 3),
    "ftrl": (bl.GLMClassifier(solver="ftrl", l1_ratio=0.5, alpha=1e-3, **SAME), sparse, labels),
    "numbers": (bl.GLMRegressor(**SAME), dense, sums),
    "blocks": (bl.GLMRegressor(batch_size=32, **SAME), dense, sums),
    "clusters": (bl.KMeans(3, **SAME), dense, None),
    "sparse clusters": (bl.KMeans(3, **SAME), sparse, None),
    "parts": (bl.NMF(3, **SAME), sparse, None),
    "topics": (bl.LatentDirichletAllocation(3, total_samples=500, **SAME), sparse, None),
    "factors": (bl.FMClassifier(2, **SAME), sparse, labels),
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each later part was trained on without a reader and the loop."""
    found, train = [], FurtherRows.train

    def noted(self: FurtherRows, *given: Any) -> bool:
        found.append(train(self, *given))
        return found[-1]

    monkeypatch.setattr(FurtherRows, "train", noted)
    return found


def learn(estimator: Any, X: Any, target: Any, **more: Any) -> None:
    if target is None:
        estimator.partial_fit(X)
        return
    y = target(X)
    more |= {"classes": np.unique(y)} if hasattr(estimator, "class_weight") else {}
    estimator.partial_fit(X, y, **more)


def same(one: Any, other: Any) -> None:
    """Compare what both have learned, and what they keep to learn more."""
    position = {k: v for k, v in other._stream.position.items() if k != "seconds"}
    assert position == {k: v for k, v in one._stream.position.items() if k != "seconds"}
    for name, array in (*vars(other).items(), *other._stream.tensors.items()):
        if isinstance(array, np.ndarray):
            found = vars(one).get(name, one._stream.tensors.get(name))
            np.testing.assert_array_equal(found, array, err_msg=name)


@pytest.mark.parametrize(
    "name", ["sparse classes", "numbers", "parts", *rarely(*sorted(CASES.keys() - {"numbers"}))]
)
def test_further_rows_are_learned_as_by_a_new_learner(name: str, quick: list[bool]) -> None:
    made, data, target = CASES[name]
    found = copy.deepcopy(made)
    for seed in range(5):
        fresh = copy.deepcopy(found)  # plans anew
        X = data(seed)
        learn(fresh, X, target)
        learn(found, X, target)
        same(found, fresh)
    assert quick == [True] * 3


def test_rows_that_differ_from_the_last_ones(quick: list[bool]) -> None:
    found = bl.GLMClassifier(**SAME)
    parts = [dense(0), dense(1), dense(2), dense(3, 40), dense(4, 40), dense(5, 40)]
    for number, X in enumerate(parts):
        fresh, more = copy.deepcopy(found), weighed(X) if number == 5 else {}
        learn(fresh, X, labels, **more)
        learn(found, X, labels, **more)
        same(found, fresh)
    assert quick == [True, False, True, False]


def test_more_entries_than_there_is_room_for(quick: list[bool]) -> None:
    found = bl.GLMClassifier(**SAME)
    for seed in (1, 2, 3, 0, 4):
        fresh = copy.deepcopy(found)
        learn(fresh, sparse(seed), labels)
        learn(found, sparse(seed), labels)
        same(found, fresh)
    assert False in quick


def test_attributes_that_were_changed_are_learned_from(quick: list[bool]) -> None:
    found = bl.GLMClassifier(**SAME)
    for seed in range(3):
        learn(found, dense(seed), labels)
    found.coef_ *= 2.0
    fresh = copy.deepcopy(found)
    for estimator in (found, fresh):
        learn(estimator, dense(3), labels)
    same(found, fresh)
    assert quick == [True, True]


def test_an_optimizer_may_be_changed_in_place() -> None:
    found = bl.GLMClassifier(solver=bl.optimizers.AdaGrad(rate=0.5), **SAME)
    for seed in range(3):
        learn(found, dense(seed), labels)
    found.solver.rate = 0.01
    fresh = copy.deepcopy(found)
    for estimator in (found, fresh):
        learn(estimator, dense(3), labels)
    same(found, fresh)


def test_an_older_state_may_come_back(quick: list[bool]) -> None:
    found = bl.KMeans(3, **SAME)
    for seed in range(3):
        found.partial_fit(dense(seed))
    older = dict(vars(found))
    found.partial_fit(dense(3))
    wanted = found.cluster_centers_
    found.partial_fit(dense(4))
    vars(found).update(older)
    found.partial_fit(dense(3))
    np.testing.assert_array_equal(found.cluster_centers_, wanted)
    assert quick == [True] * 4


def test_refused_rows_leave_what_was_learned(quick: list[bool]) -> None:
    found = bl.GLMClassifier(**SAME)
    for seed in range(3):
        learn(found, dense(seed), labels)
    wanted, wrong = found.coef_.copy(), dense(3).astype(np.float64)
    wrong[4, 1] = 1e39
    with pytest.raises(DataError, match="row 4, column 1"):
        learn(found, wrong, labels)
    np.testing.assert_array_equal(found.coef_, wanted)
    fresh = copy.deepcopy(found)
    for estimator in (found, fresh):
        learn(estimator, dense(4), labels)
    same(found, fresh)
    assert quick == [True, False]
