"""Factorize the inverse of a Hessian, whatever the units of its columns, and if it is singular."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from blocklearn.matcache.cpu.algebra.lapack import cholesky, triangular

from ..sums.curves import Array

RIDGES = 0.0, 1e-10, 1e-7, 1e-5, 1e-3  # added to a diagonal of 1
PIVOT = 1e-13  # square of the least diagonal of a factor


class Factor(NamedTuple):
    """C C' = scale H scale, about; regular: H is not singular.

    H is scaled to a diagonal of 1. Where it is singular then, the least of a few numbers that makes
    it regular is added to the diagonal.
    """

    C: Array
    scale: Array
    regular: bool

    @classmethod
    def of(cls, H: Array) -> Factor:
        """Return the factor of H, which is overwritten."""
        diagonal = np.einsum("ii->i", H)
        diagonal[~(diagonal > 0.0)] = 1.0
        scale = 1.0 / np.sqrt(diagonal)
        H *= scale
        H *= scale[:, None]
        for ridge in RIDGES:
            C = H.copy()
            np.einsum("ii->i", C)[:] += ridge
            cholesky(C)
            if np.diagonal(C).min() ** 2 > max(ridge / 2.0, PIVOT):
                break
        return cls(C, scale, ridge == 0.0)

    def solved(self, G: Array) -> Array:
        """Return H^-1 G, for a G [rows x columns]."""
        found = self.scale[:, None] * G
        triangular("solve", self.C, found, left=True, lower=True, turned=False)
        triangular("solve", self.C, found, left=True, lower=False, turned=True)
        found *= self.scale[:, None]
        return found


def inverse_root(H: Array) -> tuple[Array, bool]:
    """Return M with M' M = H^-1, or near it, and whether H is regular; H is overwritten.

    >>> M, regular = inverse_root(np.diag([4e-12, 1e12]))
    >>> (1.0 / np.diagonal(M.T @ M)).tolist(), regular
    ([4e-12, 1000000000000.0], True)
    """
    C, scale, regular = Factor.of(H)
    found = np.diag(scale)
    triangular("solve", C, found, left=True, lower=True, turned=False)
    return found, regular
