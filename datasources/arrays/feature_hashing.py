"""Hashes text, whole numbers and products of features to columns.

Weinberger, Dasgupta, Langford, Smola, Attenberg, Feature hashing for large scale multitask
learning, ICML 2009. The lower bits of a feature's hash are its column. The highest bit is its sign:
features that share a column then cancel on average, and products of rows keep their expectation.
Text is hashed by XXH3, seeded by the name of its column; numbers by SplitMix64's finalizer. So
columns are the same in every process, on every machine.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from scipy import sparse

from ..errors import DataError
from .accept import CSR, accept
from .compiled import kernel
from .hashed_names import Hashes, SeenNames, check_bits
from .hashing import GOLDEN, mix, mix_one


def hash_features(
    columns: Mapping[str, Any],
    hash_bits: int = 20,
    *,
    interactions: Iterable[tuple[str, str]] = (),
    seed: int = 0,
    signed: bool = True,
    seen: SeenNames | None = None,
) -> Any:
    """Hash text or whole numbers to a sparse matrix with 2**hash_bits columns.

    - columns: by name, each with one value per row. Values are str (None: missing), or integers or
      booleans (masked: missing). Every pair (name, value) is a feature of its own: 7 in two columns
      is two features, and so are 7 and "7".
    - interactions: pairs of names. Where a row has both values, the pair of values is a feature
      too ("user from Oslo sees ad 7"). The order within a pair does not matter.
    - signed: whether the hash of a feature makes its value +1 or -1; otherwise it is 1.
    - seen: keeps the names of the features.

    Returns a `csr_array` float32 [rows, 2**hash_bits] with ascending indices. Features of a row
    that share a column are added. Memory and time grow with the number of values, not with
    2**hash_bits. Raises `DataError` for other kinds of values: a number with a fraction is a
    feature as it is.

    >>> X = hash_features({"city": ["Rome", "Oslo", "Rome"], "day": [1, 2, 1]}, 10)
    >>> X.shape, bool((X[[0]] != X[[2]]).nnz == 0), X.nnz
    ((3, 1024), True, 6)
    """
    bits = check_bits("hash_features", hash_bits)
    if not columns:
        raise DataError("hash_features: columns={}: must have at least one column.")
    found: dict[str, Hashes] = {}
    for name, values in columns.items():
        found[name] = hash_column(name, values, seed)
        rows = len(next(iter(found.values()))[0])
        if len(found[name][0]) != rows:
            raise DataError(
                f"hash_features: column {name!r} has {len(found[name][0])} rows: must have {rows}, "
                "as many as the first column."
            )
    pairs = list(interactions)
    crossed = [cross(found, *pair) for pair in pairs]
    if seen is not None:
        for name, hashes in found.items():
            seen.add(hashes, bits, {name: columns[name]}, signed=signed)
        for (a, b), hashes in zip(pairs, crossed, strict=True):
            seen.add(hashes, bits, {a: columns[a], b: columns[b]}, signed=signed)
    parts = [*found.values(), *crossed]
    table = np.stack([hashes for hashes, _ in parts], axis=1)
    mask = np.stack([present for _, present in parts], axis=1)
    return to_csr(table[mask], np.cumsum(np.r_[0, mask.sum(axis=1)]), bits, signed)


def cross(columns: Mapping[str, Hashes], a: str, b: str) -> Hashes:
    """Return the hash of every pair of values of two columns, and whether both exist."""
    for name in (a, b):
        if name not in columns:
            raise DataError(
                f"hash_features: interactions: {name!r}: must be one of the columns "
                f"{', '.join(columns)}."
            )
    if a == b:
        raise DataError(
            f"hash_features: interactions: {a!r} with itself: must be two different columns."
        )
    (first, there), (second, here) = (columns[name] for name in sorted((a, b)))
    return mix(first + second * GOLDEN), there & here


def interactions(A: Any, B: Any, hash_bits: int = 20, *, seed: int = 0, signed: bool = True) -> Any:
    """Hash products of the features of two matrices to 2**hash_bits columns.

    - A: SciPy sparse matrix of any kind [rows, a].
    - B: SciPy sparse matrix of any kind [rows, b].
    - signed: whether the hash also chooses the sign of a product.

    For all non-zeros A[r, i] and B[r, j], row r gets A[r, i] * B[r, j] in the column given by the
    hash of (i, j). Returns a `csr_array` float32 [rows, 2**hash_bits]. A row has at most as many
    non-zeros as those of A times those of B; products that share a column are added. Raises
    `DataError`.

    >>> A, B = sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), sparse.csr_array([[5.0], [7.0]])
    >>> abs(interactions(A, B, 8)).sum(axis=1).tolist()
    [10.0, 21.0]
    """
    bits = check_bits("interactions", hash_bits)
    left, right = accept(A, "interactions: A"), accept(B, "interactions: B")
    if not isinstance(left, CSR) or not isinstance(right, CSR):
        raise DataError("interactions: A and B must be sparse; scipy.sparse.csr_array(A) makes it.")
    if A.shape[0] != B.shape[0]:
        raise DataError(
            f"interactions: A has {A.shape[0]} rows, but B has {B.shape[0]}: must be as many."
        )
    lengths = np.diff(left.indptr) * np.diff(right.indptr)
    indptr = np.cumsum(np.r_[0, lengths])
    hashes = np.empty(indptr[-1], np.uint64)
    values = np.empty(indptr[-1], np.float32)
    multiply_rows(
        left.indptr, left.indices, left.values, right.indptr, right.indices, right.values,
        np.uint64(seed), hashes, values,
    )  # fmt: skip
    return to_csr(hashes, indptr, bits, signed, values)


def hash_column(name: str, values: Any, seed: int) -> Hashes:
    """Return a hash of every value of one column, and whether the value exists."""
    seed = xxhash.xxh3_64_intdigest(name.encode(), seed)
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=None)
    if array.ndim != 1:
        raise DataError(
            f"hash_features: column {name!r} has the shape {array.shape}; it must be one value per "
            "row."
        )
    if array.dtype.kind in "biu":
        numbers = np.ma.getdata(array).astype(np.int64).view(np.uint64)
        return mix(numbers * GOLDEN + np.uint64(seed)), ~np.ma.getmaskarray(array)
    if array.dtype.kind not in "OUT":
        raise DataError(
            f"hash_features: column {name!r} has the dtype {array.dtype}, but must be text or "
            "whole numbers; a number with a fraction is a feature as it is."
        )
    known = hash_texts(name, array.tolist(), seed)
    hashes = np.fromiter((known[value] for value in array.tolist()), np.uint64, array.size)
    return hashes, np.array([value is not None for value in array.tolist()], np.bool_)


def hash_texts(name: str, values: Iterable[Any], seed: int) -> dict[Any, int]:
    """Return the hash of every distinct text; the hash of None is never used."""
    known: dict[Any, int] = {None: 0}
    for row, value in enumerate(values):
        if value in known:
            continue
        if not isinstance(value, str):
            raise DataError(
                f"hash_features: row {row} of column {name!r} is {value!r}, but must be text, or "
                "None where it is missing."
            )
        known[value] = xxhash.xxh3_64_intdigest(value.encode(), seed)
    return known


def to_csr(
    hashes: npt.NDArray[np.uint64],
    indptr: npt.NDArray[np.int64],
    bits: int,
    signed: bool,
    values: npt.NDArray[np.float32] | None = None,
) -> Any:
    """Return hashed features [nnz] as a matrix; values: 1 by default, times the sign."""
    if values is None:
        values = np.ones(hashes.size, np.float32)
    if signed:
        values[hashes >> np.uint64(63) == 1] *= -1.0
    columns = (hashes & np.uint64((1 << bits) - 1)).astype(np.int32)
    X = sparse.csr_array((values, columns, indptr), shape=(len(indptr) - 1, 1 << bits))
    X.sum_duplicates()
    return X


@kernel
def multiply_rows(
    a_indptr: npt.NDArray[Any],
    a_indices: npt.NDArray[Any],
    a_values: npt.NDArray[Any],
    b_indptr: npt.NDArray[Any],
    b_indices: npt.NDArray[Any],
    b_values: npt.NDArray[Any],
    seed: np.uint64,
    hashes: npt.NDArray[np.uint64],
    values: npt.NDArray[np.float32],
) -> None:
    """Write hash and product of each pair of non-zeros of equal rows of A and B."""
    filled = 0
    for row in range(a_indptr.size - 1):
        for p in range(a_indptr[row], a_indptr[row + 1]):
            first = mix_one(np.uint64(a_indices[p]) + seed)
            for q in range(b_indptr[row], b_indptr[row + 1]):
                second = np.uint64(b_indices[q]) * GOLDEN
                hashes[filled] = mix_one(first + second)
                values[filled] = a_values[p] * b_values[q]
                filled += 1
