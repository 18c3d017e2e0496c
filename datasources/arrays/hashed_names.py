"""The names of hashed columns: see `feature_hashing.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import DataError
from .numbered_names import NumberedNames

MOST_BITS = 30  # 2**31 columns would not be numbered by an int32
MOST_NAMES = 1 << 20  # names of hashed features that are kept
LONGEST = 200  # characters from which a name takes no further features
SHARED = " | "
MINUS = "minus "  # before the name of a feature whose value in its column is -1
Hashes = tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]
"""Of each row: the hash, and whether it has a value."""


class HashedWords(NumberedNames):
    """The vocabulary of hashed words: 2**bits columns, most of them without a name.

    - bits: 1 to 30.
    - first: names of columns that come before the hashed ones.
    - seen: names of hashed columns by their number, for features that were kept.

    >>> words = HashedWords(20)
    >>> len(words), words[5], words.column("socket") == words.column("socket")
    (1048576, '#5', True)
    >>> list(HashedWords(1, ["price"], {1: "city=Rome"}))
    ['price', '#0', 'city=Rome']
    """

    def __init__(
        self, bits: int, first: Sequence[str] = (), seen: Mapping[int, str] | None = None
    ) -> None:
        """Check the number of bits."""
        self.bits = check_bits("HashedWords", bits)
        self.first = list(first)
        self.seen: Mapping[int, str] = {} if seen is None else seen

    def column(self, word: str) -> int:
        """Return the column that any word is hashed to."""
        return len(self.first) + (xxhash.xxh3_64_intdigest(word.encode()) & ((1 << self.bits) - 1))

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.first) + (1 << self.bits)

    def _name(self, number: int) -> str:
        """Return the name of a column: of `first` or `seen`, else "#" and its number."""
        before = len(self.first)
        if number < before:
            return self.first[number]
        return self.seen.get(number - before, f"#{number - before}")

    def opposites(self) -> dict[int, str]:
        """Return the columns that are minus their features, and the names of these features.

        The weight of such a feature is minus that of its column.

        >>> HashedWords(1, ["price"], {1: "minus city=Rome"}).opposites()
        {2: 'city=Rome'}
        """
        found = {}
        for column, name in self.seen.items():
            parts = name.split(SHARED)
            if all(part.startswith(MINUS) for part in parts):
                plain = SHARED.join(part.removeprefix(MINUS) for part in parts)
                found[len(self.first) + column] = plain
        return found

    def __eq__(self, other: object) -> bool:
        """Whether both give the same words the same columns."""
        if not isinstance(other, HashedWords):
            return False
        return self.bits == other.bits and self.first == other.first

    def __hash__(self) -> int:
        """Hash the number of bits."""
        return hash(self.bits)


class SeenNames(dict[int, str]):
    """The names of hashed features by column, such as `section=python`, at most `MOST_NAMES`.

    Features that share a column share a name: `section=python | minus region=north`, where the
    column is -1 in rows from the north.
    """

    def add(self, hashes: Hashes, bits: int, columns: Mapping[str, Any], *, signed: bool) -> None:
        """Add the features of a column, or of a pair of columns.

        hashes: of each row. columns: the values that were hashed, by name. signed: see
        `hash_features`.
        """
        values, present = hashes
        rows = np.flatnonzero(present)
        _, first = np.unique(values[rows], return_index=True)
        for row in rows[np.sort(first)].tolist():
            column = int(values[row]) & ((1 << bits) - 1)
            name = " & ".join(f"{name}={given[row]}" for name, given in columns.items())
            if signed and int(values[row]) >> 63:
                name = MINUS + name
            old = self.get(column)
            if old is None and len(self) < MOST_NAMES:
                self[column] = name
            elif old is not None and name not in old.split(SHARED) and len(old) < LONGEST:
                self[column] = f"{old}{SHARED}{name}"


def check_bits(name: str, bits: int) -> int:
    """Return `bits`; raise `DataError` unless so many bits can number columns."""
    if not 1 <= bits <= MOST_BITS:
        raise DataError(f"{name}: hash_bits={bits}: must be 1 to {MOST_BITS}.")
    return bits
