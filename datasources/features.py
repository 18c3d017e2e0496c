"""Features without a vocabulary: text and whole numbers, and products of features, by hash.

Feature hashing: Weinberger, Dasgupta, Langford, Smola, Attenberg, Feature hashing for large scale
multitask learning, ICML 2009. A feature's column is the lower bits of its hash; the highest bit
chooses its sign, so that features which share a column cancel on average and products of rows
keep their expectation. Text is hashed by XXH3 (seeded by the name of its column), numbers by
SplitMix64's finalizer: the same columns in every process, on every machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import xxhash
from scipy import sparse

from .accept import CSR, accept
from .errors import DataError
from .kernel import kernel
from .mix import GOLDEN, mix, mix_one

MOST_BITS = 30  # 2**31 columns would not be numbered by an int32


class HashedWords(Sequence[str]):
    """The vocabulary of hashed words: 2**bits columns whose words nobody keeps.

    >>> words = HashedWords(20)
    >>> len(words), words[5], words.column("socket") == words.column("socket")
    (1048576, '#5', True)
    """

    def __init__(self, bits: int) -> None:
        """bits: 1 to 30."""
        self.bits = check_bits("HashedWords", bits)

    def column(self, word: str) -> int:
        """The column of a word, whatever word it is."""
        return int(xxhash.xxh3_64_intdigest(word.encode())) & (len(self) - 1)

    def __len__(self) -> int:
        """Number of columns."""
        return 1 << self.bits

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """What a column is called."""
        numbers = range(len(self))[index]
        return f"#{numbers}" if isinstance(numbers, int) else [f"#{i}" for i in numbers]

    def __eq__(self, other: object) -> bool:
        """The same columns for the same words."""
        return isinstance(other, HashedWords) and self.bits == other.bits

    def __hash__(self) -> int:
        """By the number of bits."""
        return hash(self.bits)


def hash_features(
    columns: Mapping[str, Any], hash_bits: int = 20, *, seed: int = 0, signed: bool = True
) -> Any:
    """Columns of text or whole numbers as one sparse matrix with 2**hash_bits columns.

    columns: by name, one value per row each: a sequence of str (None: nothing), or integers or
    booleans. Every (name, value) is a feature of its own, so 7 in two columns is two features; 7
    and "7" are two as well. signed: the value of a feature is +1 or -1 by its hash; without, 1.

    Returns a `csr_array` float32 [rows, 2**hash_bits], indices ascending; features of a row that
    share a column are added. Memory and time follow the number of values, not 2**hash_bits. Raises
    `DataError` for other kinds of values (numbers with a fraction are features already).

    >>> X = hash_features({"city": ["Rome", "Oslo", "Rome"], "day": [1, 2, 1]}, 10)
    >>> X.shape, bool((X[[0]] != X[[2]]).nnz == 0), X.nnz
    ((3, 1024), True, 6)
    """
    bits = check_bits("hash_features", hash_bits)
    if not columns:
        raise DataError("hash_features: there are no columns.")
    hashes: list[npt.NDArray[np.uint64]] = []
    present: list[npt.NDArray[np.bool_]] = []
    for name, values in columns.items():
        found, there = hash_column(name, values, seed)
        if hashes and len(found) != len(hashes[0]):
            raise DataError(
                f"hash_features: column {name!r} has {len(found)} rows, the first column has "
                f"{len(hashes[0])}."
            )
        hashes.append(found)
        present.append(there)
    table, mask = np.stack(hashes, axis=1), np.stack(present, axis=1)
    return to_csr(table[mask], np.cumsum(np.r_[0, mask.sum(axis=1)]), bits, signed)


def interactions(A: Any, B: Any, hash_bits: int = 20, *, seed: int = 0, signed: bool = True) -> Any:
    """Products of the features of two matrices, row by row, hashed into 2**hash_bits columns.

    A: [rows, a], B: [rows, b], SciPy sparse of any kind. For every non-zero A[r, i] and B[r, j]
    the row r has A[r, i] * B[r, j] in the column that the hash of (i, j) names, with the sign that
    it chooses (`signed`). Returns a `csr_array` float32 [rows, 2**hash_bits] with as many
    non-zeros per row as A's times B's, less those that share a column. Raises `DataError`.

    >>> A, B = sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), sparse.csr_array([[5.0], [7.0]])
    >>> abs(interactions(A, B, 8)).sum(axis=1).tolist()
    [10.0, 21.0]
    """
    bits = check_bits("interactions", hash_bits)
    left, right = accept(A, "interactions: A"), accept(B, "interactions: B")
    if not isinstance(left, CSR) or not isinstance(right, CSR):
        raise DataError("interactions: A and B must be sparse; scipy.sparse.csr_array(A) makes it.")
    if A.shape[0] != B.shape[0]:
        raise DataError(f"interactions: A has {A.shape[0]} rows and B has {B.shape[0]}.")
    lengths = np.diff(left.indptr) * np.diff(right.indptr)
    indptr = np.cumsum(np.r_[0, lengths])
    hashes = np.empty(indptr[-1], np.uint64)
    values = np.empty(indptr[-1], np.float32)
    multiply_rows(
        left.indptr, left.indices, left.values, right.indptr, right.indices, right.values,
        np.uint64(seed), hashes, values,
    )  # fmt: skip
    return to_csr(hashes, indptr, bits, signed, values)


def check_bits(name: str, bits: int) -> int:
    """`bits` if so many can number columns."""
    if not 1 <= bits <= MOST_BITS:
        raise DataError(f"{name}: hash_bits={bits}, but it is 1 to {MOST_BITS}.")
    return bits


def hash_column(
    name: str, values: Any, seed: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """A hash of every value of one column, and whether there is a value."""
    seed = xxhash.xxh3_64_intdigest(name.encode(), seed)
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=None)
    if array.ndim != 1:
        raise DataError(
            f"hash_features: column {name!r} has the shape {array.shape}, but is one value per row."
        )
    if array.dtype.kind in "biu":
        numbers = array.astype(np.int64).view(np.uint64)
        return mix(numbers * GOLDEN + np.uint64(seed)), np.ones(array.size, np.bool_)
    if array.dtype.kind not in "OUT":
        raise DataError(
            f"hash_features: column {name!r} is of dtype {array.dtype}, but holds text or whole "
            "numbers; a number with a fraction is a feature as it is."
        )
    known = hash_texts(name, array.tolist(), seed)
    hashes = np.fromiter((known[value] for value in array.tolist()), np.uint64, array.size)
    return hashes, np.array([value is not None for value in array.tolist()], np.bool_)


def hash_texts(name: str, values: Iterable[Any], seed: int) -> dict[Any, int]:
    """The hash of every different text; that of None is not looked at."""
    known: dict[Any, int] = {None: 0}
    for row, value in enumerate(values):
        if value in known:
            continue
        if not isinstance(value, str):
            raise DataError(
                f"hash_features: row {row} of column {name!r} is {value!r}, but must be text, or "
                "None where there is nothing."
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
    """Hashed features [nnz] of rows as a matrix; values: 1 by default, times the sign."""
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
    """Hash and product of every pair of non-zeros of a row of A and the same row of B, in order."""
    filled = 0
    for row in range(a_indptr.size - 1):
        for p in range(a_indptr[row], a_indptr[row + 1]):
            first = mix_one(np.uint64(a_indices[p]) + seed)
            for q in range(b_indptr[row], b_indptr[row + 1]):
                second = np.uint64(b_indices[q]) * GOLDEN
                hashes[filled] = mix_one(first + second)
                values[filled] = a_values[p] * b_values[q]
                filled += 1
