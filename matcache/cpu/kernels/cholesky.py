"""CPU kernels for normal equations: sums of outer products, Cholesky solutions.

Symmetric matrices are packed, see operations/packing.py. Their rows are vectors of a few lengths.
The number of factors k is known when a kernel runs, so one compilation serves all.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import math
from typing import Any, NamedTuple

import numpy as np

from ...operations.packing import LANES, packed, padded
from ..compiling.access import make_reads, put1
from ..compiling.jit import helper, kernel
from ..inline.long_rows import add_whole, dot_whole, make_add_rows

# least pivot, relative to its diagonal entry, that float32 distinguishes from zero
FLOOR = np.float32(1e-6)
_ZERO, _ONE = np.float32(0), np.float32(1)

_add_1 = make_add_rows(1)
_get1, _get2 = make_reads(32)
_helper = helper("contract")


class Equations(NamedTuple):
    """What systems (A[i] + gram + D_i) x = rhs[i] have besides A.

    An operand without rows is absent.

    gram: [k x k], is added.
    free: [1 x k]; x is known where it is zero. There x is taken from rhs, and the other equations
        are solved for the rest.
    scale, shift: [1 x k]; D_i is ridge[i] scale + shift, or ridge[i] without them.
    out: gets x.
    """

    gram: Any
    free: Any
    scale: Any
    shift: Any
    ridge: Any
    rhs: Any
    out: Any


def scratch_length(k: int) -> int:
    """Return the scratch numbers per thread: a packed matrix and three vectors."""
    return packed(k) + 3 * padded(k)


@_helper
def _size(k):
    """Return the numbers of a packed matrix: see `packed`."""
    g = (k + LANES - 1) >> 4
    return LANES * LANES * (g * (g + 1) >> 1)


@_helper
def _row(k, r):
    """Return where row r would have its column 0, in a packed matrix."""
    g = r >> 4
    wide = (k + LANES - 1) & -LANES
    offset = LANES * (g * wide - LANES // 2 * g * (g - 1))
    return offset + (r - LANES * g) * (wide - LANES * g) - LANES * g


@_helper
def _add_one(A, k, c, w, table):
    """Add w v v' to A, for v the row c of the table."""
    at, width = 0, (k + LANES - 1) & -LANES
    for first in range(0, k, LANES):
        for r in range(first, min(first + LANES, k)):
            _add_1(A, at, table, (c * k + first,), (w * _get2(table, c, r),), k - first)
            at += width
        width -= LANES


def _make_add_eight(vectors):
    """Make a function that adds to rows [first, end) of A, which have so many vectors."""
    add = make_add_rows(8, vectors)

    @_helper
    def add_eight(A, at, width, first, end, k, c, w, table):
        c0, c1, c2, c3, c4, c5, c6, c7 = c
        w0, w1, w2, w3, w4, w5, w6, w7 = w
        p0, p1, p2, p3 = c0 * k + first, c1 * k + first, c2 * k + first, c3 * k + first
        p4, p5, p6, p7 = c4 * k + first, c5 * k + first, c6 * k + first, c7 * k + first
        for r in range(first, end):
            factors = (
                w0 * _get2(table, c0, r),
                w1 * _get2(table, c1, r),
                w2 * _get2(table, c2, r),
                w3 * _get2(table, c3, r),
                w4 * _get2(table, c4, r),
                w5 * _get2(table, c5, r),
                w6 * _get2(table, c6, r),
                w7 * _get2(table, c7, r),
            )
            add(A, at, table, (p0, p1, p2, p3, p4, p5, p6, p7), factors, k - first)
            at += width

    return add_eight


_eight, _eight_1, _eight_2, _eight_3, _eight_4 = map(_make_add_eight, range(5))


@_helper
def _add_eight(A, k, c, e, weights, table):
    """Add eight times w v v' to A, for v the rows c of the table and w the weights at e."""
    w = (
        weights[e[0]],
        weights[e[1]],
        weights[e[2]],
        weights[e[3]],
        weights[e[4]],
        weights[e[5]],
        weights[e[6]],
        weights[e[7]],
    )
    at, width = 0, (k + LANES - 1) & -LANES
    for first in range(0, k, LANES):
        end = min(first + LANES, k)
        if width == 4 * LANES:
            _eight_4(A, at, width, first, end, k, c, w, table)
        elif width == 3 * LANES:
            _eight_3(A, at, width, first, end, k, c, w, table)
        elif width == 2 * LANES:
            _eight_2(A, at, width, first, end, k, c, w, table)
        elif width == LANES:
            _eight_1(A, at, width, first, end, k, c, w, table)
        else:
            _eight(A, at, width, first, end, k, c, w, table)
        at += LANES * width
        width -= LANES


@_helper
def _rows(indices, j):
    """Return eight rows of a table, from place j on."""
    return (
        np.intp(indices[j]),
        np.intp(indices[j + 1]),
        np.intp(indices[j + 2]),
        np.intp(indices[j + 3]),
        np.intp(indices[j + 4]),
        np.intp(indices[j + 5]),
        np.intp(indices[j + 6]),
        np.intp(indices[j + 7]),
    )


@_helper
def _finish(A, k, i, given):
    """Add what all rows share, and solve."""
    if given.gram.shape[0] > 0:
        for r in range(k):
            at = _row(k, r)
            for c in range(r & -LANES, k):
                put1(A, at + c, _get1(A, at + c) + _get2(given.gram, r, c))
    _solve(A, k, i, given)


