"""Orthonormal and triangular factors of tall matrices, in chunks of rows.

Columns far from depending on each other take two rounds of Cholesky factors of their gram matrix:
Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, *Roundoff error analysis of the CholeskyQR2 algorithm*,
ETNA 44 (2015). They are products, which BLAS blocks; LAPACK does not block the reflectors of few
columns. Others take reflectors, chunk by chunk: TSQR, Demmel, Grigori, Hoemmen, Langou, *SIAM J.
Sci. Comput.* 34 (2012). The chunks depend on the shape alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..pool import Pool
from . import lapack
from .blas import one_thread

Array = np.ndarray[Any, Any]

MOST_CHUNKS = 32  # each has factors of its own
LEAST_ROWS = 2048  # in a chunk
LEAST_SQUARE = 1e-200  # of a column's length: smaller ones lose digits
LEAST_INDEPENDENT = 1e-11  # 1 / norm of the inverse gram matrix of columns of length 1


class Scratch(NamedTuple):
    """Memory for the factors of a matrix [n x k].

    factors: [chunks k x k].
    rows: [threads x rows of a chunk x k].
    work: [threads x (lapack.BLOCK + 1) x k].
    """

    factors: Array
    rows: Array
    work: Array


def scratch_shapes(n: int, k: int, threads: int) -> dict[str, tuple[int, int]]:
    """Return the shapes of what `Scratch` views, by its names."""
    chunks = _chunks(n, k)
    return {
        "factors": (chunks * k, k),
        "rows": (threads, -(-n // chunks) * k),
        "work": (threads, (lapack.BLOCK + 1) * k),
    }


def prepare() -> None:
    """Look up the routines."""
    lapack.prepare("dgelqf", "dorglq", "dpotrf", "dpocon", "dtrsm", "dtrmm")


def tall_qr(pool: Pool, q: Array, r: Array, scratch: Scratch) -> None:
    """Replace a tall matrix [n x k] by its orthonormal factor, and fill the triangular one."""
    (n, k), chunks = q.shape, _chunks(*q.shape)
    bounds = [n * chunk // chunks for chunk in range(chunks + 1)]
    parts = [q[begin:end] for begin, end in pairwise(bounds)]
    factors = [scratch.factors[chunk * k : (chunk + 1) * k] for chunk in range(chunks)]
    if not _by_cholesky(pool, parts, factors, r, scratch):
        _by_reflectors(pool, parts, factors, r, scratch)


def _chunks(n: int, k: int) -> int:
    return max(1, min(MOST_CHUNKS, n // max(LEAST_ROWS, 4 * k)))


def _by_cholesky(
    pool: Pool, parts: list[Array], grams: list[Array], r: Array, scratch: Scratch
) -> bool:
    """Factorize; return False, with nothing done, if columns nearly depend on each other."""
    first = scratch.rows[0, : len(r)]
    if not _gram_factor(pool, parts, grams, r, scratch.work[0]):
        return False
    _divide(pool, parts, r)
    np.copyto(first, r)
    _gram_factor(pool, parts, grams, r, scratch.work[0])
    _divide(pool, parts, r)
    lapack.triangular("product", r, first, left=True, lower=False, turned=False)
    np.copyto(r, first)
    return True


def _gram_factor(pool: Pool, parts: list[Array], grams: list[Array], r: Array, work: Array) -> bool:
    """Set r to the upper Cholesky factor of the gram matrix; return whether it is a good one.

    Columns are scaled to length 1, so that their lengths do not matter.
    """

    def gram(chunk: int, thread: int) -> None:
        with one_thread:
            np.matmul(parts[chunk].T, parts[chunk], out=grams[chunk])

    pool.run(gram, len(parts))
    whole, lengths = grams[0], work[0]
    for other in grams[1:]:
        whole += other
    if not (whole.diagonal() >= LEAST_SQUARE).all():
        return False
    np.sqrt(whole.diagonal(), out=lengths)
    whole /= lengths
    whole /= lengths[:, None]
    lapack.cholesky(whole)
    if not lapack.inverse_norm_below(1.0 / LEAST_INDEPENDENT, whole, work[1:]):
        return False
    np.multiply(whole.T, lengths, out=r)
    return True


def _divide(pool: Pool, parts: list[Array], r: Array) -> None:
    """Multiply rows by the inverse of r."""

    def divide(chunk: int, thread: int) -> None:
        lapack.triangular("solve", r, parts[chunk], left=False, lower=False, turned=False)

    pool.run(divide, len(parts))


def _by_reflectors(
    pool: Pool, parts: list[Array], factors: list[Array], r: Array, scratch: Scratch
) -> None:
    """Factorize chunks of rows, then their triangular factors together."""
    work = scratch.work
    if len(parts) == 1:
        lapack.qr(parts[0], r, work[0])
        _make_positive(parts[0], r)
        return

    def factorize(chunk: int, thread: int) -> None:
        lapack.qr(parts[chunk], factors[chunk], work[thread])

    def multiply(chunk: int, thread: int) -> None:
        part = parts[chunk]
        own = scratch.rows[thread, : len(part)]
        np.copyto(own, part)
        with one_thread:
            np.matmul(own, factors[chunk], out=part)

    pool.run(factorize, len(parts))
    whole = scratch.factors
    lapack.qr(whole, r, work[0])
    _make_positive(whole, r)
    pool.run(multiply, len(parts))


def _make_positive(q: Array, r: Array) -> None:
    """Turn signs, so that no number on the diagonal of r is negative."""
    for number in range(len(r)):
        if r[number, number] < 0.0:
            np.negative(r[number], out=r[number])
            np.negative(q[:, number], out=q[:, number])
