"""ALS where the data say nothing: rows and columns without entries, and no regularisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import MatCache, from_array, from_sparse, solve_rows
from blocklearn.matcache.cuda import Cuda
from blocklearn.models import ALS
from tests.support.cuda_device import HostDriver
from tests.support.model_variants import OneSided

RNG = np.random.default_rng(0)


def ratings() -> Any:
    """60 users and 40 items; user 11 and item 7 have no entries."""
    X = (1 + 4 * RNG.random((60, 40))) * (RNG.random((60, 40)) < 0.15)
    X[11] = X[:, 7] = 0
    return sp.csr_array(X.astype(np.float32))


def factors(found: Any, model: ALS) -> Any:
    """Without the number that is always 1."""
    return found if model.loss == "implicit" else np.where(found == 1.0, 0.0, found)


@pytest.mark.parametrize(
    ("reg", "loss", "solver", "sides"),
    [
        (0.05, "explicit", "cg", 2),
        (0.0, "explicit", "cg", 2),
        (0.0, "explicit", "cholesky", 1),
        (0.0, "implicit", "cg", 2),
    ],
)
def test_rows_without_entries_are_zeros(reg: float, loss: Any, solver: Any, sides: int) -> None:
    X = ratings()
    model = ALS(loss=loss, solver=solver, reg=reg, rank=4)
    data = X if sides == 2 else OneSided(MatrixSource(X, block_rows=16))
    learner = bl.Learner(model, train=data, eval=X, passes=2, block_rows=16, threads=1).fit()
    users, items = learner.row_state("users"), learner.row_state("items")
    assert np.isfinite(users).all() and np.isfinite(items).all()
    assert not factors(users[11], model).any() and not factors(items[7], model).any()
    assert not factors(learner.predict(sp.csr_array((2, 40), dtype=np.float32)), model).any()
    assert learner.progress.scores["rmse"] < 1.0


def test_the_estimator_takes_no_regularization() -> None:
    found = bl.ALS(n_components=2, regularization=0.0, max_iter=2).fit(ratings())
    assert np.isfinite(found.item_factors_).all()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("masked", [False, True])
def test_numbers_that_no_equation_determines_are_zero(device: str, masked: bool) -> None:
    """Row 0 has no entries, row 1 one, row 2 two that are the same, row 3 four that are not."""
    k, table = 4, RNG.normal(size=(6, 4)).astype(np.float32)
    table[2] = table[1]
    W = np.zeros((4, 6), np.float32)
    W[1, 0] = W[2, 1] = W[2, 2] = 1.0
    W[3, :] = 2.0
    x = RNG.normal(size=(4, k)).astype(np.float32)
    free = np.array([[1, 1, 1, 0]], np.float32) if masked else np.ones((1, k), np.float32)
    right = (W * (x @ table.T)) @ table
    right = np.where(free > 0, right, x)
    backend: Any = Cuda(HostDriver()) if device == "cuda" else None
    with MatCache(backend=backend) as cache:
        mats = [from_array(cache, a) for a in (table, np.zeros((4, 1), np.float32), right)]
        options = {"free": from_array(cache, free)} if masked else {}
        found = solve_rows(from_sparse(cache, W), *mats, **options).numpy()
    solved = free[0] > 0
    assert not found[0, solved].any()
    for row in (1, 2):  # one equation is left: of one number
        assert np.count_nonzero(found[row, solved]) == 1
        fitted = (found[row] @ table[row - 1], x[row] @ table[row - 1])
        assert fitted[0] == pytest.approx(fitted[1], rel=1e-4)
    np.testing.assert_allclose(found[3], x[3], rtol=1e-3, atol=1e-4)
