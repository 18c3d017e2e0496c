"""Pack a symmetric matrix [k x k] into one row of numbers.

Its rows come in groups of 16. Each row of a group runs from the group's first column to the last,
filled up to whole vectors. So the upper half is stored, and whole squares on the diagonal. Numbers
left of the diagonal do not matter; the filling is zero.
"""

from typing import NamedTuple

LANES = 16  # numbers of a vector


class Group(NamedTuple):
    """Rows [first, end) of a packed matrix.

    offset: place of the first row's first number.
    width: numbers of each row.
    """

    first: int
    end: int
    offset: int
    width: int

    def row(self, r: str) -> str:
        """Return the offset of row r, as text."""
        return f"{self.offset} + ({r} - {self.first}) * {self.width}"


def padded(k: int) -> int:
    """Return k rounded up to whole vectors."""
    return -(-k // LANES) * LANES


def groups(k: int) -> list[Group]:
    """Return the groups of rows of a packed matrix."""
    found, offset = [], 0
    for first in range(0, k, LANES):
        found.append(Group(first, min(first + LANES, k), offset, padded(k) - first))
        offset += LANES * found[-1].width
    return found


def packed(k: int) -> int:
    """Return the size of a packed matrix: slightly more than k (k + 1) / 2 numbers."""
    return sum(LANES * group.width for group in groups(k))
