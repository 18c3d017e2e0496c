"""The row-wise programs of ALS against their definition: the same text in NumPy float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, from_array, from_sparse
from blocklearn.matcache.program.records import flatten, rebuild
from blocklearn.models.als import rows as als_rows
from blocklearn.models.als.rows import Feedback, LeastSquares, Ridge
from tests.support.als_reference import ratings


@pytest.fixture(scope="module")
def cache() -> Iterator[MatCache]:
    with MatCache(threads=2) as made:
        yield made


def agree(cache: MatCache, function: Any, *args: Any) -> None:
    """What a program returns and what it assigns, in float64, is what the reference has."""
    leaves, structure = flatten(args)
    mats = [
        from_sparse(cache, a)
        if sp.issparse(a)
        else from_array(cache, a)
        if isinstance(a, np.ndarray)
        else a
        for a in leaves
    ]
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in leaves]
    got = function(*rebuild(structure, tuple(mats)))
    wanted = function.reference(*rebuild(structure, tuple(copies)))
    if got is not None:
        for one, other in zip(got, wanted, strict=True):
            other = other.data if sp.issparse(other) else other
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-8, atol=1e-8)
    for mat, after in zip(mats, copies, strict=True):
        if isinstance(after, np.ndarray):
            np.testing.assert_allclose(mat.numpy(), after, rtol=1e-8, atol=1e-8)


OFTEN = [(1, None, False), (5, 2.0, True), (30, None, False)]


@pytest.mark.parametrize(
    ("k", "alpha", "own"),
    [
        pytest.param(k, alpha, own, marks=[pytest.mark.slow] * ((k, alpha, own) not in OFTEN))
        for k in (1, 5, 30)
        for alpha in (None, 2.0)
        for own in (False, True)
    ],
)
def test_programs_match_their_definition(
    cache: MatCache, k: int, alpha: float | None, own: bool
) -> None:
    rng = np.random.default_rng(k)
    R = ratings().astype(np.float64)
    u, table = 0.3 * rng.normal(size=(60, k)), 0.3 * rng.normal(size=(40, k))
    free = np.ones((1, k))
    free[0, -1] = float(k == 1)
    masked = None if alpha else free
    typical = rng.uniform(0.1, 1.0, (1, k))
    G, diagonal = (table.T @ table, (table**2).sum(axis=0)[None]) if alpha else (None, None)
    feedback = Feedback(np.full((1, 1), 3.2), alpha)
    biases = np.zeros((1, k))
    biases[0, 0] = 0.7
    ridge = Ridge(masked, 0.2, 0.1, (1.0 - biases, biases) if own else None)
    equations = LeastSquares(R, table, G, ridge, feedback)
    agree(cache, als_rows.conjugate_gradients, equations, u, typical, diagonal, 3, 0.0)
    agree(cache, als_rows.conjugate_gradients, equations, u, typical, diagonal, 9, 1e-2)
    agree(cache, als_rows.normal_equations, equations, u)
    norms = (table**2).sum(axis=1)[:, None]
    agree(cache, als_rows.losses, equations, u, norms)
    agree(cache, als_rows.parts, R, feedback)
