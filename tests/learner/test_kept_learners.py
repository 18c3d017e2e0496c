"""Estimators keep learners between predictions, which no user can tell but by the time."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.estimators import kept
from blocklearn.learner.estimators.linear import predictor
from blocklearn.learner.training.states.same_bits import same_bits
from blocklearn.learner.training.states.state import State
from tests.support.often import first_often
from tests.support.own_threads import no_thread_left

COUNTS = np.random.default_rng(0).poisson(0.4, (60, 12)) + np.eye(60, 12, dtype=np.int64)
SPARSE = sp.csr_array(COUNTS)
LABELS = (COUNTS[:, 0] > COUNTS[:, 1]).astype(int)
SAME = {"random_state": 1, "n_jobs": 1}


@pytest.fixture(autouse=True)
def sparse_rows_need_a_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of linear estimators do only where a matrix has faults, or many targets."""
    monkeypatch.setattr(predictor, "sparse_scores", lambda *_: None)


def classifier(**params: Any) -> bl.GLMClassifier:
    return bl.GLMClassifier(**SAME, **params).fit(COUNTS, LABELS)


def clusters() -> bl.KMeans:
    return bl.KMeans(3, max_iter=5, **SAME).fit(SPARSE)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bl.Learner]]:
    """The learners that estimators make."""
    found: list[bl.Learner] = []

    class Made(bl.Learner):
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*args, **given)
            found.append(self)

    monkeypatch.setattr(bl, "Learner", Made)
    yield found
    found.clear()


def alike(estimator: Any, X: Any = COUNTS) -> None:
    """Predictions are those of a copy, which has no learner yet."""
    np.testing.assert_array_equal(
        estimator.decision_function(X), copy.deepcopy(estimator).decision_function(X)
    )


def test_a_learner_predicts_again_and_again(made: list[bl.Learner]) -> None:
    found = classifier()
    made.clear()
    for rows in (1, 2, 60, 1, 128):
        found.predict(sp.csr_array(np.resize(COUNTS, (rows, 12))))
    assert len(made) == 1
    for _ in range(3):
        found.predict(sp.csr_array(np.resize(COUNTS, (200, 12))))
        found.predict(SPARSE[:1])
    assert len(made) == 2


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    found, many = classifier(), np.resize(COUNTS, (1500, 12))
    whole = found.decision_function(many)
    for rows in (1, 700, 3, 1500, 1):
        np.testing.assert_array_equal(found.decision_function(many[:rows]), whole[:rows])


def test_learned_attributes_may_be_changed_and_replaced(made: list[bl.Learner]) -> None:
    found = classifier()
    before = found.decision_function(SPARSE)
    made.clear()
    found.coef_ *= 2
    assert not np.array_equal(found.decision_function(SPARSE), before)
    alike(found, SPARSE)
    found.coef_[0, 3] = 7.0
    alike(found, SPARSE)
    found.coef_ = np.zeros((1, 12), np.float32)
    found.intercept_ = np.array([3.0])
    np.testing.assert_array_equal(found.decision_function(SPARSE), np.full(60, np.float32(3.0)))
    assert len(made) == 2  # those of the copies


def test_the_sign_of_zero_and_nan_are_bits() -> None:
    one = np.array([[0.0, np.nan, 1.0]], np.float32)
    assert same_bits(one, one.copy())
    assert same_bits(one, np.asfortranarray(np.concatenate([one, one]))[1:])
    assert not same_bits(one, np.array([[-0.0, np.nan, 1.0]], np.float32))
    assert not same_bits(one, one.astype(np.float64))
    assert not same_bits(one, one.T)


def test_training_between_predictions_is_seen(made: list[bl.Learner]) -> None:
    found = bl.KMeans(3, **SAME)
    for start in (0, 20, 40):
        found.partial_fit(SPARSE[start : start + 20])
        np.testing.assert_array_equal(found.predict(SPARSE), copy.copy(found).predict(SPARSE))
    trained, copies = 1, 3
    assert len(made) == trained + copies + 1


