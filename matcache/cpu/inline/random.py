"""Random numbers by counter for CPU kernels: Philox 4x32-10.

Salmon, Moraes, Dror, Shaw (2011). The number at (row, column) of a stream depends only on (seed,
pass, block, row, column, stream). So neither threads nor order nor a resume can change it.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import numpy as np

from ..compiling.jit import helper, kernel
from .math32 import uniform

_u32 = np.uint32
_u64 = np.uint64
M0, M1 = _u64(0xD2511F53), _u64(0xCD9E8D57)
W0, W1 = _u32(0x9E3779B9), _u32(0xBB67AE85)
ROUNDS = 10


@helper(inline=True)
def philox(c0, c1, c2, c3, k0, k1):
    """Return four random uint32 from a 128-bit counter and a 64-bit key."""
    for _ in range(ROUNDS):
        p0 = M0 * _u64(c0)
        p1 = M1 * _u64(c2)
        n0 = _u32(_u32(p1 >> _u64(32)) ^ c1 ^ k0)  # Numba widens uint32 ^ uint32
        n2 = _u32(_u32(p0 >> _u64(32)) ^ c3 ^ k1)
        c1 = _u32(p1 & _u64(0xFFFFFFFF))
        c3 = _u32(p0 & _u64(0xFFFFFFFF))
        c0 = n0
        c2 = n2
        k0 = _u32(k0 + W0)
        k1 = _u32(k1 + W1)
    return _u32(c0), _u32(c1), _u32(c2), _u32(c3)


@helper(inline=True)
def random_words(key, row, column, stream):
    """Return four random uint32 for an element.

    key: int64 [1 x 3], (seed, pass, block).
    """
    seed = _u64(key[0, 0])
    return philox(
        _u32(row),
        _u32(column),
        _u32(key[0, 2]),
        _u32(key[0, 1]),
        _u32(seed & _u64(0xFFFFFFFF)),
        _u32(seed >> _u64(32)) ^ _u32(stream * 0x9E3779B1),
    )


@helper(inline=True)
def random_bits(key, row, column, stream):
    """Return 32 random bits for an element: the first of `random_words`."""
    return random_words(key, row, column, stream)[0]


@kernel()
def uniform_rows(key, stream, rows, out):
    """Set out, float32 [rows x columns], to rows of a table of uniform numbers.

    rows: their numbers in the table, int64.
    """
    for i in range(rows.size):
        for k in range(out.shape[1]):
            out[i, k] = uniform(random_bits(key, rows[i], k, stream))
