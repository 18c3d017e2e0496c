"""Kernels of coordinate descent for linear models with an L1 penalty.

`models/glm/solvers/proximal.py` calls them.

Columns of X [n x features] lie one after another: starts [features + 1], rows and values, as in
CSC. Dense columns have all rows, so `rows` is empty. Values are float32 or float64.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper, kernel

_flags = "contract", "reassoc", "nsz", "arcp"
_fast, _inserted = kernel(*_flags), helper(*_flags, inline=True)


@_inserted
def _product(starts, rows, values, c, v):
    """Return the product of column c and v."""
    first, last = np.uintp(starts[c]), np.uintp(starts[c + np.uintp(1)])
    found = 0.0
    if rows.shape[0]:
        for e in range(first, last):
            found += values[e] * v[np.uintp(rows[e])]
    else:
        for i in range(last - first):
            found += values[first + i] * v[i]
    return found


@_fast
def multiply_columns(starts, rows, values, v, out):
    """Compute out = X'v. v: float64 [n]. out: float64 [features]."""
    for c in range(out.shape[0]):
        out[c] = _product(starts, rows, values, np.uintp(c), v)


@_fast
def column_moments(starts, rows, values, which, bends, sums, squares):
    """Compute X' bends and the bends' sums of squares, of some columns.

    which: int64, the columns. bends: float64 [n]. sums, squares: float64, one for each.
    """
    for k in range(which.shape[0]):
        c = np.uintp(which[k])
        first, last = np.uintp(starts[c]), np.uintp(starts[c + np.uintp(1)])
        one = two = 0.0
        if rows.shape[0]:
            for e in range(first, last):
                x = np.float64(values[e])
                z = bends[np.uintp(rows[e])] * x
                one += z
                two += z * x
        else:
            for i in range(last - first):
                x = np.float64(values[first + i])
                z = bends[i] * x
                one += z
                two += z * x
        sums[k], squares[k] = one, two


@_fast
def descend(
    starts, rows, values, which, bends, v, sums, curved, w, l1, l2, total, rest, cycles, least
):  # fmt: skip
    """Move the weights of some columns, one after another, to the minimum of a parabola.

    It has the gradient X'v + l2 w and the Hessian X' diag(bends) X + l2, with the intercept at its
    optimum. An L1 penalty is added.

    which: int64, the columns.
    bends: float64 [n]. v: float64 [n], grows by bends * (X d), where d is how far w moves.
    sums: float64, X' bends of the columns. curved: the Hessian's diagonal; 0: the column stays.
    w: float64, their weights, which move.
    l1, l2: penalties. total: sum of bends; 0: there is no intercept. rest: sum of v at first.
    cycles: over the columns, at most. least: ends when the squares of a cycle's moves, times
        `curved`, have a smaller sum.
    """
    for _ in range(cycles):
        gained = 0.0
        for k in range(which.shape[0]):
            if curved[k] <= 0.0:
                continue
            c = np.uintp(which[k])
            slope = _product(starts, rows, values, c, v) + l2 * w[k]
            if total > 0.0:
                slope -= sums[k] * rest / total
            aim = curved[k] * w[k] - slope
            new = 0.0
            if aim > l1:
                new = (aim - l1) / curved[k]
            elif aim < -l1:
                new = (aim + l1) / curved[k]
            step = new - w[k]
            if step == 0.0:
                continue
            w[k] = new
            rest += sums[k] * step
            gained += step * step * curved[k]
            first, last = np.uintp(starts[c]), np.uintp(starts[c + np.uintp(1)])
            if rows.shape[0]:
                for e in range(first, last):
                    row = np.uintp(rows[e])
                    v[row] += bends[row] * (values[e] * step)
            else:
                for i in range(last - first):
                    v[i] += bends[i] * (values[first + i] * step)
        if gained <= least:
            break


@_fast
def add_columns(starts, rows, values, which, steps, out):
    """Add the columns `which`, times steps, to out. out: float64 [n]."""
    for k in range(which.shape[0]):
        step = steps[k]
        if step == 0.0:
            continue
        c = np.uintp(which[k])
        first, last = np.uintp(starts[c]), np.uintp(starts[c + np.uintp(1)])
        if rows.shape[0]:
            for e in range(first, last):
                out[np.uintp(rows[e])] += values[e] * step
        else:
            for i in range(last - first):
                out[i] += values[first + i] * step