def test_parameters_may_be_changed() -> None:
    found = classifier()
    mean = bl.GLMRegressor(loss="poisson", **SAME).fit(COUNTS, COUNTS[:, 0])
    scores = np.log(mean.predict(COUNTS))
    mean.set_params(loss="squared_error")
    np.testing.assert_allclose(mean.predict(COUNTS), scores, rtol=1e-4, atol=1e-5)
    for batch in (1, 200, None):
        found.set_params(batch_size=batch)
        alike(found)


def test_data_may_be_of_another_form() -> None:
    found = classifier()
    wanted = found.decision_function(COUNTS.astype(np.float32))
    for form in (sp.csr_array, np.float64, sp.csc_array, np.int64, np.asfortranarray):
        np.testing.assert_allclose(found.decision_function(form(COUNTS)), wanted, rtol=1e-5)  # type: ignore[operator]
    with pytest.raises(ValueError, match="X has 5 features"):
        found.predict(COUNTS[:, :5])
    np.testing.assert_array_equal(found.decision_function(COUNTS.astype(np.float32)), wanted)


def test_sparse_rows_with_more_entries_than_before() -> None:
    found = classifier()
    for entries in (1, 2, 12, 5):
        X = sp.csr_array((np.arange(12) < entries).astype(np.float32)[None])
        alike(found, X)


