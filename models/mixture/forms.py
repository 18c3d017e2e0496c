"""What depends on the form of the covariances of a mixture.

Sums over rows are those of differences from the present means: nothing large cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blocklearn.matcache import (
    Mat,
    MatCache,
    Row,
    Rows,
    Table,
    cholesky,
    colsum,
    concatenate,
    diagonal,
    from_array,
    gram,
    log,
    lower,
    maximum,
    mean,
    rowsum,
    solve,
    sqrt,
)
from blocklearn.matcache.notation.functions import TINY

from ..kmeans.start import Array

RIDGE = 1e-6  # of a variance, added to it: a matrix of float32 sums may else not be definite


class Diagonal:
    """Covariances without correlations.

    covariances, factors: [columns x k], variances and 1 / standard deviation.
    """

    def __init__(self, columns: int, components: int, *, equal: bool) -> None:
        """equal: whether all columns of a component have the same variance."""
        self.shape, self.equal = (columns, components), equal

    def distances(self, Z: Table, M: Table, P: Mat) -> Rows:
        """Return (z - m)' C^-1 (z - m) of rows and components [rows x k].

        Z: [rows x columns]. M: [columns x k], means. P: factors.
        """
        Q = P * P
        return (Z * Z) @ Q - 2.0 * (Z @ (M * Q)) + colsum(M * M * Q)

    def add(self, S: Mat, Z: Table, M: Table, R: Rows, n: Row) -> None:
        """Add to S the sums of r (z - m)^2. n: [1 x k], colsum(R)."""
        S <<= S + (Z * Z).mat().T @ R - 2.0 * M * (Z.T @ R) + n * M * M

    def move(self, C: Mat, S: Mat, N: Row, share: Row, shift: Table) -> Sequence[Mat]:
        """Mix C with the mean square S / N around the old mean, which then moves by `shift`.

        Returns `parts` of C.
        """
        new = maximum(C + S / N - share * C - shift * shift, 0.0)
        C <<= mean(new, 0) if self.equal else new
        return self.parts(C)

    def parts(self, C: Mat) -> Sequence[Mat]:
        """Return what is factorized by itself: all of C."""
        return [C]

    def begin(self, C: Mat, first: Array) -> Sequence[Mat]:
        """Give all components the first variances [columns]. Returns `parts` of C."""
        C.set(np.tile(first[:, None], self.shape[1]))
        return [C]

    def factorize(self, parts: Sequence[Mat], P: Mat, logs: Mat, ridge: float) -> None:
        """Set the factors of C + ridge, and the logarithms of their determinants [1 x k]."""
        (C,) = parts
        P <<= 1.0 / sqrt(maximum(C + ridge, TINY))
        logs <<= colsum(log(P))


class Full:
    """Covariances with correlations.

    covariances, factors: [columns x (k columns)], a matrix for each component, side by side. The
    factors are inverses of the Cholesky factors, transposed: upper triangular.
    """

    def __init__(self, identity: Mat, components: int) -> None:
        """identity: [columns x columns]."""
        columns = identity.shape[0]
        self.identity, self.shape = identity, (columns, columns * components)
        self.places = [slice(c * columns, (c + 1) * columns) for c in range(components)]

    def distances(self, Z: Table, M: Table, P: Mat) -> Rows:
        """Return (z - m)' C^-1 (z - m) of rows and components [rows x k]: see `Diagonal`."""
        means, found = M.T.mat(), []
        for c, part in enumerate(self.places):
            factor = P[:, part].mat()
            apart = Z @ factor - (means[c] @ factor).mat()
            found.append(rowsum(apart * apart))
        return concatenate(found, axis=1)

    def add(self, S: Mat, Z: Table, M: Table, R: Rows, n: Row) -> None:
        """Add to S the sums of r (z - m) (z - m)'."""
        means, roots = M.T.mat(), sqrt(R).mat()
        for c, part in enumerate(self.places):
            S[:, part] += gram((Z - means[c]) * roots[:, c])

    def move(self, C: Mat, S: Table, N: Row, share: Row, shift: Table) -> Sequence[Mat]:
        """Mix C with the mean square S / N around the old mean, which then moves by `shift`.

        Returns `parts` of C.
        """
        steps, parts = shift.T.mat(), []
        for c, part in enumerate(self.places):
            new = C[:, part] * (1.0 - share[:, c]) + S[:, part] / N[:, c]
            parts.append((new - steps[c].T @ steps[c]).mat())
            C[:, part] <<= parts[-1]
        return parts

    def parts(self, C: Mat) -> Sequence[Mat]:
        """Return what is factorized by itself: the matrix of each component."""
        return [C[:, part].mat() for part in self.places]

    def begin(self, C: Mat, first: Array) -> Sequence[Mat]:
        """Give all components the first covariance [columns x columns]. Returns `parts` of C.

        They are one matrix, which is factorized once.
        """
        C.set(np.tile(first, len(self.places)))
        one = from_array(self.identity.cache, first.astype(np.float32), "the first covariance")
        return [one] * len(self.places)

    def factorize(self, parts: Sequence[Mat], P: Mat, logs: Mat, ridge: float) -> None:
        """Set the factors of C + ridge, and the logarithms of their determinants [1 x k]."""
        for c, (C, place) in enumerate(zip(parts, self.places, strict=True)):
            found = C + self.identity * (RIDGE * C + ridge)
            factor = solve(lower(cholesky(found)), self.identity).mat()
            P[:, place] <<= factor.T.mat()
            logs[:, c] <<= rowsum(log(diagonal(factor)))


def form_of(covariance: str, cache: MatCache, columns: int, components: int) -> Diagonal | Full:
    """Return the form: diagonal, spherical or full."""
    if covariance == "full":
        return Full(from_array(cache, np.eye(columns, dtype=np.float32), "identity"), components)
    return Diagonal(columns, components, equal=covariance == "spherical")
