"""Cosine similarity between columns: + weight / 2 sum_{i != j} cos(W_i, W_j)^2.

Pushes components (topics, targets) apart. With u = W_j / ||W_j|| the columns of U, and C = U' U
with its diagonal set to 0, the gradient is 2 weight (U C - U diag(C'C)) / ||W_j||. If W is not
negative, neither are the two parts of the difference; models of positive tables (LDA, NMF) multiply
by them. Differs from BIDMach's CosineSim, where components may become opposite: the square has its
minimum where columns are orthogonal.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, MatCache, colsum, gram, maximum, named, sqrt, total
from blocklearn.matcache.notation.functions import TINY

from .base import Mixin


class CosineSimilarity(Mixin):
    """Penalises similar columns, such as topics; weight 0 only reports.

    It needs the whole table in every step. Optimizers that take gradients therefore refuse it with
    sparse data; LDA and NMF take it with any data. Scores: `cosine`, the root mean square of the
    cosines of all pairs of columns.
    """

    splits: ClassVar[bool] = True
    kind: Literal["cosine-similarity"] = "cosine-similarity"
    weight: float = Field(1e-4, ge=0, description="weight of the term; 0: only report")

    @property
    def smooth(self) -> bool:
        """Whether the weight is not 0."""
        return self.weight > 0

    def attach(self, cache: MatCache, tables: dict[str, Mat]) -> None:
        """Take the parameters, and make the masks of the pairs of their columns."""
        super().attach(cache, tables)
        for T in {W.shape[1] for W in tables.values()}:
            self._pairs(T).set(np.ones((T, T), np.float32) - np.eye(T, dtype=np.float32))

    def gradient(self, W: Mat) -> Any:
        """Return the gradient of the module's formula; 0 for columns of zeros."""
        rising, falling, norm = self._parts(W)
        return 2.0 * self.weight * (rising - falling) / norm

    def slopes(self, W: Mat) -> tuple[Any, Any]:
        """Return the two parts of the gradient, (2 weight U C / norm, 2 weight U diag(C'C) / norm).

        For a W without negative entries.
        """
        rising, falling, norm = self._parts(W)
        scale = 2.0 * self.weight / norm
        return rising * scale, falling * scale

    def _parts(self, W: Mat) -> tuple[Any, Any, Any]:
        """Return U C and U diag(C'C) [features x columns], and the columns' norms."""
        norm = maximum(sqrt(colsum(W * W)), TINY)
        U = (W / norm).mat()
        C = (gram(U) * self._pairs(W.shape[1])).mat()
        return U @ C, U * colsum(C * C), norm

    def scores(self) -> dict[str, Any]:
        """Return how similar columns are."""
        return self.per_table("cosine", self._cosine)

    def _cosine(self, W: Mat) -> Any:
        T = W.shape[1]
        U = W / maximum(sqrt(colsum(W * W)), TINY)
        C = gram(U.mat()) * self._pairs(T)
        return sqrt(total(C * C) / max(1, T * (T - 1)))

    def _pairs(self, T: int) -> Mat:
        """Return a mask [T x T]: 1 for pairs of different columns, 0 on the diagonal.

        Mixins of one cache share it, so each asks for it when it reads it.
        """
        return named(self.cache, f"pairs of {T} columns", (T, T))