def sources(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The matrices of which sources are made from now on."""
    found, init = [], MatrixSource.__init__

    def noted(source: MatrixSource, X: Any, **given: Any) -> None:
        found.append(X)
        init(source, X, **given)

    monkeypatch.setattr(MatrixSource, "__init__", noted)
    return found


def read_only(X: Any) -> Any:
    """Return rows as joblib maps them into memory."""
    found = sp.csr_array(X, dtype=np.float32)
    for part in (found.data, found.indices, found.indptr):
        part.flags.writeable = False
    return found


@pytest.mark.parametrize(
    "form", first_often([np.float32, np.float64, np.int8, sp.csr_matrix, read_only], 2)
)
def test_later_rows_need_no_source(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, X = bl.TruncatedSVD(2, max_iter=2, **SAME).fit(SPARSE), form(COUNTS)
    wanted = found.transform(X)
    made = sources(monkeypatch)
    for rows in (60, 1, 7):
        np.testing.assert_array_equal(found.transform(X[:rows]), wanted[:rows])
    assert not made


def test_rows_that_only_a_source_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = classifier()
    wanted = found.decision_function(SPARSE)
    unsorted = SPARSE.copy()
    for start, stop in pairwise(unsorted.indptr):
        unsorted.indices[start:stop] = unsorted.indices[start:stop][::-1].copy()
        unsorted.data[start:stop] = unsorted.data[start:stop][::-1].copy()
    unsorted.has_sorted_indices = False
    found.decision_function(SPARSE)
    made = sources(monkeypatch)
    np.testing.assert_array_equal(found.decision_function(unsorted), wanted)
    assert len(made) == 1
    with pytest.raises(ValueError, match="row 3, column 2"):
        found.decision_function(sp.csr_array(([1e39], ([3], [2])), shape=(5, 12)))
    np.testing.assert_array_equal(found.decision_function(SPARSE), wanted)


def test_many_narrow_rows_have_the_bits_of_few() -> None:
    found = bl.PCA(3, max_iter=2, **SAME).fit(COUNTS)
    many = np.random.default_rng(1).normal(size=(4500, 12)).astype(np.float32)
    whole = found.transform(many)
    for rows in (4500, 4096, 1500, 3):
        np.testing.assert_array_equal(found.transform(many[:rows]), whole[:rows])


@pytest.mark.parametrize("labels", [2, 3])
def test_many_sparse_rows_have_the_bits_of_few(labels: int) -> None:
    y = np.arange(len(COUNTS)) % labels
    found = bl.GLMClassifier(solver="adagrad", max_iter=2, **SAME).fit(SPARSE, y)
    many = sp.random_array((4500, 12), density=0.3, format="csr", rng=1, dtype=np.float32)
    whole = found.decision_function(many)
    for rows in (4500, 4096, 1500, 3):
        np.testing.assert_array_equal(found.decision_function(many[:rows]), whole[:rows])


def test_an_error_leaves_the_estimator_usable(
    made: list[bl.Learner], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = clusters()
    wanted = found.predict(SPARSE)
    made.clear()

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(kept.Kept, "predict", fails)
        with pytest.raises(MemoryError):
            found.predict(SPARSE)
    np.testing.assert_array_equal(found.predict(SPARSE), wanted)
    assert len(made) == 1  # instead of the one that failed
    found.set_params(n_clusters=4)
    with pytest.raises(ValueError, match="what was learned does not fit its parameters"):
        found.predict(SPARSE)
    found.set_params(n_clusters=3)
    np.testing.assert_array_equal(found.predict(SPARSE), wanted)
    assert len(made) == 2


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, clone, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_copies_have_no_learner(copied: Callable[[Any], Any], made: list[bl.Learner]) -> None:
    found = classifier()
    before, digest = pickle.dumps(found), joblib.hash(found)
    found.predict(SPARSE)
    assert pickle.dumps(found) == before
    assert joblib.hash(found) == digest
    made.clear()
    other = copied(found)
    assert "_kept_learners" not in vars(other)
    if hasattr(other, "coef_"):
        np.testing.assert_array_equal(other.predict(SPARSE), found.predict(SPARSE))
        assert len(made) == 1


def test_threads_share_no_learner(made: list[bl.Learner], monkeypatch: pytest.MonkeyPatch) -> None:
    found, threads = clusters(), 6
    wanted = found.predict(SPARSE)
    together, predict = Barrier(threads), kept.Kept.predict

    def waits(one: kept.Kept, *args: Any) -> Any:
        together.wait()
        return predict(one, *args)

    made.clear()
    monkeypatch.setattr(kept.Kept, "predict", waits)
    with no_thread_left(), ThreadPoolExecutor(threads) as pool:
        for given in pool.map(found.predict, [SPARSE] * threads):
            np.testing.assert_array_equal(given, wanted)
    assert len(made) == threads - 1
    assert sum(learner.team is not None for learner in made) in (kept.MOST - 1, kept.MOST)


def test_no_thread_waits_for_the_next_prediction() -> None:
    found, many = clusters().set_params(n_jobs=3), sp.csr_array(np.resize(COUNTS, (5000, 12)))
    wanted = found.predict(many)
    for _ in range(2):
        with no_thread_left():
            np.testing.assert_array_equal(found.predict(many), wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_its_own(made: list[bl.Learner]) -> None:
    found = clusters()
    wanted = found.predict(SPARSE)
    made.clear()
    child = os.fork()
    if child == 0:
        try:
            same = [np.array_equal(found.predict(SPARSE), wanted) for _ in range(2)]
            os._exit(0 if all(same) and len(made) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(found.predict(SPARSE), wanted)
    assert not made


def test_they_are_closed_with_the_estimator(made: list[bl.Learner]) -> None:
    found = classifier()
    made.clear()
    found.predict(SPARSE)
    (learner,) = made
    assert learner.team is not None
    there = weakref.ref(found)
    gc.disable()
    try:
        del found
        assert there() is None
        assert learner.team is None
    finally:
        gc.enable()


def test_a_large_learner_is_not_kept(
    made: list[bl.Learner], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = clusters()
    wanted = found.predict(SPARSE)
    monkeypatch.setattr(kept, "MOST_BYTES", 1)
    made.clear()
    for _ in range(2):
        np.testing.assert_array_equal(found.predict(SPARSE[:60]), wanted)
    assert len(made) == 1
    assert all(learner.team is None for learner in made)


def test_a_learner_that_predicts_takes_another_state_without_a_new_plan() -> None:
    X = COUNTS.astype(np.float32)
    alike: Any = {"block_rows": 20, "threads": 1, "verbose": False}  # BLAS: bits depend on rows
    learner, teams = bl.Learner("nmf", **alike), []
    for seed in (0, 1):
        trained = bl.Learner("nmf", X, seed=seed, **alike).fit()
        numbers = {name: trained.parameter(name) for name in trained.model.parameters}
        learner.restore(State(numbers | {"W": trained.row_state("W")}, {}))
        np.testing.assert_array_equal(learner.predict(X), trained.predict(X))
        teams.append(learner.team)
    assert teams[0] is teams[1]
