"""Singular values and directions against NumPy's, for hostile shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import SVD
from tests.support.often import crossed, first_often, rarely


def falling(rows: int, columns: int, seed: int = 0) -> Any:
    """Rows whose singular values fall by half; the last third of the rows is empty."""
    rng = np.random.default_rng(seed)
    r = min(rows, columns)
    X = rng.normal(size=(rows, r)) * 0.5 ** np.arange(r) @ rng.normal(size=(r, columns))
    X[-(rows // 3) :] = 0.0
    X[0] += 1.0
    return X.astype(np.float32)


def trained(
    X: Any, k: int, center: bool, passes: int = 4, weights: Any = None, exact: bool = False
) -> bl.Learner:
    data = X if weights is None else (X, np.zeros((X.shape[0], 1)), weights)
    model = SVD(components=k, center=center, exact=exact)
    return bl.Learner(model, data, passes=passes, block_rows=32, threads=1, verbose=False).fit()


@crossed(exact=[False, True], center=[False, True], sparse=[False, True])
def test_directions_are_numpys(sparse: bool, center: bool, exact: bool) -> None:
    X = falling(90, 20)
    given = sp.csr_array(X) if sparse else X
    learner = trained(given, 4, center, exact=exact)
    assert not exact or learner.progress.pass_ == 1
    moved = (X - X.mean(axis=0) * center).astype(np.float64)
    _, lengths, Vt = np.linalg.svd(moved, full_matrices=False)
    V = learner.parameter("components").astype(np.float64)
    np.testing.assert_allclose(learner.parameter("singular_values")[0], lengths[:4], rtol=1e-5)
    np.testing.assert_allclose(np.abs((Vt[:4] @ V).diagonal()), 1.0, atol=1e-5)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-6)
    kept = (lengths[:4] ** 2).sum() / (lengths**2).sum()
    assert learner.evaluate(given)["explained"] == pytest.approx(kept, rel=1e-5)
    np.testing.assert_allclose(learner.predict(given), moved @ V, atol=1e-4)


@pytest.mark.parametrize("exact", [False, True])
def test_principal_components_of_rows_far_from_0(exact: bool) -> None:
    """Their squares have lost the digits of what differs: 10,000^2 has a unit of 8 in float32."""
    X = falling(90, 20) + np.float32(1e4)
    learner = trained(X, 4, center=True, exact=exact)
    assert not exact or learner.progress.pass_ == 2
    moved = X - X.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.svd(moved, compute_uv=False)
    np.testing.assert_allclose(learner.parameter("singular_values")[0], lengths[:4], rtol=1e-3)
    kept = (lengths[:4] ** 2).sum() / (lengths**2).sum()
    assert learner.evaluate(X)["explained"] == pytest.approx(kept, rel=1e-3)


@pytest.mark.parametrize(
    "k, rows, exact",
    [(20, 40, False), (5, 3, True), (3, 1, False), *rarely((1, 40, True), (3, 1, True))],
)
def test_more_directions_than_the_data_have(k: int, rows: int, exact: bool) -> None:
    X = falling(rows, 20)
    learner = trained(X, k, center=False, exact=exact)
    lengths = np.zeros(k)
    exact = np.linalg.svd(X.astype(np.float64), compute_uv=False)[:k]
    lengths[: len(exact)] = exact
    found = learner.parameter("singular_values")[0]
    np.testing.assert_allclose(found, lengths, atol=1e-3 * lengths[0])
    V = learner.parameter("components")
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-5)


@pytest.mark.parametrize("exact", [False, True])
def test_nothing_has_no_length(exact: bool) -> None:
    learner = trained(np.zeros((40, 6), np.float32), 2, center=True, exact=exact)
    assert (learner.parameter("singular_values") == 0.0).all()
    assert np.isfinite(learner.parameter("components")).all()


@pytest.mark.parametrize("exact", first_often([False, True]))
def test_a_weight_is_a_repeated_row(exact: bool) -> None:
    X, often = falling(60, 12), np.arange(60) % 3
    weighed = trained(X, 3, center=True, weights=often.astype(np.float32), exact=exact)
    repeated = trained(np.repeat(X, often, axis=0), 3, center=True, exact=exact)
    for name in ("singular_values", "means", "rows", "sum_of_squares"):
        np.testing.assert_allclose(weighed.parameter(name), repeated.parameter(name), rtol=1e-4)


def test_more_directions_than_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="components=9, but the data have 6 columns; at most 6"):
        trained(falling(20, 6), 9, center=False)
