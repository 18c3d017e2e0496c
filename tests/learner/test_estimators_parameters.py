"""Estimators refuse wrong parameters by the names that the caller knows."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_type_hints

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from tests.support.often import crossed

pytest.importorskip("sklearn", reason="needs scikit-learn")

RNG = np.random.default_rng(0)
X = RNG.random((40, 6))
y = (X[:, 0] > 0.5).astype(int)
COUNTS = RNG.poisson(1.0, (40, 6))
RATINGS = sp.csr_array(np.where(COUNTS > 0, COUNTS, 0))
LDA = bl.LatentDirichletAllocation
PUBLIC = ((name, getattr(bl, name)) for name in bl.__all__)
ESTIMATORS = [name for name, it in PUBLIC if inspect.isclass(it) and hasattr(it, "get_params")]

WRONG = [
    (bl.GLMClassifier, {"loss": ["hinge"]}, "must be log_loss, hinge or squared_hinge"),
    (bl.GLMRegressor, {"loss": ["huber"]}, "must be squared_error, huber, quantile, poisson"),
    (bl.GaussianMixture, {"covariance_type": ["full"]}, "must be full, diag or spherical"),
    (bl.GaussianMixture, {"tol": None}, "must be a number, 0 or more"),
    (bl.GaussianMixture, {"reg_covar": float("nan")}, "must be a number, 0 or more"),
    (LDA, {"n_components": None}, "must be a whole number, 1 or more"),
    (LDA, {"n_components": True}, "must be a whole number, 1 or more"),
    (LDA, {"total_samples": -1}, "must be a whole number, 1 or more, or None"),
    (LDA, {"doc_topic_prior": [1.0] * 9 + [-2.0]}, "entry 9 must be above 0"),
    (bl.KMeans, {"n_jobs": "2"}, "must be 1 or more, None"),
    (bl.KMeans, {"device": None}, 'must be "cpu", "cuda"'),
    (bl.KMeans, {"forget": None}, "must be given, or left out for its default"),
    (bl.NMF, {"alpha_W": None}, "must be a number, 0 or more"),
    (bl.NMF, {"alpha_H": "x"}, "must be a number, 0 or more, or 'same'"),
    (bl.NMF, {"alpha_W": 1e40}, "must be below"),
    (bl.NMF, {"l1_ratio": -1}, "must be a number from 0 to 1"),
    (bl.NMF, {"total_samples": "x"}, "must be a whole number, 1 or more, or None"),
    (bl.PCA, {"whiten": "nonsense"}, "must be True or False"),
    (bl.PCA, {"n_components": 1.5}, "must be a whole number, 1 or more, or None"),
    (bl.GLMClassifier, {"tol": "x", "solver": "adagrad"}, "must be a number from 0, below 1"),
    (bl.GLMRegressor, {"alpha": {"a": 1.0}}, "must be a number, 0 or more"),
    (bl.GLMRegressor, {"alpha": 1e40}, "must be below"),
    (bl.GLMRegressor, {"loss": "huber", "shape": "x"}, "must be a number"),
    (bl.GLMClassifier, {"fit_intercept": None}, "must be True or False"),
    (bl.FMClassifier, {"n_components": None}, "must be a whole number, 1 or more"),
    (bl.ALS, {"row_regularization": -1.0, "regularization": 0.1}, "must be at least"),
]


@pytest.mark.parametrize(("kind", "wrong", "rule"), WRONG, ids=lambda part: str(part)[-40:])
def test_wrong_parameters_are_named(kind: Any, wrong: dict[str, Any], rule: str) -> None:
    data = (RATINGS,) if kind is bl.ALS else (COUNTS if kind in (LDA, bl.NMF) else X, y)
    *_, name = sorted(wrong, key=lambda one: one in ("alpha", "shape", "tol", "row_regularization"))
    with pytest.raises(ValueError, match=f"^{kind.__name__}: {name}=.*{re.escape(rule)}"):
        kind(**wrong).fit(*data)
    if hasattr(kind, "partial_fit"):
        more = {"classes": [0, 1]} if kind is bl.FMClassifier else {}
        with pytest.raises(ValueError, match=f"^{kind.__name__}: {name}=.*{re.escape(rule)}"):
            kind(**wrong).partial_fit(*data, **more)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_types_of_parameters_are_known_to_tools(name: str) -> None:
    kind = getattr(bl, name)
    assert {*get_type_hints(kind.__init__)} == {*kind().get_params(), "return"}


def test_signatures_begin_with_the_parameters_of_the_model() -> None:
    shared = ["batch_size", "random_state", "n_jobs", "device"]
    assert [*inspect.signature(bl.NMF).parameters][-4:] == shared
    assert [*inspect.signature(bl.FMRegressor).parameters][:3] == ["n_components", "loss", "fields"]
    assert [*inspect.signature(bl.FMRegressor).parameters][-4:] == shared


def test_what_scikit_learn_takes_is_taken() -> None:
    class Regular(bl.GLMClassifier):  # type: ignore[misc]
        def __init__(self, C: float = 1.0, **more: Any) -> None:
            super().__init__(alpha=1.0 / (C * 40), **more)
            self.C = C

    Regular().fit(X, y)
    LDA(3, total_samples=1e6, max_iter=2).partial_fit(COUNTS)
    bl.NMF(3, total_samples=1e6).partial_fit(COUNTS)
    assert bl.GLMClassifier(tol=0, max_iter=3, solver="adagrad").fit(X, y).n_iter_ == 3
    bl.GLMRegressor(tol=0, max_iter=200).fit(X, X[:, 0])
    bl.GLMClassifier(alpha=0.1).fit(X, y, np.full(40, 1e-25))
    bl.GLMClassifier(class_weight={0: np.array(2.0), 1: np.float32(1.0)}).fit(X, y)


def test_lists_of_a_recommender_check_its_parameters() -> None:
    found = bl.ALS(2, regularization=0.1).fit(RATINGS).set_params(n_jobs="2")
    with pytest.raises(ValueError, match="^ALS: n_jobs='2': must be 1 or more, None"):
        found.recommend(0, RATINGS[:1])


def test_rules_on_several_fields_name_the_parameters() -> None:
    with pytest.raises(ValueError, match="^ALS: row_regularization=1: .* with regularization"):
        bl.ALS(2, row_regularization=1.0).fit(RATINGS)
    with pytest.raises(ValueError, match="doc_topic_prior has 3 numbers"):
        LDA(2, doc_topic_prior=[1.0] * 3).fit(COUNTS)
    with pytest.raises(ValueError, match=r"topic_word_prior has the shape \(3, 3\): must have"):
        LDA(2, topic_word_prior=np.ones((3, 3))).fit(COUNTS)


@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"loss": ["huber"]}])
def test_parameters_that_are_set_after_a_fit_are_checked(wrong: dict[str, Any]) -> None:
    found = bl.GLMRegressor().fit(X, y).set_params(**wrong)
    with pytest.raises(ValueError, match=f"^GLMRegressor: {next(iter(wrong))}=.*: must be"):
        found.predict(X)


def test_numbers_of_numpy_are_numbers() -> None:
    bl.KMeans(np.int64(2), max_iter=np.int32(1), spherical=np.True_).fit(X)
    bl.GLMRegressor(alpha=np.float32(0.1), tol=np.float64(1e-3), l1_ratio=np.int64(0)).fit(X, y)
    bl.PCA(2, whiten=np.False_).fit(X)


def test_parameters_are_checked_before_predictions() -> None:
    """Also where dense rows need no learner."""
    found = bl.KMeans(2, max_iter=1).fit(X).set_params(spherical="yes")
    for use in (found.predict, found.transform):
        with pytest.raises(ValueError, match="^KMeans: spherical='yes': must be"):
            use(X)
    with pytest.raises(ValueError, match="^PCA: whiten=3: must be"):
        bl.PCA(2).fit(X).set_params(whiten=3).transform(X)


@pytest.mark.parametrize(
    ("weights", "rule"),
    [
        ("nonsense", "must be a mapping by class, 'balanced' or None"),
        ([1.0, 2.0], "must be a mapping by class, 'balanced' or None"),
        ({0: "a"}, "the weight of 0, 'a', must be a number, 0 or more"),
        ({0: None}, "the weight of 0, None, must be a number, 0 or more"),
        ({1: -1.0}, "the weight of 1, -1.0, must be a number, 0 or more"),
        ({5: 1.0}, r"5 is no class of y; the classes are \[0, 1\]"),
    ],
)
@pytest.mark.parametrize("kind", [bl.GLMClassifier, bl.FMClassifier])
def test_class_weights_that_are_none_are_named(kind: Any, weights: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{kind.__name__}: class_weight=.*: {rule}"):
        kind(class_weight=weights).fit(X, y)


def test_class_weights_of_other_rows_are_left_out() -> None:
    given, known = (
        bl.GLMClassifier(class_weight={0: 2.0, 1: 1.0, **more}).fit(X, y).coef_
        for more in ({7: 3.0}, {})
    )
    np.testing.assert_array_equal(given, known)


@pytest.mark.parametrize("labels", [["a", 1] * 20, np.array(["a", 1] * 20, object)])
def test_labels_are_texts_or_numbers(labels: Any) -> None:
    for kind in (bl.GLMClassifier, bl.FMClassifier):
        with pytest.raises(ValueError, match=f"^{kind.__name__}: y has texts and numbers, such as"):
            kind().fit(X, labels)
    with pytest.raises(ValueError, match="^GLMClassifier: classes has texts and numbers"):
        bl.GLMClassifier().partial_fit(X, y, classes=["a", 1])
    found = bl.GLMClassifier().fit(X, np.where(y, "a", "b").astype(object))
    assert found.classes_.tolist() == ["a", "b"]


def test_messages_name_the_classifier() -> None:
    with pytest.raises(ValueError, match="^FMClassifier: y has one class only"):
        bl.FMClassifier().fit(X, np.ones(40))
    with pytest.raises(ValueError, match="^FMClassifier: the first call of partial_fit needs"):
        bl.FMClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="^FMClassifier: class_weight='balanced' needs all rows"):
        bl.FMClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])


def test_weights_of_rows_too_small_for_the_default_penalty_are_named() -> None:
    tiny = np.full(40, 1e-42)
    with pytest.raises(ValueError, match="^sample_weight adds up to 4e-41: must be at least 1e-20"):
        bl.GLMClassifier().fit(X, y, sample_weight=tiny)
    with pytest.raises(ValueError, match="class_weight is for classes"):
        bl.FMClassifier(class_weight={0: 1.0}).fit(X, np.column_stack([y, 1 - y]))


@pytest.mark.parametrize("kind", [bl.GLMClassifier, bl.FMClassifier])
@pytest.mark.parametrize(
    ("container", "false", "true"), [(np.asarray, -1, 1), (np.asarray, 1, 2), (sp.csr_array, 0, 5)]
)
def test_labels_are_0_or_1(kind: Any, container: Any, false: int, true: int) -> None:
    """Newton's method would find numbers for others, NaN among them."""
    labels = container(np.where(X[:, :3] > 0.5, true, false))
    rule = f"^{kind.__name__}: y has a label .*, but labels must be 0 or 1"
    with pytest.raises(ValueError, match=rule):
        kind().fit(X, labels)
    with pytest.raises(ValueError, match=rule):
        kind().partial_fit(X, labels)


