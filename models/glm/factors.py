"""Factorize the inverse of a Hessian, whatever the units of its columns, and if it is singular."""

from __future__ import annotations

import numpy as np

from blocklearn.matcache.cpu.lapack import cholesky, triangular

from .curves import Array

RIDGES = 0.0, 1e-10, 1e-7, 1e-5, 1e-3  # added to a diagonal of 1
PIVOT = 1e-13  # square of the least diagonal of a factor


def inverse_root(H: Array) -> tuple[Array, bool]:
    """Return M with M' M = H^-1, and whether H is regular; H is overwritten.

    H is scaled to a diagonal of 1. Where it is singular then, the least of a few numbers that makes
    it regular is added to the diagonal.

    >>> M, regular = inverse_root(np.diag([4e-12, 1e12]))
    >>> (1.0 / np.diagonal(M.T @ M)).tolist(), regular
    ([4e-12, 1000000000000.0], True)
    """
    diagonal = np.einsum("ii->i", H)
    diagonal[~(diagonal > 0.0)] = 1.0
    scale = 1.0 / np.sqrt(diagonal)
    H *= scale
    H *= scale[:, None]
    for ridge in RIDGES:
        factor = H.copy()
        np.einsum("ii->i", factor)[:] += ridge
        cholesky(factor)
        if np.diagonal(factor).min() ** 2 > max(ridge / 2.0, PIVOT):
            break
    found = np.diag(scale)
    triangular("solve", factor, found, left=True, lower=True, turned=False)
    return found, ridge == 0.0
