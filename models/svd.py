"""Truncated singular value decomposition, and principal components, of blocks of rows.

Each pass multiplies a basis by X.T X: Halko, Martinsson, Tropp, *Finding structure with
randomness*, SIAM Review 53 (2011). The result is that of Nyström: Tropp, Yurtsever, Udell, Cevher,
*Fixed-rank approximation of a positive-semidefinite matrix from streaming data*, NIPS 2017. What
is multiplied is X.T X - shift I, in which large directions stand out more: Feng, Yu, Xie, Tang,
*Algorithm 1043: faster randomized SVD with dynamic shifts*, ACM TOMS 50 (2024).
Differs from scikit-learn's randomized_svd: it multiplies by X and X.T in one visit of the data, so
a pass stands for one of its iterations, and X need not be in memory. The shift saves passes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import (
    Mat,
    Matrix,
    Rows,
    Table,
    colmax,
    eigh,
    from_array,
    gram,
    maximum,
    minimum,
    qr,
    rowsum,
    sqrt,
    total,
    where,
)
from blocklearn.matcache.notation.functions import TINY

from .base import Model
from .block_size import BlockSize
from .errors import ModelConfigError
from .inputs import Block, Randomness, Shapes
from .score import Score, Sum

LEAST = float(np.finfo(np.float32).eps)  # variance to divide by, as in scikit-learn
NOISE = 1e-7  # of the largest square: smaller ones are errors of float32
FAR = 1e30  # squared distance of the mean from the origin of sums, in deviations of the rows


def positive(values: Mat) -> Mat:
    """Return what is positive, and 0 for the rest."""
    found: Mat = maximum(values, 0.0)
    return found


class SVD(Model):
    """Finds the directions in which rows are largest: X [rows x columns] ~ Z @ V.T.

    The parameter `components` [columns x k] is V, orthonormal, largest first; `singular_values`
    [1 x k] are the lengths of the columns of Z = X @ V. If `center`, the mean of the rows is
    subtracted, as in principal component analysis; sparse rows stay sparse.

    Of each direction, the entry of the largest size is positive. Each pass makes the basis more
    exact; one already gives a result. If `exact`, training ends when a pass has nothing to add.
    Rows count by their weights.
    """

    scores_new_rows: ClassVar[bool] = True
    steps_by_pass: ClassVar[bool] = True
    block_size: ClassVar[BlockSize] = BlockSize(8, most=8192)  # it does not change the result
    kind: Literal["svd"] = "svd"
    components: int = Field(20, ge=1, description="number of directions, k")
    center: bool = Field(
        False, description="subtract the mean of the rows: principal component analysis"
    )
    whiten: bool = Field(
        False, description="divide predicted coordinates by their standard deviations"
    )
    oversampling: int = Field(
        10, ge=0, description="further directions while training: more need fewer passes"
    )
    exact: bool = Field(
        False,
        description="sum up X.T X itself [columns x columns], and find its directions: one pass, "
        "or two where means are far from 0. For few columns, 1,000 or so",
    )

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the directions, a random basis, and the sums of a pass."""
        d, k = shapes.columns, self.components
        if k > d:
            raise ModelConfigError(
                f"SVD: components={k}, but the data have {d} columns; at most {d} are possible."
            )
        self.q = d if self.exact else min(k + self.oversampling, d)
        self.shifted = self.center and shapes.dense
        self.V = self.parameter("components", d, k)
        self.lengths = self.parameter("singular_values", 1, k)
        self.means = self.parameter("means", d, 1)
        self.squares = self.parameter("sum_of_squares", 1, 1)
        self.rows = self.parameter("rows", 1, 1)
        if self.exact:
            self.offset = self.parameter("offset", 1, 1, FAR, saved=False)  # of the sums
        else:
            self.basis = self.parameter("basis", d, self.q, rng.normal(d, self.q), saved=False)
        self.products = self.statistic("products", d, self.q, np.float64)  # X.T X, or X.T X basis
        self.sums = self.statistic("sums", d, 1, np.float64)
        self.square = self.statistic("square", 1, 1, np.float64)
        self.weight = self.statistic("weight", 1, 1, np.float64)
        picks = np.eye(self.q)[:, ::-1]  # eigenvalues rise
        self.largest_first = from_array(self.cache, picks, "the largest first")

    def update(self, block: Block) -> None:
        """Add the block to the sums of the pass."""
        Z, weights = self.centred(block.X), block.weights
        if self.exact:
            self.products <<= self.products + gram(Z * sqrt(weights))
        else:
            self.products <<= self.products + Z.T @ ((Z @ self.basis) * weights)
        self.sums <<= self.sums + Z.T @ weights
        self.square <<= self.square + total(rowsum(Z * Z) * weights)
        self.weight <<= self.weight + total(weights)

    def end_pass(self) -> None:
        """Set directions and lengths, and the next basis, from the sums of the pass."""
        weight = maximum(self.weight, TINY)
        mean = self.sums / weight
        self.means <<= self.means + mean if self.shifted else mean
        self.squares <<= self.square
        self.rows <<= self.weight
        if self.center:
            row = self.sums.T if self.exact else self.sums.T @ self.basis
            self.products <<= self.products - self.sums @ (row / weight)
            apart = (total(self.sums * self.sums) / weight).mat()
            self.squares <<= maximum(self.square - apart, 0.0)
        if self.exact:
            self.offset <<= 0.0
            if self.shifted:
                self.offset <<= minimum(apart / maximum(self.squares, TINY), FAR)
        values, vectors = self.of_gram() if self.exact else self.of_products()
        V = vectors[:, : self.components].mat()
        self.V <<= V * where(colmax(V) >= colmax(-V), 1.0, -1.0)
        self.lengths <<= sqrt(values)[:, : self.components]
        for sums in (self.products, self.sums, self.square, self.weight):
            sums <<= 0.0

    def of_gram(self) -> tuple[Mat, Mat]:
        """Return eigenvalues [1 x columns] and eigenvectors of X.T X, the largest first."""
        values, vectors = eigh(self.products)
        real = where(values > NOISE * total(positive(values)), values, 0.0)
        return (real @ self.largest_first).mat(), (vectors @ self.largest_first).mat()

    def of_products(self) -> tuple[Mat, Mat]:
        """Return the same of the next basis [1 x q] and [columns x q], which this also sets."""
        basis = self.basis
        inner, overlaps = (basis.T @ self.products).mat(), gram(basis).mat()
        shift = self.shift(inner, overlaps)
        self.products <<= self.products - shift * basis
        values, vectors = eigh(inner - shift * overlaps)
        real = values > NOISE * total(positive(values)) + TINY
        root = where(real, 1.0 / sqrt(where(real, values, 1.0)), 0.0)
        Q, R = qr(self.products @ (vectors * root))
        values, turn = eigh(R @ R.T)
        self.basis <<= Q @ (turn @ self.largest_first)
        return ((positive(values) + shift) @ self.largest_first).mat(), self.basis

    @property
    def converged(self) -> bool:
        """Whether X.T X is known: rows were summed up near enough to their mean to keep digits."""
        return self.exact and bool(self.offset.numpy()[0, 0] <= 1.0)

    def shift(self, inner: Table, overlaps: Table) -> Mat:
        """Return half of a number that no eigenvalue of X.T X in the basis B is below [1 x 1].

        Directions outside of the basis then count less, by magnitude, than those inside.

        inner, overlaps: B.T X.T X B and B.T B [q x q].
        """
        values = eigh(inner).values
        least, length = values[:, :1], colmax(rowsum(maximum(overlaps, -overlaps)))
        enough = least > NOISE * total(positive(values)) + TINY
        found: Mat = where(enough, 0.5 * least / maximum(length, TINY), 0.0).mat()
        return found

    def centred(self, X: Matrix) -> Matrix:
        """Return dense rows without the means of the pass before; others as they are.

        Sums of squares around the means keep digits that those around 0 lose.
        """
        return (X - self.means.T.mat()).mat() if self.center and X.pattern is None else X

    def coordinates(self, Z: Matrix) -> Rows:
        """Return the rows in the directions [rows x k]. Z: `centred`."""
        found = Z @ self.V
        return found - self.means.T @ self.V if self.center and Z.pattern is not None else found

    def score(self, block: Block) -> Score:
        """Score what the directions leave of new rows.

        rmse: root of the mean of the squared error over all entries.
        explained: 1 - (squared error) / (square of the rows, or of their distances from the mean).
        """
        X, m, weights = self.centred(block.X), self.means, block.weights
        found = self.coordinates(X).mat()
        length = rowsum(X * X)
        if self.center and X.pattern is not None:
            length = length - 2.0 * (X @ m) + total(m * m)
        kept, whole = total(weights * rowsum(found * found)), total(weights * length)
        entries = total(weights * float(self.V.shape[0]))
        return {
            "rmse": Sum(maximum(whole - kept, 0.0), entries, "root"),
            "explained": Sum(kept, whole),
        }

    def predict(self, block: Block) -> Mat:
        """Return the rows in the directions [rows x k]."""
        found: Mat = self.coordinates(self.centred(block.X)).mat()
        if not self.whiten:
            return found
        variances = self.lengths * self.lengths / maximum(self.rows - 1.0, 1.0)
        white: Mat = (found / sqrt(maximum(variances, LEAST))).mat()
        return white