@_helper
def _solve(A, k, i, given):
    """Solve (A + D) x = rhs[i] into out[i]; D is diagonal: ridge scale + shift, or ridge.

    Where the ridge is 0, numbers of x that no equation determines are 0. Row by row, A becomes U
    with the reciprocals of its diagonal, A + D = U'U. After the packed matrix come the least
    pivots, y of U'y = b, and x, padded.
    """
    wide = (k + LANES - 1) & -LANES
    least = _size(k)
    y, x = least + wide, least + 2 * wide
    masked, scaled, ridge = given.free.shape[0] > 0, given.scale.shape[0] > 0, given.ridge[i, 0]
    for c in range(k):
        A[y + c] = given.rhs[i, c]
    if masked:
        _move_known(A, k, i, given, y)
    for r in range(k):
        at = _row(k, r) + r
        if not masked or given.free[0, r] != _ZERO:
            A[at] += ridge * given.scale[0, r] + given.shift[0, r] if scaled else ridge
        A[least + r] = FLOOR * A[at]
    for j in range(k):
        first = j & -LANES
        row = _row(k, j)
        pivot = row + j
        factor = _ONE / math.sqrt(max(A[pivot], A[least + j]))
        if ridge == _ZERO and A[pivot] <= A[least + j]:
            factor = _ZERO  # no equation determines x[j]: it is 0
        for c in range(first, wide):
            put1(A, row + c, _get1(A, row + c) * factor)
        at = row + wide  # rows are one after the other
        for below in range(first, k, LANES):
            width = wide - below
            for r in range(max(j + 1, below), min(below + LANES, k)):
                add_whole(A, at, row + below, -_get1(A, row + r), width)
                at += width
        A[pivot] = factor
    for j in range(k):
        row = _row(k, j)
        A[y + j] *= A[row + j]
        t = A[y + j]
        for c in range(j + 1, k):
            put1(A, y + c, _get1(A, y + c) - t * _get1(A, row + c))
    for c in range(wide):
        A[x + c] = _ZERO
    for j in range(k - 1, -1, -1):
        first = j & -LANES
        row = _row(k, j)
        t = dot_whole(A, x + first, A, row + first, wide - first)
        A[x + j] = (A[y + j] - t) * A[row + j]
    for c in range(k):
        given.out[i, c] = A[x + c]


@_helper
def _move_known(A, k, i, given, y):
    """Move known numbers to the right side; their rows and columns become those of a unit."""
    free, rhs = given.free, given.rhs
    for c in range(k):
        if free[0, c] == _ZERO:
            for r in range(k):
                if r < c:
                    at = _row(k, r) + c
                    A[y + r] -= A[at] * rhs[i, c]
                    A[at] = _ZERO
                elif r == c:
                    at = _row(k, r)
                    for s in range(c + 1, k):
                        A[y + s] -= A[at + s] * rhs[i, c]
                        A[at + s] = _ZERO
                    A[at + c] = _ONE
    for c in range(k):
        if free[0, c] == _ZERO:
            A[y + c] = rhs[i, c]


@kernel("contract")
def solve_rows(chunk, thread, bounds, indptr, indices, weights, table, equations, scratch):
    """Solve one system for each row of a chunk.

    A[i] is the sum over the entries j of row i of weights[j] v_j v_j'; v_j is row indices[j] of the
    table [m x k].

    equations: `Equations`.
    """
    A, k = scratch[thread], table.shape[1]
    for i in range(bounds[chunk], bounds[chunk + 1]):
        for at in range(_size(k)):
            A[at] = _ZERO
        p, q = indptr[i], indptr[i + 1]
        full = p + (q - p) // 8 * 8
        for j in range(p, full, 8):
            eight = (j, j + 1, j + 2, j + 3, j + 4, j + 5, j + 6, j + 7)
            _add_eight(A, k, _rows(indices, j), eight, weights, table)
        for j in range(full, q):
            _add_one(A, k, np.intp(indices[j]), weights[j], table)
        _finish(A, k, i, equations)


@kernel("contract")
def add_outer(
    chunk, thread, bounds, active, starts, t_rows, t_pos, weights, table, sums
):  # fmt: skip
    """Add weighted outer products to packed sums.

    For each column c = active[a] of a block, it adds weights[t_pos[j]] v_j v_j' of its entries j to
    sums[c], in the order of rows; v_j is row t_rows[j] of the table [n x k].
    """
    k = table.shape[1]
    for a in range(bounds[chunk], bounds[chunk + 1]):
        A = sums[active[a]]
        p, q = starts[a], starts[a + 1]
        full = p + (q - p) // 8 * 8
        for j in range(p, full, 8):
            _add_eight(A, k, _rows(t_rows, j), _rows(t_pos, j), weights, table)
        for j in range(full, q):
            _add_one(A, k, np.intp(t_rows[j]), weights[t_pos[j]], table)


@kernel("contract")
def solve_sums(chunk, thread, bounds, sums, equations, scratch):
    """Solve systems whose A are packed sums; equations: `Equations`."""
    A, k = scratch[thread], equations.out.shape[1]
    for i in range(bounds[chunk], bounds[chunk + 1]):
        for at in range(_size(k)):
            A[at] = sums[i, at]
        _finish(A, k, i, equations)
