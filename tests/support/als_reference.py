"""ALS in NumPy float64, row by row: what the equations say."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.models import ALS


def ratings(n: int = 60, m: int = 40, seed: int = 0, density: float = 0.3) -> Any:
    """Ratings of 1 to 5 with some structure; user 3 and item 5 have none, user 0 has rated all."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n, 3)) @ rng.normal(size=(3, m)) + rng.normal(size=(n, m))
    known = rng.random((n, m)) < density
    known[0], known[3], known[:, 5] = True, False, False
    values = np.where(known, np.clip(np.round(3.0 + taste), 1, 5), 0.0)
    return sp.csr_array(values.astype(np.float32))


class Reference:
    """The equations of a model's sides, and its objective. K: columns of users and items."""

    def __init__(self, model: ALS, X: Any) -> None:
        self.model, self.X, self.K = model, sp.csr_array(X, dtype=np.float64), model.columns
        self.implicit = model.loss == "implicit"
        self.mean = 0.0 if self.implicit else self.X.data.mean()
        ones = np.ones(self.K, bool)
        self.free = [ones.copy(), ones.copy()]
        if model.has_biases:
            self.free[0][-1] = self.free[1][-2] = False

    def solve(self, X: Any, table: Any, side: int) -> Any:
        """Rows of `side` for the entries X, by numpy.linalg.solve."""
        X, table = sp.csr_array(X, dtype=np.float64), table.astype(np.float64)
        free, out = self.free[side], np.ones((X.shape[0], self.K))
        for i in range(X.shape[0]):
            row = slice(X.indptr[i], X.indptr[i + 1])
            r, V = X.data[row], table[X.indices[row]]
            if self.implicit:
                c = 1.0 + self.model.alpha * np.abs(r)
                A, b = (V.T * (c - 1.0)) @ V + table.T @ table, V.T @ (c * (r > 0))
            else:
                A, b = V.T @ V, V.T @ (r - self.mean)
            A = A + np.diag(self.ridge(len(r), side))
            b = b[free] - A[np.ix_(free, ~free)].sum(axis=1)
            out[i, free] = np.linalg.solve(A[np.ix_(free, free)], b)
        return out

    def ridge(self, count: Any, side: int) -> Any:
        """Return the weight of each square [... x K] in rows of a side with so many entries."""
        model, count = self.model, np.maximum(count, 1.0)
        factors = model.row_reg + model.reg * (count if model.weighted else np.ones_like(count))
        weights = np.repeat(np.asarray(factors)[..., None], self.K, axis=-1)
        if model.bias_reg is not None:
            weights[..., self.K - 2 + side] = model.bias_reg
        return weights

    def objective(self, users: Any, items: Any) -> float:
        """Loss and penalties of all."""
        users, items = users.astype(np.float64), items.astype(np.float64)
        P = self.mean + users @ items.T
        if self.implicit:
            R = self.X.toarray()
            loss = ((1.0 + self.model.alpha * np.abs(R)) * ((R > 0) - P) ** 2).sum()
        else:
            rows, columns = self.X.tocoo().coords
            loss = ((self.X.data - P[rows, columns]) ** 2).sum()
        counts = np.diff(self.X.indptr), np.diff(self.X.tocsc().indptr)
        for side, (rows, count, free) in enumerate(
            zip((users, items), counts, self.free, strict=True)
        ):
            loss += (self.ridge(count, side) * rows**2)[:, free].sum()
        return float(loss)
