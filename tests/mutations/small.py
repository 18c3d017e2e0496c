"""Damage to files, for tests that nothing worse follows than an error."""

import struct

import numpy as np


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes changed, cut off, repeated, or put in."""
    changed = bytearray(data)
    at = int(rng.integers(len(data)))
    match rng.integers(5):
        case 0:
            changed[at] ^= 1 << int(rng.integers(8))
        case 1:
            changed[at] = int(rng.integers(256))
        case 2:
            del changed[at:]
        case 3:
            changed[at:at] = data[at : at + int(rng.integers(1, 40))]
        case 4:
            extreme = struct.pack("<q", int(rng.choice([-1, 2**31 - 1, 2**31, 2**62, 0, 1])))
            size = int(rng.choice([4, 8]))
            changed[at : at + size] = extreme[:size]
    return bytes(changed)
