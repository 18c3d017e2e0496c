"""Philox 4x32-10 in plain Python, written from the paper: an independent reference.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 3.3.
"""

from __future__ import annotations

MASK = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Ten rounds on a counter of four words with a key of two."""
    (r0, l0, r1, l1), (k0, k1) = counter, key
    for _ in range(10):
        a, b = r0 * 0xD2511F53, r1 * 0xCD9E8D57
        r0, l0, r1, l1 = (b >> 32) ^ l0 ^ k0, b & MASK, (a >> 32) ^ l1 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return r0, l0, r1, l1


def element(seed: int, pass_: int, block: int, row: int, column: int, stream: int) -> int:
    """The 32 random bits of an element."""
    seed &= 0xFFFFFFFFFFFFFFFF
    key = (seed & MASK, (seed >> 32) ^ (stream * 0x9E3779B1 & MASK))
    return philox((row, column, block & MASK, pass_ & MASK), key)[0]
