"""Uniform numbers of a row, made by vectors, against Philox of Python's integers."""

# Numba infers the types of the kernel.
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.topics.numbers import uniforms

SEED, PASS, ROW, SWEEP = 2**40 + 7, 3, 2**33 + 5, 9
BEFORE, BEHIND = 3, 16  # numbers that belong to other rows


@kernel()
def fill(out, n, key):
    uniforms(out, BEFORE, n, SWEEP, ROW, key)


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Salmon et al. (2011): ten rounds."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k, q % 2**32, p >> 32 ^ d ^ m, p % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def test_numbers_are_those_of_the_counters_and_others_stay() -> None:
    """Rows of all lengths: of less than one vector, of some, and of several."""
    key = [SEED % 2**32 ^ 0x47494242, SEED >> 32 ^ PASS * 0x9E3779B1 % 2**32]
    for n in [*range(1, 70), 131]:
        q = -(-n // 4)
        counters = [philox([i, SWEEP, ROW % 2**32, ROW >> 32], key) for i in range(q)]
        expected = np.full(BEFORE + n + BEHIND, -1, np.float32)
        expected[BEFORE : BEFORE + n] = [
            (counters[j % q][j // q] >> 8) * 2.0**-24 for j in range(n)
        ]
        found = np.full_like(expected, -1)
        fill(found, n, np.array([[SEED, PASS, 1]]))
        np.testing.assert_array_equal(found, expected)
