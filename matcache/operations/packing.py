"""How a symmetric matrix [k x k] is packed into one row of numbers.

Its rows come in groups of 16, those of a group from the group's first column to the last, filled up
to whole vectors. So it is the upper half, but for the squares on the diagonal. What is left of the
diagonal does not matter; the filling is zero.
"""

from typing import NamedTuple

LANES = 16  # numbers of a vector


class Group(NamedTuple):
    """Rows [first, end); offset: of the first one's first number; width: numbers of each."""

    first: int
    end: int
    offset: int
    width: int

    def row(self, r: str) -> str:
        """Offset of row r, as text."""
        return f"{self.offset} + ({r} - {self.first}) * {self.width}"


def padded(k: int) -> int:
    """k rounded up to whole vectors."""
    return -(-k // LANES) * LANES


def groups(k: int) -> list[Group]:
    """The groups of rows of a packed matrix."""
    found, offset = [], 0
    for first in range(0, k, LANES):
        found.append(Group(first, min(first + LANES, k), offset, padded(k) - first))
        offset += LANES * found[-1].width
    return found


def packed(k: int) -> int:
    """Numbers of a packed matrix: k (k + 1) / 2 and some."""
    return sum(LANES * group.width for group in groups(k))
