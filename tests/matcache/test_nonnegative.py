"""Non-negative least squares of many rows, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

from blocklearn.matcache import MatCache, ShapeError, from_array, nonnegative_steps

Array = np.ndarray[Any, Any]


def problem(n: int, k: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """W, pull and G of n rows of data, some of them zeros, and the table [8 x k] they come from."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(8, k)).astype(np.float32)
    H[:, -1] = np.abs(H[:, -1])
    X = np.maximum(rng.normal(size=(n, 8)), 0).astype(np.float32)
    X[n // 2 :: 9] = 0
    return rng.random((n, k), dtype=np.float32), X @ H, H.T @ H, H


def definition(W: Array, pull: Array, G: Array, rounds: int) -> Array:
    W, pull, G = (a.astype(np.float64) for a in (W, pull, G))
    for _ in range(rounds):
        for c in range(W.shape[1]):
            W[:, c] = np.maximum(W[:, c] + (pull[:, c] - W @ G[:, c]) / max(G[c, c], 1e-30), 0)
    return W


def stepped(W: Array, pull: Array, G: Array, rounds: int, threads: int = 1) -> Array:
    with MatCache(threads=threads) as cache:
        made = [from_array(cache, a, name) for a, name in ((W, "W"), (pull, "pull"), (G, "G"))]
        nonnegative_steps(*made, rounds)
        return made[0].numpy().copy()


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("n", [1, 16, 37, 500])
def test_steps_are_those_of_the_definition(n: int, k: int) -> None:
    W, pull, G, _ = problem(n, k)
    if k > 5:
        pull[:, 3], G[3], G[:, 3] = 0, 0, 0  # what nothing depends on stays as it is
    got = stepped(W, pull, G, 3)
    np.testing.assert_allclose(got, definition(W, pull, G, 3), rtol=2e-4, atol=2e-5)
    assert k <= 5 or (got[:, 3] == W[:, 3]).all()
    np.testing.assert_array_equal(stepped(W, pull, G, 0), W)


def test_many_steps_end_at_the_minimum() -> None:
    W, pull, G, H = problem(40, 5)
    X = np.linalg.lstsq(H.T.astype(np.float64), pull.T.astype(np.float64), rcond=None)[0].T
    best = np.array([nnls(H.astype(np.float64), row)[0] for row in X])
    np.testing.assert_allclose(stepped(W, pull, G, 200), best, rtol=1e-3, atol=1e-4)


def test_a_row_has_the_same_bits_among_others() -> None:
    W, pull, G, _ = problem(500, 20)
    whole = stepped(W, pull, G, 5)
    for threads in (2, 8):
        np.testing.assert_array_equal(stepped(W, pull, G, 5, threads), whole)
    some = np.r_[7:24, 431]
    np.testing.assert_array_equal(stepped(W[some], pull[some], G, 5), whole[some])


def test_nan_stays_and_no_rows_are_fine() -> None:
    W, pull, G, _ = problem(20, 5)
    pull[4, 2] = np.nan
    got = stepped(W, pull, G, 2)
    assert np.isnan(got[4]).any() and np.isfinite(np.delete(got, 4, axis=0)).all()
    assert stepped(W[:0], pull[:0], G, 2).shape == (0, 5)


def test_other_shapes_are_refused() -> None:
    W, pull, G, _ = problem(20, 5)
    with pytest.raises(ShapeError, match="nonnegative_steps at .*: W, pull and G are"):
        stepped(W, pull[:, :4], G, 2)
    with pytest.raises(ShapeError, match="must be"):
        stepped(W, pull, G[:4], 2)
