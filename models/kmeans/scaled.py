"""Centres of which a block changes only the rows that occur in it.

A step c <- a c + s g, where g sums the rows that are nearest to a centre, shrinks all of the
centre. So the factors a are kept apart: the centre is `scales * centres`, and a step adds g times
s / scales to the columns of the data that occur. Squared lengths follow from products with the rows
of the block, of which the new centre c' has g.c' = a g.c + s g.g:

    c'.c' = a^2 c.c + 2 a s g.c + s^2 g.g = a^2 c.c + s (a g.c + g.c').
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, Matrix, Row, Rows, colsum, maximum, sqrt
from blocklearn.matcache.notation.functions import TINY

from ..base import Model
from ..scaled_rows import ScaledRows

LEAST = 2.0**-24  # of a factor: less of the old centre is less than the rounding of the new one


class ScaledCentres(ScaledRows):
    """The scales and squared lengths of centres [columns x k].

    scales: [1 x k]. squares: [1 x k], of `scales * centres`; these are the `sums`.
    """

    def __init__(self, model: Model, centres: Mat) -> None:
        """Make the state: centres are as they are."""
        k = centres.shape[1]
        self._centres, self._elsewhere = centres, model.setting.elsewhere
        self._settled = -1  # the version of the scales when they were last 1
        self.scales = model.parameter("scales", 1, k, 1.0, merge="same", saved=False)
        self.squares = model.parameter("squares", 1, k, merge="same", saved=False)
        self.sums = self.squares
        self.measure()

    def products(self, X: Matrix) -> Mat:
        """Return x.c of every centre [rows x k]."""
        found: Mat = ((X @ self._centres) * self.scales).mat()
        return found

    def step(self, X: Matrix, near: Rows, share: Row, pace: Row, *, directions: bool) -> None:
        """Set every centre to `share` times itself, plus `pace` times its rows.

        near: [rows x k], the weight of each row in its centre.
        directions: whether centres then get length 1.
        """
        C, scales, squares = self._centres, self.scales, self.squares
        a = maximum(share, LEAST).mat()
        before = (a * colsum(near * self.products(X))).mat()
        scales <<= scales * a
        C += X.T @ (near * (pace / scales)).mat()
        after = colsum(near * self.products(X))
        squares <<= a * a * squares + pace * (before + after)
        if directions:
            length = maximum(sqrt(maximum(squares, 0.0)), TINY).mat()
            scales <<= scales / length
            squares <<= squares / (length * length)

    @property
    def scaled(self) -> bool:
        """Whether centres are not exact. The scales are read only if they have changed."""
        unchanged = self.scales.slot.version == self._settled
        return not unchanged and bool((self.scales.numpy() != 1.0).any())

    def settle(self) -> None:
        """Make the centres exact."""
        self._centres <<= self._centres * self.scales
        self.scales <<= 1.0
        self._settled = self.scales.slot.version
        self.measure()

    def measure(self) -> None:
        """Compute the squared lengths of exact centres, unless their rows lie elsewhere."""
        self.known = not self._elsewhere
        if self.known:
            self.squares <<= colsum(self._centres * self._centres)

    def terms(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return squares, with the bits of `measure`."""
        squares: NDArray[np.float32] = rows * rows
        return squares