@crossed(
    loss=["log_loss", "hinge", "squared_hinge"],
    container=[sp.csr_matrix, sp.csr_array, sp.lil_matrix],
)
def test_sparse_labels_are_as_dense_ones(loss: str, container: Any) -> None:
    labels = (X[:, :3] > 0.5).astype(int)
    found, dense = (
        bl.GLMClassifier(loss, alpha=0.01, l1_ratio=0.5, random_state=0).fit(X, y).coef_
        for y in (container(labels), labels)
    )
    np.testing.assert_array_equal(found, dense)


@pytest.mark.parametrize("kind", [bl.GLMRegressor, bl.FMRegressor])
def test_one_weight_is_that_of_all_rows(kind: Any) -> None:
    found, twos = (
        kind(solver="adagrad", max_iter=3, random_state=0).fit(X, X[:, 0], weight).coef_
        for weight in (2.0, np.full(40, 2.0))
    )
    np.testing.assert_array_equal(found, twos)


@pytest.mark.parametrize("weights", [np.ones(7), np.ones((40, 1)), ["a"] * 40])
def test_wrong_weights_of_rows_are_named_where_classes_are_balanced(weights: Any) -> None:
    with pytest.raises(ValueError, match="^sample_weight has "):
        bl.GLMClassifier(alpha=0.1, class_weight="balanced").fit(X, y, sample_weight=weights)
