"""Cosine similarity between columns: + weight / 2 sum_{i != j} cos(W_i, W_j)^2.

Pushes components (topics, targets) apart. With u = W_j / ||W_j|| the columns of U, and C = U' U
with its diagonal set to 0, the gradient is 2 weight (U C - U diag(C'C)) / ||W_j||. Differs from
BIDMach's CosineSim, where components may become opposite: the square has its minimum where columns
are orthogonal.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, MatCache, colsum, from_array, gram, maximum, sqrt, total

from .base import Mixin

TINY = 1e-30


class CosineSimilarity(Mixin):
    """Penalises similar columns; weight 0 only reports.

    It needs the whole table in every step, so it works with dense data only. Scores: `cosine`, the
    root mean square of the cosines of all pairs of columns.
    """

    kind: Literal["cosine-similarity"] = "cosine-similarity"
    weight: float = Field(1e-4, ge=0, description="weight of the term; 0: only report")

    @property
    def smooth(self) -> bool:
        """Whether the weight is not 0."""
        return self.weight > 0

    def attach(self, cache: MatCache, tables: dict[str, Mat]) -> None:
        """Take the parameters, and make the masks of the pairs of their columns."""
        super().attach(cache, tables)
        self._pairs = {T: _pairs(cache, T) for T in {W.shape[1] for W in tables.values()}}

    def gradient(self, W: Mat) -> Any:
        """Return the gradient of the module's formula; 0 for columns of zeros."""
        norm = maximum(sqrt(colsum(W * W)), TINY)
        U = (W / norm).mat()
        C = (gram(U) * self._pairs[W.shape[1]]).mat()
        return 2.0 * self.weight * ((U @ C) - U * colsum(C * C)) / norm

    def scores(self) -> dict[str, Any]:
        """Return how similar columns are."""
        return self.per_table("cosine", self._cosine)

    def _cosine(self, W: Mat) -> Any:
        T = W.shape[1]
        U = W / maximum(sqrt(colsum(W * W)), TINY)
        C = gram(U.mat()) * self._pairs[T]
        return sqrt(total(C * C) / max(1, T * (T - 1)))


def _pairs(cache: MatCache, columns: int) -> Mat:
    """Return a mask, 1 for pairs of different columns, 0 on the diagonal."""
    mask = np.ones((columns, columns), np.float32) - np.eye(columns, dtype=np.float32)
    return from_array(cache, mask, f"pairs of {columns} columns")
