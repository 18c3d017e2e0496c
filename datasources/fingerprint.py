"""A digest of what a matrix contains, whatever kind and dtype hold it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from .accept import CSR

HASH_CHUNK = 1 << 20  # numbers that are converted at a time


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
