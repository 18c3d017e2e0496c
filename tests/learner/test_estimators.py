"""The estimators keep scikit-learn's contract, and find the same bits as a Learner."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import blocklearn as bl

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocklearn.learner.estimators import constraints
from blocklearn.learner.training.settings import checks
from tests.support.often import crossed, first_often, paired
from tests.support.own_threads import no_thread_left

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CLASSIFIER = "the check takes what has predict_proba for a classifier"
ROUNDING = "many steps in float32: a weight of 2 and two rows differ in the last bits"
EXPECTED_FAILURES: dict[str, dict[str, str]] = {  # by estimator and check: why
    "GaussianMixture": {
        "check_estimator_sparse_array": CLASSIFIER,
        "check_estimator_sparse_matrix": CLASSIFIER,
    },
    **{
        name: {
            "check_sample_weight_equivalence_on_dense_data": ROUNDING,
            "check_sample_weight_equivalence_on_sparse_data": ROUNDING,
        }
        for name in ("FMClassifier", "FMRegressor")
    },
}
ESTIMATORS = [
    bl.GLMClassifier(max_iter=10),
    bl.GLMRegressor(max_iter=40),
    bl.LatentDirichletAllocation(n_components=3),
    bl.NMF(n_components=3),
    bl.ALS(n_components=3, regularization=0.05, max_iter=5),
    bl.Ranking(n_components=3, regularization=0.1, max_iter=5),
    bl.KMeans(n_clusters=3, max_iter=5),
    bl.TruncatedSVD(n_components=2),
    bl.PCA(n_components=2),
    bl.GaussianMixture(n_components=2, reg_covar=0.1, max_iter=5),
    bl.FMClassifier(n_components=2, max_iter=20),
    bl.FMRegressor(n_components=2, max_iter=20),
]
TRANSFORMERS = [estimator for estimator in ESTIMATORS if hasattr(estimator, "transform")]
COUNTS = np.random.default_rng(0).poisson(0.4, (60, 12)) + np.eye(60, 12, dtype=np.int64)
LABELS = np.array(["ab", "c", "de"])[np.arange(60) % 3]


def title(estimator: Any) -> str:
    return type(estimator).__name__


def fitted(estimator: Any, X: Any = COUNTS, **params: Any) -> Any:
    estimator = clone(estimator).set_params(random_state=1, **params)
    y = LABELS if title(estimator) == "GLMClassifier" else COUNTS[:, 0] - COUNTS[:, 1]
    return estimator.fit(X, y)


@cache
def known(estimator: Any) -> Any:
    """The estimator after a fit to COUNTS; tests share it, and leave it as it is."""
    return fitted(estimator)


def used(estimator: Any, X: Any = COUNTS) -> Any:
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


# ---- scikit-learn's own checks -------------------------------------------------------------------


SLOW_CHECKS = {
    "check_estimator_sparse_matrix",  # as check_estimator_sparse_array
    "check_estimators_dtypes",  # compiles kernels for many numbers of classes
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_sample_weight_equivalence_on_sparse_data",  # as on dense data
}
OFTEN = {"GLMClassifier"}  # others share their code


def all_checks() -> pytest.MarkDecorator:
    """The parameters of scikit-learn's checks; those of SLOW_CHECKS and of estimators that are not
    in OFTEN are marked as slow.
    """
    checks = parametrize_with_checks(
        ESTIMATORS,
        expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(title(estimator), {}),
    )
    names, cases = checks.args
    marked = []
    for case in cases:
        estimator, check = getattr(case, "values", case)  # of a check that is expected to fail
        name = getattr(check, "func", check).__name__
        slow = name in SLOW_CHECKS or title(estimator) not in OFTEN
        marks = [*getattr(case, "marks", ()), *[pytest.mark.slow] * slow]
        marked.append(pytest.param(estimator, check, marks=marks))
    return pytest.mark.parametrize(names, marked, **checks.kwargs)


@all_checks()
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


ARRAY_API = """
import blocklearn as bl, warnings
from sklearn.utils.estimator_checks import check_array_api_input
warnings.simplefilter("ignore")
options = {"array_namespace": "numpy", "expect_only_array_outputs": False}
for kind in (bl.GLMClassifier, bl.GLMRegressor, bl.LatentDirichletAllocation, bl.NMF, bl.ALS):
    check_array_api_input(kind.__name__, kind(), **options)
