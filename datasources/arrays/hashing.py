"""Digests the contents of a matrix, whatever its kind and dtype."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from .accept import CSR
from .compiled import kernel

HASH_CHUNK = 1 << 20  # numbers converted at a time


def hash_matrix(digest: xxhash.xxh3_64, matrix: CSR | npt.NDArray[Any]) -> None:
    """Add the contents of a verified matrix to a digest."""
    if isinstance(matrix, CSR):
        start, stop = int(matrix.indptr[0]), int(matrix.indptr[-1])
        hash_numbers(digest, np.diff(matrix.indptr), np.int64)
        hash_numbers(digest, matrix.indices[start:stop], np.int64)
        hash_numbers(digest, matrix.values[start:stop], np.float32)
    else:
        step = max(1, HASH_CHUNK // matrix.shape[1])
        for start in range(0, len(matrix), step):
            hash_numbers(digest, matrix[start : start + step].ravel(), np.float32)


def hash_numbers(
    digest: xxhash.xxh3_64, numbers: npt.NDArray[Any], dtype: type[np.generic]
) -> None:
    """Add `numbers`, converted to `dtype` chunk by chunk, to a digest."""
    for start in range(0, numbers.size, HASH_CHUNK):
        digest.update(np.ascontiguousarray(numbers[start : start + HASH_CHUNK], dtype).data)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # added by the generator at each step


def mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply SplitMix64's finalizer to uint64 numbers, which wrap around."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def mix_one(z: np.uint64) -> np.uint64:
    """Return `mix` of one number, for kernels."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
