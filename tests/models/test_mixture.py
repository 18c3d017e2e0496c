"""Gaussian mixtures against expectation maximization in plain float64, for hostile shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.training.inputs.row_sample import take_rows
from blocklearn.models import GaussianMixture
from blocklearn.models.inputs import Sample
from blocklearn.models.mixture.start import first_components
from tests.support.often import crossed, first_often

Array = np.ndarray[Any, Any]
FORMS: list[Any] = ["diagonal", "spherical", "full"]
ROWS, COLUMNS, K, BLOCK = 90, 20, 3, 30  # the kernels of tests/models/test_contract.py
WEIGHTS = np.linspace(0.0, 2.0, ROWS).astype(np.float32)


def planted(columns: int = COLUMNS, seed: int = 0, far: float = 3.0) -> tuple[Array, Array]:
    """Rows around K means, and the component of each."""
    rng = np.random.default_rng(seed)
    component = np.arange(ROWS) % K
    X = far * np.eye(K, columns)[component] + rng.normal(size=(ROWS, columns))
    return X.astype(np.float32), component


def trained(model: GaussianMixture, X: Any, weights: Array | None = None, **more: Any) -> Any:
    source = MatrixSource(X, weights=weights, block_rows=BLOCK)
    options: dict[str, Any] = {"passes": 3, "threads": 1, "seed": 3, "verbose": False, **more}
    return bl.Learner(model, source, X, **options).fit()


def matrices(model: GaussianMixture, C: Array) -> Array:
    """Covariances [k x columns x columns] of the parameter `covariances`."""
    if model.covariance == "full":
        d = len(C)
        return C.T.reshape(-1, d, d).astype(np.float64)
    return np.array([np.diag(c) for c in C.T.astype(np.float64)])


def densities(X: Array, pi: Array, M: Array, C: Array, reg: float) -> Array:
    """log w_c N(x; m_c, C_c + reg) [rows x k], in float64."""
    found = []
    for weight, m, c in zip(pi, M, C, strict=True):
        whole = c + reg * np.eye(len(c))
        z = np.linalg.solve(np.linalg.cholesky(whole), (X - m).T)
        log_det = np.linalg.slogdet(2 * np.pi * whole)[1]
        found.append(np.log(weight) - 0.5 * ((z * z).sum(axis=0) + log_det))
    return np.array(found).T


def shares(logs: Array) -> tuple[Array, Array]:
    """Probabilities of the components, and log p of each row."""
    top = logs.max(axis=1, keepdims=True)
    whole = top + np.log(np.exp(logs - top).sum(axis=1, keepdims=True))
    return np.exp(logs - whole), whole[:, 0]


def definition(model: GaussianMixture, X: Array, w: Array, start: Any, passes: int) -> Any:
    """Weights, means and covariances after some passes over blocks in order, in float64."""
    k, d, X = model.components, X.shape[1], X.astype(np.float64)
    pi, M = start.weights, start.means.copy()
    C = np.array(
        [np.diag(start.covariance) if start.covariance.ndim == 1 else start.covariance] * k
    )
    counts = np.zeros(k)
    online = model.update_components == "online"
    size = BLOCK if online else len(X)
    for _ in range(passes):
        for x, v in ((X[i : i + size], w[i : i + size]) for i in range(0, len(X), size)):
            R = shares(densities(x, pi, M, C, model.reg_covar))[0] * v[:, None]
            keep = model.forget ** (len(x) / len(X)) if online else 0.0
            counts = keep * counts + R.sum(axis=0)
            for c in range(k):
                r, z = R[:, c], x - M[c]
                shift, share = r @ z / counts[c], r.sum() / counts[c]
                C[c] += (z * r[:, None]).T @ z / counts[c] - share * C[c] - np.outer(shift, shift)
                M[c] += shift
            if model.covariance != "full":
                C = C * np.eye(d)
            if model.covariance == "spherical":
                C = np.array([np.eye(d) * np.trace(c) / d for c in C])
            pi = counts / counts.sum()
    return pi, M, C


@crossed(sparse=[False, True], way=["batch", "online"], form=FORMS)
def test_passes_are_those_of_the_definition(form: Any, way: Any, sparse: bool) -> None:
    X, _ = planted()
    model = GaussianMixture(components=K, covariance=form, update_components=way, reg_covar=0.1)
    sample = take_rows(MatrixSource(X, weights=WEIGHTS, block_rows=BLOCK), model.needs.sample)
    start = first_components(sample, K, 3, full=form == "full")
    data = sp.csr_array(X) if sparse else X
    found = trained(model, data, WEIGHTS)
    pi, M, C = definition(model, X, WEIGHTS, start, passes=3)
    np.testing.assert_allclose(found.parameter("weights")[0], pi, rtol=1e-3)
    np.testing.assert_allclose(found.parameter("means").T, M, atol=2e-3)
    np.testing.assert_allclose(matrices(model, found.parameter("covariances")), C, atol=3e-3)
    R, logs = shares(densities(X, pi, M, C, 0.1))
    np.testing.assert_allclose(found.predict(data), R, atol=5e-3)
    assert found.progress.scores["log_likelihood"] == pytest.approx(logs.mean(), rel=1e-4)
    assert found.progress.allocations_after_warmup == 0


@pytest.mark.parametrize("form", first_often(FORMS))
def test_a_pass_never_lowers_the_likelihood(form: Any) -> None:
    X, _ = planted(far=1.0)
    scores = []
    for passes in (1, 2, 4, 8):
        model = GaussianMixture(components=K, covariance=form, reg_covar=1e-3)
        scores.append(trained(model, X, passes=passes).progress.scores["log_likelihood"])
    assert scores == sorted(scores) and scores[0] < scores[-1]


@pytest.mark.parametrize("form", first_often(FORMS))
def test_planted_components_are_found(form: Any) -> None:
    X, component = planted(far=12.0)
    found = trained(GaussianMixture(components=K, covariance=form), X).predict(X)
    assert len(set(zip(found.argmax(axis=1).tolist(), component.tolist(), strict=True))) == K
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("form", first_often(FORMS))
def test_rows_far_from_zero_count_as_near_ones(form: Any) -> None:
    X = np.round(planted()[0] * 256) / 256  # the sum is exact
    model = GaussianMixture(components=K, covariance=form, reg_covar=0.1)
    near, far = trained(model, X), trained(model, X + np.float32(4096.0))
    np.testing.assert_allclose(
        far.parameter("covariances"), near.parameter("covariances"), atol=0.02
    )
    scores = [learner.progress.scores["log_likelihood"] for learner in (near, far)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_are_constant_equal_or_huge(form: Any) -> None:
    X, _ = planted(far=12.0)
    X[:, 5] = 7.0
    X[:, 6] = 1000.0 * X[:, 0]
    X[:, 7] = X[:, 6] - X[:, 1]
    learner = trained(GaussianMixture(components=K, covariance=form), X)
    assert np.isfinite(learner.progress.scores["log_likelihood"])
    R = learner.predict(X)
    np.testing.assert_allclose(R.sum(axis=1), 1.0, atol=1e-6)
    assert R.min() >= 0.0


@crossed(X=[np.zeros((5, 4)), np.ones((5, 4)), np.eye(2, 4), np.ones((1, 4))], form=FORMS)
def test_fewer_different_rows_than_components(form: Any, X: Array) -> None:
    model = GaussianMixture(components=K, covariance=form)
    learner = bl.Learner(model, X, X, passes=2, threads=1, verbose=False).fit()
    for name in learner.model.parameters:
        assert np.isfinite(learner.parameter(name)).all(), name
    assert np.isfinite(learner.progress.scores["log_likelihood"])
    assert learner.parameter("weights").sum() == pytest.approx(1.0)


@pytest.mark.parametrize("full", [False, True])
def test_first_components_take_a_weight_as_a_repeated_row(full: bool) -> None:
    X, _ = planted(far=30.0)  # so far that any draw of rows ends in the same clusters
    often = (np.arange(ROWS) % 5).astype(np.float32)
    repeated = np.repeat(X, often.astype(int), axis=0)
    samples = [Sample(X, often), Sample(repeated, np.ones(len(repeated), np.float32))]
    found = [first_components(sample, K, 0, full=full) for sample in samples]
    order = [np.argsort(one.means[:, 0] + 2.0 * one.means[:, 1]) for one in found]
    for name in ("weights", "means"):
        left, right = (getattr(one, name)[by] for one, by in zip(found, order, strict=True))
        np.testing.assert_allclose(left, right, atol=1e-4)
    np.testing.assert_allclose(found[0].covariance, found[1].covariance, atol=1e-3)
    z = repeated - found[1].means[np.argmin(((repeated[:, None] - found[1].means) ** 2).sum(2), 1)]
    within = z.T @ z / len(z)
    np.testing.assert_allclose(
        found[1].covariance, within if full else within.diagonal(), atol=1e-3
    )


def test_training_goes_on_from_a_folder(tmp_path: Any) -> None:
    X, _ = planted()
    learner = trained(GaussianMixture(components=K, reg_covar=0.1), X, passes=30)
    bl.save(learner, tmp_path / "m")
    again = bl.load(tmp_path / "m", threads=1)
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))
    again.fit(MatrixSource(X, block_rows=BLOCK))
    assert np.abs(again.parameter("means") - learner.parameter("means")).max() < 0.1


def test_sums_of_a_pass_are_of_few_blocks() -> None:
    assert GaussianMixture().rows_of_block(2_000) == 500
    assert GaussianMixture(update_components="online").rows_of_block(2_000) == 125


def test_covariances_are_factorized_once_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    factorize = GaussianMixture.factorize
    monkeypatch.setattr(
        GaussianMixture, "factorize", lambda *args: (calls.append(None), factorize(*args))[1]
    )
    X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    for way in ("batch", "online"):
        model = GaussianMixture(components=2, covariance="full", update_components=way)
        model = model.model_copy(update={"recorded": False})
        counted = []
        for passes in (1, 2):
            calls.clear()
            bl.Learner(model, X, block_rows=32, passes=passes, threads=1).fit()
            counted.append(len(calls))
        assert counted[1] - counted[0] == (1 if way == "batch" else 3)
