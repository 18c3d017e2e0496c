"""Ratings to measure on, one split for every system, and the quality of factors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

HELD = 0.1
CHUNK = 2**20  # ratings predicted at a time


@dataclass(frozen=True)
class Ratings:
    """Ratings with a part held out.

    train: float32 CSR [users x items], indices ascending; a rating of 0 is stored like any other.
    users, items, ratings: the held-out ratings.
    """

    name: str
    train: Any
    users: Any
    items: Any
    ratings: Any

    def rmse(self, U: Any, V: Any, mean: float) -> tuple[float, float]:
        """Return two root mean squared errors of mean + U V' on the held-out ratings.

        The second one is of predictions clipped to the range of the training ratings.
        """
        low, high = self.train.data.min(), self.train.data.max()
        plain = clipped = 0.0
        for start in range(0, len(self.users), CHUNK):
            part = slice(start, start + CHUNK)
            predicted = mean + np.einsum("nk,nk->n", U[self.users[part]], V[self.items[part]])
            plain += float(((predicted - self.ratings[part]) ** 2).sum())
            clipped += float(((np.clip(predicted, low, high) - self.ratings[part]) ** 2).sum())
        n = len(self.users)
        return round((plain / n) ** 0.5, 5), round((clipped / n) ** 0.5, 5)


def load(path: Path | None, most: int = 0, seed: int = 0) -> Ratings:
    """Return ratings from a file.

    path: .npz with `user`, `item` and `rating`; None: generated ratings.
    most: use only so many; 0: all. seed: of the split.
    """
    if path is None:
        name, (users, items, ratings) = "made, rank 8", made(*(60, 40, 900) if most else MADE)
    else:
        with np.load(path) as file:
            if missing := {"user", "item", "rating"} - set(file.files):
                raise ValueError(f"{path}: no array {min(missing)!r}; it has {file.files}.")
            name = str(path)
            users, items, ratings = file["user"], file["item"], file["rating"]
    if most and most < len(ratings):
        chosen = np.random.RandomState(1).permutation(len(ratings))[:most]
        users, items, ratings, name = users[chosen], items[chosen], ratings[chosen], f"{name}, part"
    users, items = users.astype(np.int64), items.astype(np.int64)
    return split(name, users, items, ratings.astype(np.float32), seed)


def files_in(folder: Path | None) -> list[Path | None]:
    """Return the files FOLDER/NAME/ratings.npz; None, for generated ratings, without a folder."""
    if folder is None:
        return [None]
    found: list[Path | None] = [*sorted(folder.glob("*/ratings.npz"))]
    if not found:
        raise ValueError(f"--data {folder}: no NAME/ratings.npz in it.")
    return found


MADE = 20_000, 8_000, 2_000_000


def made(users: int, items: int, n: int, rank: int = 8, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return at most n generated ratings: Zipf's law, biases, factors, noise of 0.5."""
    rng = np.random.default_rng(seed)

    def zipf(count: int) -> Any:
        weights = 1.0 / (np.arange(count) + 10.0)
        return rng.permutation(count)[rng.choice(count, n, p=weights / weights.sum())]

    pairs = np.unique(zipf(users) * items + zipf(items))
    u, i = pairs // items, pairs % items
    x, y = rng.normal(0, rank**-0.25, (users, rank)), rng.normal(0, rank**-0.25, (items, rank))
    clean = 3.5 + rng.normal(0, 0.3, users)[u] + rng.normal(0, 0.4, items)[i]
    return u, i, clean + np.einsum("nk,nk->n", x[u], y[i]) + rng.normal(0, 0.5, len(u))


def split(name: str, users: Any, items: Any, ratings: Any, seed: int = 0) -> Ratings:
    """Hold out a tenth of the ratings, the same for each seed."""
    order = np.random.RandomState(seed).permutation(len(ratings))
    held = round(HELD * len(ratings))
    test, train = np.sort(order[:held]), np.sort(order[held:])
    entries = ratings[train], (users[train], items[train])
    X = sp.csr_matrix(entries, shape=(int(users.max()) + 1, int(items.max()) + 1))
    X.sort_indices()
    return Ratings(name, X, users[test], items[test], ratings[test])


def objective(X: Any, U: Any, V: Any, alpha: float, reg: float) -> float:
    """Return the implicit loss per stored entry. Hu, Koren, Volinsky (2008), eq. 3.

    The loss is the sum over all users and items of c (p - U V')^2, plus reg times the squares of U
    and V, where c = 1 + alpha |r|, and p = 1 if r > 0, else 0.
    """
    U, V = U.astype(np.float64), V.astype(np.float64)
    everywhere = float(((U.T @ U) * (V.T @ V)).sum())
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    stored = 0.0
    for start in range(0, X.nnz, CHUNK):
        part = slice(start, start + CHUNK)
        r = X.data[part].astype(np.float64)
        predicted = np.einsum("nk,nk->n", U[rows[part]], V[X.indices[part]])
        stored += float(((1 + alpha * abs(r)) * ((r > 0) - predicted) ** 2 - predicted**2).sum())
    penalty = reg * float((U * U).sum() + (V * V).sum())
    return (everywhere + stored + penalty) / X.nnz
