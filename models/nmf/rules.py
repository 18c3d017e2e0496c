"""Multiplicative updates of non-negative factors, and the losses that they lower.

X ~ P = W H.T.

Frobenius loss ||X - P||^2 / 2, with terms of mixins: Lee, Seung, NIPS 2000, eq. 4; with L1: Hoyer,
NNSP 2002. KL loss sum X log(X / P) - X + P: Lee, Seung, eq. 5, as the minimiser of the majoriser,
L2 included.
"""

from __future__ import annotations

from blocklearn.matcache import (
    Column,
    Matrix,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    log,
    maximum,
    repeat,
    rowdot,
    rowsum,
    rowwise,
    sddmm,
    sqrt,
)
from blocklearn.matcache.notation.functions import TINY

FLOOR = 1e-18  # least entry of W and H: its square is still a normal number


def kl_step(w: Rows, ratio: Rows, slope: Row, l2: Number) -> Rows:
    """Minimise slope v + l2 / 2 v^2 - w ratio log(v), which bounds the KL loss.

    ratio, slope: the two parts of the derivative by w. Without l2 the result is w * ratio / slope.
    """
    pull = w * ratio
    return maximum(2.0 * pull / maximum(slope + sqrt(slope * slope + 4.0 * l2 * pull), TINY), FLOOR)


def frobenius_step(XH: Rows, W: Rows, G: Table, l1: Rows | Number, l2: Number) -> Rows:
    """Return W [n x K] moved once, given XH = X @ H [n x K] and G = H.T @ H [K x K]."""
    return maximum(W * (XH / maximum(W @ G + l2 * W + l1, TINY)), FLOOR)


@rowwise
def kl_steps(X: Sparse, W: Rows, H: Table, slope: Row, l2: Number, iters: Number) -> None:
    """Update W [n x K] for a sparse X, given H [columns x K].

    slope: [1 x K], colsum(H) + l1.
    """
    for _ in repeat(iters):
        W <<= kl_step(W, (X / sddmm(W, H, X)) @ H, slope, l2)


@rowwise
def frobenius_losses(X: Sparse, W: Rows, H: Table, G: Table) -> tuple[Column, Column]:
    """Return ||x - p||^2 and ||x||^2 of each row of a sparse X, without a dense P.

    G: H.T @ H [K x K].
    """
    P = sddmm(W, H, X)
    elsewhere = rowdot(W @ G, W) - rowsum(P * P)
    return rowsum((X - P) * (X - P)) + maximum(elsewhere, 0.0), rowsum(X * X)


@rowwise
def kl_losses(X: Matrix, P: Matrix, mass: Column, columns: Number) -> tuple[Column, Column]:
    """Return D(x || p) and D(x || mean of x) of each row.

    P: the prediction at the stored entries of X.
    mass: [rows x 1], the sum of the prediction over all columns.
    columns: their number.
    """
    own = rowsum(X * log(maximum(X, TINY)))
    sums = rowsum(X)
    even = sums * log(maximum(sums, TINY) / columns)
    return own - rowsum(X * log(maximum(P, TINY))) - sums + mass, own - even
