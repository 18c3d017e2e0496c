"""Make the numbers that samplers of topics draw by."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper
from .uniform_vectors import fill_uniforms
from .vectors import LANES

_f, _i32, _u32, _u64 = np.float32, np.int32, np.uint32, np.uint64
_plain = helper(places=True)


@_plain
def power_up_to(x):
    """Return the largest power of 2 up to x, a positive normal float32."""
    return _i32(_f(x).view(_i32) & _i32(0x7F800000)).view(_f)


@_plain
def grid_of(total):
    """Return 2^(floor(log2 total) - 22).

    float32 sums of its multiples are exact up to 2 * total.
    """
    return power_up_to(max(total, _f(1e-30))) * _f(2.0**-22)


@_plain
def sum_of(alpha):
    """Return the sum of alpha [1 x k], in order."""
    total = _f(0)
    for j in range(alpha.shape[1]):
        total += alpha[0, j]
    return total


@_plain
def begin_counts(n, at, alpha, grid):
    """Set n[at : at + padded(k)] to alpha [1 x k], rounded to a power of 2, and zeros behind it."""
    k, steps = alpha.shape[1], _f(1) / grid  # exact
    for j in range(k):
        n[at + j] = max(_f(np.rint(alpha[0, j] * steps)), _f(1)) * grid
    for j in range(k, (k + LANES - 1) // LANES * LANES):
        n[at + j] = _f(0)


@_plain
def uniforms(out, start, n, sweep, row, key):
    """Fill out[start : start + n] with uniform numbers in [0, 1).

    key: int64 [1 x 3], of which only seed and pass are used.

    They depend on (seed, pass, row, sweep). Number j is word j // q of counter (j % q, sweep, row),
    q = ceil(n / 4), so that counters lie in vectors.
    """
    seed = _u64(key[0, 0])
    k0 = _u32(seed & _u64(0xFFFFFFFF)) ^ _u32(0x47494242)  # a separate stream
    k1 = _u32(seed >> _u64(32)) ^ _u32(key[0, 1] * 0x9E3779B1)
    fill_uniforms(out, start, n, sweep, row, _u32(k0), _u32(k1))