"""


@pytest.mark.slow
def test_the_check_that_needs_an_environment_of_its_own() -> None:
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", ARRAY_API], check=True, env=environment)


# ---- data of all kinds ---------------------------------------------------------------------------


@paired(4, container=[np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array], estimator=ESTIMATORS)
def test_every_kind_of_matrix_gives_the_same(estimator: Any, container: Any) -> None:
    whole, other = known(estimator), fitted(estimator, container(COUNTS.astype(np.float64)))
    found = used(other, container(COUNTS.astype(np.float32)))
    if found.dtype.kind == "U":
        assert (found == used(whole)).mean() > 0.95
    else:
        np.testing.assert_allclose(found, used(whole), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("estimator", "library"),
    [
        *((estimator, "pandas") for estimator in ESTIMATORS),
        *first_often((estimator, "polars") for estimator in ESTIMATORS),
    ],
    ids=lambda value: value if isinstance(value, str) else title(value),
)
def test_frames_bring_names(estimator: Any, library: str) -> None:
    frames = pytest.importorskip(library, reason=f"needs {library}")
    names = [f"word{i}" for i in range(12)]
    frame = frames.DataFrame({name: COUNTS[:, i] for i, name in enumerate(names)})
    found = fitted(estimator, frame)
    assert list(found.feature_names_in_) == names
    np.testing.assert_array_equal(used(found, frame), used(known(estimator)))
    other = frames.DataFrame({f"x{i}": COUNTS[:, i] for i in range(12)})
    with pytest.raises(ValueError, match="feature names"):
        used(found, other)
    if hasattr(found, "transform"):
        out = found.set_output(transform=library).transform(frame)
        assert list(out.columns) == list(found.get_feature_names_out())


@crossed(library=["pandas", "polars"], estimator=ESTIMATORS)
def test_columns_of_texts_are_named(estimator: Any, library: str) -> None:
    frames = pytest.importorskip(library, reason=f"needs {library}")
    frame = frames.DataFrame({"n": [1.0, 2.0], "told": [None, "cats purr"]})
    told = frame["told"]
    category = told.astype("category") if library == "pandas" else told.cast(frames.Categorical)
    message = r"texts in column 'told' \('cats purr' .*X\['told'\]"
    if isinstance(estimator, bl.ALS | bl.Ranking):  # such a frame may be a table of ratings
        message = r"columns 'n', 'told': must have one of users and one of items.*Rename"
    for values in (told, category):
        frame = frames.DataFrame({"n": [1.0, 2.0], "told": values})
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(frame, [0, 1])


@pytest.mark.parametrize("estimator", first_often(ESTIMATORS, 4), ids=title)
def test_tables_of_arrow_are_matrices(estimator: Any) -> None:
    table = pa.table({f"x{i}": COUNTS[:, i] for i in range(12)})
    np.testing.assert_array_equal(used(fitted(estimator, table), table), used(known(estimator)))


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=title)
def test_rows_without_a_target_are_named(estimator: Any) -> None:
    for gap in (None, np.nan):
        y = [0, 1] * 30
        y[7] = y[9] = gap
        with pytest.raises(ValueError, match=r"y contains NaN: 2 of 60 rows .* row 7 \(from 0\)"):
            clone(estimator).fit(COUNTS, y)
    frames = pytest.importorskip("pandas", reason="needs pandas")
    for dtype in ("Int64", "category", "object"):
        with pytest.raises(ValueError, match="row 1 "):
            clone(estimator).fit(COUNTS, frames.Series([1, None] * 30, dtype=dtype))
    dates = np.array(["2020-01-01", "NaT"] * 30, "datetime64[D]")
    for y in ([1, frames.NA] * 30, np.array([1, frames.NaT] * 30, object), dates):
        with pytest.raises(ValueError, match="row 1 "):
            clone(estimator).fit(COUNTS, y)


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=title)
def test_columns_that_come_out_have_names(estimator: Any) -> None:
    found = known(estimator)
    names = found.get_feature_names_out()
    assert names[0] == f"{title(estimator).lower()}0"
    assert len(names) == used(found).shape[1]


# ---- the same as a Learner -----------------------------------------------------------------------


def learner_of(name: str, passes: int) -> bl.Learner:
    X = sp.csr_array(COUNTS.astype(np.float64))
    options = {"passes": passes, "block_rows": 16, "seed": 7}
    if name == "glm":
        y = (LABELS == "c").astype(float)
        return bl.Learner(bl.models.GLM(l2=1e-4, output="score"), (X, y), **options)
    model = {
        "lda": bl.models.LDA(topics=3),
        "nmf": bl.models.NMF(components=3),
        "als": bl.models.ALS(rank=3),
    }[name]
    return bl.Learner(model, X, **options)


def estimator_of(name: str, **params: Any) -> Any:
    kind = {
        "glm": bl.GLMClassifier(solver="adagrad", alpha=1e-4),
        "lda": bl.LatentDirichletAllocation(n_components=3),
        "nmf": bl.NMF(n_components=3),
        "als": bl.ALS(n_components=3, regularization=0.05),
    }[name]
    return kind.set_params(batch_size=16, random_state=7, **params)


LEARNED = {"glm": ("W", "coef_"), "lda": ("lambda", "components_"), "nmf": ("H", "components_")}


@pytest.mark.parametrize("name", first_often(["glm", "lda", "nmf", "als"], 2))
def test_fit_is_a_learner_of_as_many_passes(name: str) -> None:
    X = sp.csr_array(COUNTS.astype(np.float64))
    learner = learner_of(name, 4).fit()
    found = estimator_of(name, max_iter=4).fit(X, LABELS == "c")
    tensor, attribute = LEARNED.get(name, ("items", "components_"))
    state = learner.state().tensors[tensor]
    assert np.ascontiguousarray(getattr(found, attribute).T).tobytes() == state.tobytes()
    wanted = learner.predict(X)
    given = found.decision_function(X) if name == "glm" else found.transform(X)
    if name == "glm":  # scores of sparse rows in memory are sums in float64
        np.testing.assert_allclose(given, wanted[:, 0], rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("name", ["glm", "lda"])
def test_partial_fit_goes_on_pass_after_pass(name: str) -> None:
    """The bits of a learner that is told one pass more each time, optimizer state included."""
    X = sp.csr_array(COUNTS.astype(np.float64))
    extra = {"inference": "cvb0", "total_samples": 60} if name == "lda" else {}
    found = estimator_of(name, **extra)
    for _ in range(3):
        found.partial_fit(X, LABELS == "c", **({"classes": [False, True]} if name == "glm" else {}))
    whole = estimator_of(name, max_iter=3, **extra).fit(X, LABELS == "c")
    attribute = LEARNED[name][1]
    np.testing.assert_array_equal(getattr(found, attribute), getattr(whole, attribute))
    assert found.n_iter_ == 3 and found.n_samples_seen_ == 180


def test_rows_of_a_stream_are_new_to_nmf() -> None:
    """The next pass of a learner whose weights of rows start again."""
    X = sp.csr_array(COUNTS.astype(np.float64))
    learner = learner_of("nmf", 1).fit()
    then = learner_of("nmf", 2)
    state = learner.state()
    state.tensors["W"][:] = 1.0
    then.restore(state)
    found = estimator_of("nmf", total_samples=60).partial_fit(X).partial_fit(X)
    np.testing.assert_array_equal(found.components_.T, then.fit().parameter("H"))


def test_blocks_of_a_stream_weigh_by_their_share_of_it() -> None:
    """Of a stream of a million rows, NMF forgets next to nothing from one call to the next."""
    early, late = np.repeat([[2.0, 1.0]], 60, axis=0), np.repeat([[1.0, 2.0]], 60, axis=0)
    for total, wanted in [(None, 2.0), (10**6, (1 + 3 * 2) / (2 + 3 * 1))]:
        nmf = bl.NMF(1, total_samples=total, forget=1e-6, random_state=0)
        for X in (early, late, late, late):
            nmf.partial_fit(X)
        first, second = nmf.components_[0]
        assert second / first == pytest.approx(wanted, rel=0.1)


def test_a_stream_goes_on_after_fit_and_after_pickling() -> None:
    X = COUNTS[:40]
    one = estimator_of("nmf", max_iter=2).fit(X)
    two = pickle.loads(pickle.dumps(one))
    for estimator in (one, two):
        estimator.partial_fit(COUNTS[40:])
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.n_iter_ == 3 and one.n_samples_seen_ == 60


def steps_of(estimator: Any) -> tuple[int, int]:
    """Phase, and steps that the optimizer has made in it."""
    optimizer = estimator._stream.position["optimizers"][0]
    return optimizer["phase"], optimizer["steps"]


def test_gibbs_in_a_stream_has_one_schedule_of_steps() -> None:
    """A stream has no warm-up and does not begin again; one that `fit` began keeps sampling."""
    lda = estimator_of("lda")
    found = []
    for _ in range(3):
        lda.partial_fit(COUNTS)
        found.append(steps_of(lda))
    assert found == [(0, 4), (0, 8), (0, 12)]
    lda.set_params(max_iter=3).fit(COUNTS)
    lda.partial_fit(COUNTS)
    assert steps_of(lda) == (1, 12)


def test_the_number_of_threads_changes_nothing() -> None:
    for estimator in ESTIMATORS:
        one, two = fitted(estimator, n_jobs=1), fitted(estimator, n_jobs=2)
        np.testing.assert_array_equal(used(one), used(two))


# ---- life in scikit-learn ------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=title)
def test_pickles_hold_arrays_alone(estimator: Any) -> None:
    found = known(estimator)
    pickled = pickle.dumps(found)
    assert b"learner.learner" not in pickled and b"matcache" not in pickled
    np.testing.assert_array_equal(used(pickle.loads(pickled)), used(found))


@pytest.mark.slow
def test_pipeline_and_grid_search() -> None:
    texts = ["cats purr and sleep", "dogs bark and run", "cats sleep", "dogs run fast"] * 10
    labels = [0, 1, 0, 1] * 10
    pipeline = make_pipeline(
        CountVectorizer(), bl.LatentDirichletAllocation(random_state=0), bl.GLMClassifier()
    )
    grid = {"latentdirichletallocation__n_components": [2, 3], "glmclassifier__alpha": [1e-3, 1e-2]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=1).fit(texts, labels)
    assert search.best_score_ > 0.9
    assert search.predict(["a dog will bark", "the cats purr"]).tolist() == [1, 0]


def test_grid_search_over_models_that_score_themselves() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) @ rng.random((3, 20))
    search = GridSearchCV(bl.NMF(random_state=0, max_iter=60), {"n_components": [1, 3]}, cv=2)
    assert search.fit(X).best_params_ == {"n_components": 3}
    als = bl.ALS(random_state=0, max_iter=8)
    grid = {"n_components": [3], "regularization": [1e-3, 10.0]}
    assert GridSearchCV(als, grid, cv=2).fit(X).best_params_["regularization"] == 1e-3


def test_parameters_are_named_in_errors() -> None:
    with pytest.raises(
        ValueError, match=r"LatentDirichletAllocation: n_components=0: must be a whole"
    ):
        bl.LatentDirichletAllocation(n_components=0).fit(COUNTS)
    with pytest.raises(ValueError, match=r"ALS: regularization=-1.0: "):
        bl.ALS(regularization=-1.0).fit(COUNTS)
    with pytest.raises(ValueError, match=r"NMF: max_iter=0: must be a whole number"):
        bl.NMF(max_iter=0).fit(COUNTS)
    with pytest.raises(ValueError, match=r"max_iter=1000.*: must be a whole number, 1 to 2,147"):
        bl.NMF(max_iter=10**20).fit(COUNTS)
    with pytest.raises(ValueError, match=r"n_components=1000.*: must be below 2147483648"):
        bl.LatentDirichletAllocation(10**20).fit(COUNTS)
    with pytest.raises(ValueError, match=r"GLMClassifier: loss='log': must be log_loss, hinge or"):
        bl.GLMClassifier("log").fit(COUNTS, LABELS)
    with pytest.raises(ValueError, match=r"solver='irls': must be auto, dual, newton, sgd"):
        bl.GLMRegressor(solver="irls").fit(COUNTS, COUNTS[:, 0])
    with pytest.raises(ValueError, match="n_jobs=0"):
        bl.NMF(n_jobs=0).fit(COUNTS)
    with pytest.raises(NotFittedError):
        bl.ALS().recommend(0)


@pytest.mark.parametrize("estimator", first_often(ESTIMATORS, 4), ids=title)
def test_texts_are_no_matrix(estimator: Any) -> None:
    for texts in (["cats purr", "dogs bark"], np.array(["cats purr", "dogs bark"], dtype=object)):
        with pytest.raises(ValueError, match=r"X has texts \('cats purr' ...\).*CountVectorizer"):
            clone(estimator).fit(texts, [0, 1])
    with pytest.raises(ValueError, match=r"X has texts, split .*'cats purr' .*analyzer=list"):
        clone(estimator).fit([["cats", "purr"], ["dogs"]], [0, 1])
    with pytest.raises(ValueError, match=r"X has texts \('cats purr'"):
        clone(estimator).fit([None, "cats purr"], [0, 1])
    with pytest.raises(ValueError, match="X is a list_iterator, and must be a matrix"):
        clone(estimator).fit(iter(["cats purr", "dogs bark"]), [0, 1])
    with pytest.raises(ValueError, match="X has texts"):
        used(known(estimator), ["cats purr"])


@pytest.mark.parametrize("estimator", first_often(ESTIMATORS, 4), ids=title)
def test_dates_are_no_numbers(estimator: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "day": pandas.to_datetime(["2026-01-02"] * 2)})
    of_ratings = isinstance(estimator, bl.ALS | bl.Ranking)  # their frames may have dates
    for X in () if of_ratings else (frame, frame.assign(day=frame.day - frame.day[0])):
        with pytest.raises(ValueError, match=r"X has dates or times in column 'day' \(.*64"):
            clone(estimator).fit(X, [0, 1])
    with pytest.raises(ValueError, match=r"X has dates or times \(datetime64.*such as the month"):
        clone(estimator).fit(frame[["day"]].to_numpy(), [0, 1])


def test_random_state_may_be_a_number_a_generator_or_nothing() -> None:
    state = np.random.RandomState(0)
    drawn = [bl.NMF(3, random_state=state, max_iter=2).fit(COUNTS).components_ for _ in range(2)]
    again = bl.NMF(3, random_state=np.random.RandomState(0), max_iter=2).fit(COUNTS).components_
    np.testing.assert_array_equal(drawn[0], again)
    assert not np.array_equal(*drawn)
    assert bl.NMF(3, max_iter=2).fit(COUNTS).components_.shape == (3, 12)


def test_estimators_are_independent_of_what_is_done_with_data_afterwards() -> None:
    X = COUNTS.astype(np.float32)
    found = bl.ALS(3, random_state=0, max_iter=2).fit(X)
    before = found.user_factors_.copy()
    X[:] = 0.0
    bl.ALS(3, random_state=1, max_iter=2).fit(COUNTS)
    np.testing.assert_array_equal(found.user_factors_, before)


def test_what_was_learned_goes_to_a_model_folder(tmp_path: Path) -> None:
    for estimator in ESTIMATORS:
        found = known(estimator)
        bl.save(found.to_learner(), tmp_path / title(found))
        loaded = bl.load(tmp_path / title(found))
        given = loaded.predict(sp.csr_array(COUNTS.astype(np.float32)))
        if title(found) == "GLMClassifier":
            wanted = found.predict_proba(COUNTS)
            assert loaded.target_names == ["ab", "c", "de"]
        elif title(found) in ("GaussianMixture", "FMClassifier"):
            wanted = found.predict_proba(COUNTS)
        else:
            wanted = found.predict(COUNTS) if isinstance(found, bl.KMeans) else used(found)
            wanted = wanted.reshape(given.shape)
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(NotFittedError):
        bl.NMF().to_learner()
    with pytest.raises(TypeError, match=r"NMF is not a Learner; pass its to_learner\(\)"):
        bl.save(bl.NMF(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="estimators: LatentDirichletAllocation"):
        _ = bl.LDA


def test_predictions_in_several_threads() -> None:
    for estimator in ESTIMATORS:
        found = known(estimator)
        wanted = used(found)
        with no_thread_left(), ThreadPoolExecutor(4) as pool:
            for given in pool.map(used, [found] * 8):
                np.testing.assert_array_equal(given, wanted)


@pytest.mark.slow
def test_grid_search_in_several_processes() -> None:
    grid = {"alpha": [1e-3, 1e-1]}
    labels = (COUNTS[:, 0] > 0).astype(int)
    found = [
        GridSearchCV(bl.GLMClassifier(random_state=0), grid, cv=2, n_jobs=jobs).fit(COUNTS, labels)
        for jobs in (1, 2)
    ]
    scores = [search.cv_results_["mean_test_score"] for search in found]
    np.testing.assert_array_equal(*scores)


# ---- callbacks -----------------------------------------------------------------------------------


class Listener:
    """What callbacks are told, in order; asks to stop at the end of pass `last`."""

    def __init__(self, last: int = 10**6) -> None:
        self.last, self.told, self.scores = last, [], []

    def setup(self, estimator: Any, context: Any) -> None:
        self.told.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.told.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any = None, fitted_estimator: Any = None
    ) -> bool:
        self.told.append(f"end {context.task_name} {context.task_id}")
        if context.task_name == "pass":
            self.scores.append(used(fitted_estimator, X))
        return context.task_name == "pass" and context.task_id >= self.last


@pytest.mark.parametrize("estimator", first_often(ESTIMATORS, 3), ids=title)
def test_callbacks_hear_of_every_pass_and_see_the_model(estimator: Any) -> None:
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    listener = Listener(last=1)
    found = fitted(clone(estimator).set_callbacks(listener), max_iter=5)
    made = 1 if title(estimator) in {"GLMRegressor", "PCA", "TruncatedSVD"} else 2  # by X'X: 1
    passes = [f"{event} pass {i}" for i in range(made) for event in ("begin", "end")]
    assert listener.told == ["setup", "begin fit 0", *passes, "end fit 0", "teardown"]
    assert found.n_iter_ == made
    np.testing.assert_array_equal(listener.scores[-1], used(found))


@pytest.mark.parametrize("kind", [bl.GLMRegressor, bl.FMRegressor])
def test_callbacks_see_models_in_the_units_of_the_data(kind: Any) -> None:
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    listener = Listener(last=3)
    machine = kind("huber") if kind is bl.GLMRegressor else kind(n_components=2)
    machine.set_params(solver="auto" if kind is bl.GLMRegressor else "adagrad").set_callbacks(
        listener
    )
    found = machine.fit(1e3 * COUNTS, 1e3 * np.arange(len(COUNTS)))
    np.testing.assert_array_equal(listener.scores[-1], found.predict(1e3 * COUNTS))


def test_callbacks_in_a_pipeline() -> None:
    callbacks = pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")
    monitor = callbacks.ScoringMonitor(scoring="accuracy")
    classifier = bl.GLMClassifier(solver="adagrad", max_iter=4, random_state=0)
    classifier.set_callbacks(monitor)
    make_pipeline(classifier).fit(COUNTS, LABELS)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert len(scores) >= 4
    assert scores[-1] == classifier.score(COUNTS, LABELS)


# ---- what is imported when -----------------------------------------------------------------------


IMPORTS = """
import sys, blocklearn, blocklearn.learner.command_line.cli, blocklearn.learner.runs.training
blocklearn.models, blocklearn.Learner, blocklearn.recommend
assert "sklearn" not in sys.modules
sys.modules["sklearn"] = None
try:
    blocklearn.ALS
except ImportError as error:
    print(error)
"""


def test_estimators_alone_need_scikit_learn_and_say_how_to_install_it() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'blocklearn[sklearn]'" in done.stdout


def test_estimators_take_as_many_passes_as_learners() -> None:
    """The number stands twice, for its module would load with every estimator."""
    assert constraints.MOST_PASSES == checks.MOST_PASSES
