"""Kernels of stochastic dual coordinate ascent for linear models: see `models/glm/solvers/dual.py`.

A pass visits the rows one after another. Each moves its dual variables, one for each column of W,
and with them W and b. `dual_losses.py` has the steps.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper, kernel
from ..fitting import LINE, LOGISTIC, WIDTH
from ..inline.math32 import exp
from ..inline.vectors import fetch, fetch1, make_add
from .dual_losses import kinked, share_of, step

LONGEST = 255  # passes that a row rests at most
FAR = 6  # rows between the visit of a row and the prefetch of its numbers

_F = np.float32
_ONE, _SMALLEST = _F(1), _F(-3e38)
_flags = "contract", "reassoc", "nsz", "arcp"
_fast, _inserted = kernel(*_flags), helper(*_flags, inline=True)
_add_1, _add_4 = make_add(LINE, 1, 32), make_add(LINE, 4, 32)


@_inserted
def _square(squares, i, values, first, last, now):
    """Return the squared length of a row, which the first pass sets."""
    if now == 1:
        square = _F(0)
        for e in range(first, last):
            square += values[e] * values[e]
        squares[i] = square
    return squares[i]


@_inserted
def _move_duals(eta, i, k, weight, share, bias, loss, shapes, Y, b, A, moved, lacks, gaps):
    """Move the dual variables of a row; return whether any has moved.

    eta: the scores, in whose place the moves come, times the weight.
    """
    moves = False
    for j in range(k):
        d, gap = step(eta[j], Y[i, j], A[i, j], share, loss, shapes[j])
        moves |= d != _F(0)
        lacks[j] = weight * gap
        A[i, j] += d
        d *= weight
        moved[j] += d
        b[j] -= bias * d
        eta[j] = d
    for j in range(k):  # apart: float64 in a loop makes vectors of float32 half as long
        gaps[j] += np.float64(lacks[j])
    return moves


@_inserted
def _waits(loss, moves, rests, i, now):
    """Return whether a row has nothing to move; where losses have kinks, it rests some passes."""
    if not kinked(loss):
        return False
    if moves:
        rests[i, 1] = 0
        return False
    rests[i, 1] = min(rests[i, 1] + rests[i, 1] + 1, LONGEST)
    rests[i, 0] = now + 1 + rests[i, 1]
    return True


@_inserted
def _fetch_row(order, o, starts, columns, values, Y, A, weights, squares, rests):
    """Prefetch a row that is visited later: processors do not foresee a random order."""
    later = np.intp(order[min(o + FAR + FAR, order.shape[0] - 1)])
    fetch1(starts, later)
    fetch1(weights, later)
    fetch1(squares, later)
    fetch(rests, later, 0)
    i = np.uintp(order[min(o + FAR, order.shape[0] - 1)])
    for e in range(starts[i], starts[i + np.uintp(1)], LINE):
        fetch1(columns, e)
        fetch1(values, e)
    for j in range(0, Y.shape[1], LINE):
        fetch(Y, i, j)
        fetch(A, i, j)


@_inserted
def _fetch_weights(order, o, starts, columns, W):
    """Prefetch the weights of the row that is visited next."""
    i = np.uintp(order[min(o + 1, order.shape[0] - 1)])
    for e in range(starts[i], starts[i + np.uintp(1)]):
        for j in range(0, W.shape[1], LINE):
            fetch(W, columns[e], j)


@_fast
def ascend(
    order, starts, columns, values, Y, weights, squares, bias, loss, shapes, W, b, A, rests,
    now, moved, eta, lacks, gaps,
):  # fmt: skip
    """Visit rows once, for losses of columns of their own.

    order: int64 [n], the rows to visit.
    starts, columns, values: X, CSR of float32; its numbers are int32 or int64.
    Y: float32 [n x k], targets; 0 and 1 for the first three losses.
    weights: float32 [n], weight of a row / (l2 * sum of all weights); 0 is skipped.
    squares: float32 [n], squared lengths of the rows of X; the first pass sets them.
    bias: what the constant feature of b adds to each squared length; 0: b stays.
    loss: LOGISTIC, HINGE, SQUARED_HINGE, SQUARED, HUBER or QUANTILE.
    shapes: float32 [k], of losses: see `At` in `models/glm/links.py`.
    W: float32 [features x k]. b: float32 [k]. A: float32 [n x k], the dual variables.
    rests: int32 [n x 2], the pass that visits a row again, and how many it waits before. A row
        that moved nothing waits 1 pass, then 3, 7 and so on. HINGE and QUANTILE alone: others
        always move.
    now: number of this pass, from 1.
    moved: float32 [k], grows by what the dual variables move, times weights.
    eta, lacks: float32 [k], scratch.
    gaps: float64 [k], grows by weight * (derivative of the loss - dual variable)^2; for both
        hinges and QUANTILE, by weight * what the row adds to the gap between the objective and its
        dual.
    """
    k = W.shape[1]
    for o in range(order.shape[0]):
        _fetch_row(order, o, starts, columns, values, Y, A, weights, squares, rests)
        i = np.uintp(order[o])
        weight = weights[i]
        if weight == _F(0) or rests[i, 0] > now:
            continue
        first, last = np.uintp(starts[i]), np.uintp(starts[i + np.uintp(1)])
        square = _square(squares, i, values, first, last, now)
        share = share_of((square + bias) * weight, loss)
        if k == 1:
            score = _F(0)
            for e in range(first, last):
                score += values[e] * W[np.uintp(columns[e]), 0]
            d, gap = step(score + b[0], Y[i, 0], A[i, 0], share, loss, shapes[0])
            gaps[0] += np.float64(weight * gap)
            if _waits(loss, d != _F(0), rests, i, now):
                continue
            A[i, 0] += d
            d *= weight
            moved[0] += d
            b[0] -= bias * d
            for e in range(first, last):
                W[np.uintp(columns[e]), 0] -= values[e] * d
            continue
        for j in range(k):
            eta[j] = b[j]
        for e in range(first, last):
            c, x = np.uintp(columns[e]), values[e]
            for j in range(k):
                eta[j] += x * W[c, j]
        moves = _move_duals(
            eta, i, k, weight, share, bias, loss, shapes, Y, b, A, moved, lacks, gaps
        )
        if _waits(loss, moves, rests, i, now):
            continue
        for e in range(first, last):
            c, x = np.uintp(columns[e]), values[e]
            for j in range(k):
                W[c, j] -= x * eta[j]


@_inserted
def _add_scores(eta, columns, values, first, last, W, k):
    """Add the scores of a row of X, whose entries are [first, last), to eta."""
    full = first + (last - first) // 4 * 4
    for e in range(first, full, 4):
        c0, c1 = np.intp(columns[e]) * k, np.intp(columns[e + 1]) * k
        c2, c3 = np.intp(columns[e + 2]) * k, np.intp(columns[e + 3]) * k
        x = values[e], values[e + 1], values[e + 2], values[e + 3]
        for j in range(0, k, LINE):
            _add_4(eta, j, W, (c0 + j, c1 + j, c2 + j, c3 + j), x)
    for e in range(full, last):
        at = np.intp(columns[e]) * k
        for j in range(0, k, LINE):
            _add_1(eta, j, W, (at + j,), (values[e],))


@_fast
def ascend_softmax(
    order, starts, columns, values, Y, weights, squares, bias, loss, shapes, W, b, A, rests,
    now, moved, eta, lacks, gaps,
):  # fmt: skip
    """Visit rows once, for a softmax of all columns.

    loss, shapes, rests and lacks are ignored.
    """
    k = W.shape[1]
    for o in range(order.shape[0]):
        _fetch_row(order, o, starts, columns, values, Y, A, weights, squares, rests)
        _fetch_weights(order, o, starts, columns, W)
        i = np.uintp(order[o])
        weight = weights[i]
        if weight == _F(0):
            continue
        first, last = np.uintp(starts[i]), np.uintp(starts[i + np.uintp(1)])
        square = _square(squares, i, values, first, last, now)
        share = _ONE / (_ONE + _F(0.5) * (square + bias) * weight)
        for j in range(k):
            eta[j] = b[j]
        for e in range(first, last):
            c, x = np.uintp(columns[e]), values[e]
            for j in range(k):
                eta[j] += x * W[c, j]
        top, total = _SMALLEST, _F(0)
        for j in range(k):
            top = max(top, eta[j])
        for j in range(k):
            eta[j] = exp(eta[j] - top)
            total += eta[j]
        part = _ONE / total
        for j in range(k):
            d = eta[j] * part - Y[i, j] - A[i, j]
            gaps[j] += np.float64(weight * d * d)
            d *= share
            A[i, j] += d
            d *= weight
            moved[j] += d
            b[j] -= bias * d
            eta[j] = d
        for e in range(first, last):
            c, x = np.uintp(columns[e]), values[e]
            for j in range(k):
                W[c, j] -= x * eta[j]


def _make_ascend(width):
    """Make `ascend` for `width` columns, a multiple of LINE."""

    @_fast
    def ascend_lines(
        order, starts, columns, values, Y, weights, squares, bias, loss, shapes, W, b, A, rests,
        now, moved, eta, lacks, gaps,
    ):  # fmt: skip
        k = np.intp(width)
        for o in range(order.shape[0]):
            _fetch_row(order, o, starts, columns, values, Y, A, weights, squares, rests)
            _fetch_weights(order, o, starts, columns, W)
            i = np.uintp(order[o])
            weight = weights[i]
            if weight == _F(0) or rests[i, 0] > now:
                continue
            first, last = np.intp(starts[i]), np.intp(starts[i + np.uintp(1)])
            square = _square(squares, i, values, first, last, now)
            share = share_of((square + bias) * weight, loss)
            for j in range(k):
                eta[j] = b[j]
            _add_scores(eta, columns, values, first, last, W, k)
            if loss == LOGISTIC:  # known: its loop does not compute the other losses, too
                moves = _move_duals(
                    eta, i, k, weight, share, bias, LOGISTIC, shapes, Y, b, A, moved, lacks, gaps
                )
            else:
                moves = _move_duals(
                    eta, i, k, weight, share, bias, loss, shapes, Y, b, A, moved, lacks, gaps
                )
            if _waits(loss, moves, rests, i, now):
                continue
            for e in range(first, last):
                at = np.intp(columns[e]) * k
                for line in range(0, k, LINE):
                    _add_1(W, at + line, eta, (line,), (-values[e],))

    return ascend_lines


ascend_16, ascend_32, ascend_48, ascend_64 = map(_make_ascend, range(LINE, WIDTH + 1, LINE))
