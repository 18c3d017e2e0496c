"""Row-wise programs of the kinds that models use, for the tests of the backends."""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import (
    copy,
    exp,
    exppsi,
    log,
    maximum,
    repeat,
    rowdot,
    rowmax,
    rownnz,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
    until,
    where,
)


@rowwise
def lda(X: Any, theta: Any, phi: Any, alpha: Any, iters: Any) -> Any:
    """The E-step of LDA."""
    for _ in repeat(iters):
        ratio = X / sddmm(theta, phi, X)
        theta <<= exppsi(theta * (ratio @ phi) + alpha)
    return ratio


@rowwise
def conjugate_gradients(R: Any, u: Any, items: Any, penalty: Any, iters: Any) -> Any:
    """Ridge regression of each row's ratings on item factors, by CG; weight of the penalty: nnz."""
    ridge = penalty * rownnz(R)
    r = (R - sddmm(u, items, R)) @ items - ridge * u
    p = copy(r)
    old = rowdot(r, r)
    for _ in repeat(iters):
        Ap = sddmm(p, items, R) @ items + ridge * p
        step = old / maximum(rowdot(p, Ap), 1e-30)
        u <<= u + step * p
        r <<= r - step * Ap
        new = rowdot(r, r)
        p <<= r + (new / maximum(old, 1e-30)) * p
        old <<= new
    return old


@rowwise
def implicit(C: Any, u: Any, items: Any, gram: Any, penalty: Any) -> Any:
    """A gradient of the implicit-feedback loss (Hu, Koren, Volinsky 2008): uses a small product."""
    return (C * (sddmm(u, items, C) - 1.0) - sddmm(u, items, C)) @ items + u @ gram + penalty * u


@rowwise
def softmax_scores(X: Any, W: Any, bias: Any) -> Any:
    """Forward pass of a softmax regression and its log-partition."""
    score = X @ W + bias
    top = rowmax(score)
    e = exp(score - top)
    z = rowsum(e)
    return e / z, top + log(z)


@rowwise
def weighted(X: Any, u: Any, columns: Any, rows: Any) -> Any:
    """Row and column scalings of non-zeros, a reduction, and values used after their loop."""
    scaled = X * columns * rows
    largest = rowmax(abs(scaled))
    bounded = where(scaled > float("inf"), 0.0, scaled)
    return where(bounded < 0.0, scaled, scaled / maximum(largest, 1e-6)), rowsum(scaled), sigmoid(u)


@rowwise
def until_settled(X: Any, theta: Any, phi: Any, alpha: Any) -> Any:
    """A loop that each row leaves when it has settled."""
    for _ in repeat(50):
        new = theta * ((X / sddmm(theta, phi, X)) @ phi) + alpha
        change = rowsum(abs(new - theta))
        theta <<= new
        until(change < 1e-3 * rowsum(theta))
    return rowsum(theta)


@rowwise
def moved(X: Any, u: Any, table: Any, shift: Any) -> Any:
    """What is read first and written last, with nothing summed up in between."""
    score = sddmm(u, table, X)
    u <<= u * 2.0 + shift
    shift <<= shift * 0.5
    return score


@rowwise
def by_turns(X: Any, u: Any, table: Any, shift: Any) -> Any:
    """Loops whose rounds differ from row to row: none, one, or many."""
    for _ in repeat(shift > 0.0):
        u <<= u * 0.5 + X @ table
        shift <<= shift * 0.5
    for _ in repeat(rownnz(X) - 2.0):
        u <<= u * 0.5
    return rowsum(u)
