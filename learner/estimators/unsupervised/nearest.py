"""The nearest centres of dense rows in memory, and distances between both, without a learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.matcache import cpu

from ..base import Array
from ..dense_scores import products

SHORT = 1e-12  # numbers whose squares lose digits in float32


def nearest(X: Any, centres: Array, threads: int, *, directions: bool) -> Array:
    """Return the number of the nearest centre of each row, int32 [n], the first of several.

    X: numbers [n x d].
    centres: float32 [k x d].
    threads: that may take parts of the rows.
    directions: whether centres have length 1, and the smallest angle counts.

    Distances are differences of squares, and numbers around 0 keep more digits of them. So rows and
    centres are taken without the mean of the centres.
    """
    found, half = np.empty(len(X), np.int32), np.zeros(len(centres), np.float32)
    origin = None
    if not directions:
        origin = centres.mean(axis=0, dtype=np.float64).astype(np.float32)
        centres = centres - origin
        half[:] = 0.5 * np.einsum("kd,kd->k", centres, centres, dtype=np.float64)

    def number(first: int, scores: Array) -> None:
        cpu.number_nearest(scores, half, found[first : first + len(scores)])

    products(X, np.ascontiguousarray(centres.T), number, threads, origin)
    return found


def distances(X: Any, centres: Array, threads: int) -> Array:
    """Return the distances of rows from centres, float32 [n x k]; see `cosine_distances`.

    Squares and their differences are float64: rows may be near a centre, and far from 0.
    """
    found = np.empty((len(X), len(centres)), np.float32)
    origin = centres.mean(axis=0, dtype=np.float64)
    moved = centres - origin
    squares = np.einsum("kd,kd->k", moved, moved)

    def keep(first: int, scores: Array) -> None:
        part = slice(first, first + len(scores))
        rows = X[part] - origin
        scores *= -2.0
        scores += squares
        scores += np.einsum("nd,nd->n", rows, rows)[:, None]
        found[part] = np.sqrt(np.maximum(scores, 0.0, out=scores), out=scores)

    products(X, np.ascontiguousarray(moved.T), keep, threads, origin)
    return found


def cosine_distances(X: Any, centres: Array, threads: int) -> Array:
    """Return 1 - cosine of the angles of rows and centres, float32 [n x k].

    X, centres, threads: as for `nearest`. The bits of a row do not depend on the others.
    """
    found = np.empty((len(X), len(centres)), np.float32)

    def keep(first: int, scores: Array) -> None:
        np.subtract(1.0, scores, out=found[first : first + len(scores)])

    products(unit_rows(X), np.ascontiguousarray(unit_rows(centres).T), keep, threads)
    return np.clip(found, 0.0, 2.0, out=found)


def unit_rows(X: Array) -> Array:
    """Return rows of float32 divided by their lengths, also very small ones; those of 0 stay."""
    X = np.ascontiguousarray(X)  # in another order, bits of a sum would depend on other rows
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0.0, largest, np.float32(1.0))  # no square of it is too small
    lengths = np.sqrt(np.einsum("nd,nd->n", X, X))[:, None]
    found: Array = X / np.where(lengths > 0.0, lengths, np.float32(1.0))
    return found


def lengthened(X: Any) -> Any:
    """Return sparse rows (CSR, float32) of which those whose squares would be 0 are longer."""
    largest = abs(X).max(axis=1).toarray().ravel()
    short = (largest > 0.0) & (largest < SHORT)
    if not short.any():
        return X
    by = np.where(short, largest, np.float32(1.0))
    data = X.data / np.repeat(by, np.diff(X.indptr))
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
