"""Scores that add up over blocks and replicas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Number

if TYPE_CHECKING:
    from blocklearn.datasources import HostBlock


class Part(Protocol):
    """A value of a model's `score`: sums that add up over blocks."""

    def read(self) -> Self:
        """Return self with plain numbers in place of small Mats.

        A `Total` reads the remaining Mats, before the replica gets its next block.
        """

    @property
    def finite(self) -> bool:
        """Whether all its numbers are finite: they are not if the model diverges."""


class Figures(Part, Protocol):
    """A part of a few numbers, which adds up by itself."""

    def __add__(self, other: Self, /) -> Self:
        """Return the part of both sets of rows together."""

    def figures(self, name: str) -> dict[str, float]:
        """Return the final figures by name. A single target's are called `NAME/TARGET`."""


class Room(NamedTuple):
    """An array that is planned before it is allocated."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Total(Protocol):
    """Adds up the parts of one name, where that needs more than a few numbers."""

    @property
    def rooms(self) -> Sequence[Room]:
        """The memory that `clear` takes."""

    def clear(self) -> None:
        """Forget all parts. The first call takes the memory."""

    def add(self, part: Part, rows: int) -> None:
        """Add the part of a block whose first `rows` rows are true ones."""

    def figures(self, name: str) -> dict[str, float]:
        """Return the final figures, as `Figures` does."""


class DataScore(Protocol):
    """Scores parameters by all rows of an evaluation, as they lie on the host."""

    @property
    def rooms(self) -> Sequence[Room]:
        """The memory that `clear` takes."""

    def calls(self) -> Sequence[tuple[object, ...]]:
        """Return the kernels that it calls, each with arguments of the types that it will get."""

    def clear(self) -> None:
        """Forget all rows, and take note of the present parameters."""

    def add(self, block: HostBlock) -> None:
        """Count the rows of a block. The order of blocks must not matter."""

    @property
    def counted(self) -> Sequence[NDArray[np.int64]]:
        """The arrays of what was counted: those of two sets of rows add up."""

    def figures(self) -> dict[str, float]:
        """Return the final figures by name."""


Kind = Literal["mean", "perplexity", "root"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Sum:
    """A total, and the count that divides it at the very end.

    total, count: numbers, or 1 x 1 Mats, which the learner reads when the block is done.
    kind: "mean": total / count. "perplexity": exp(-total / count), where total is a log likelihood
        of `count` tokens. "root": sqrt(total / count).
    """

    total: Number
    count: Number
    kind: Kind = "mean"

    def __post_init__(self) -> None:
        """Raise ValueError for another kind."""
        if self.kind not in KINDS:
            raise ValueError(f"Sum: kind={self.kind!r}: must be one of {', '.join(KINDS)}.")

    def read(self) -> Sum:
        """Return the sum with plain numbers."""
        return Sum(float(self.total), float(self.count), self.kind)

    def __add__(self, other: Sum) -> Sum:
        """Return the sum over the rows of both."""
        if self.kind != other.kind:
            raise ValueError(f"Sum: a {self.kind} and a {other.kind} do not add.")
        return Sum(self.total + other.total, self.count + other.count, self.kind)

    def value(self) -> float:
        """Return the figure; NaN when nothing was counted."""
        if self.count == 0:
            return math.nan
        mean = self.total / self.count
        if self.kind == "perplexity":
            return math.exp(-mean) if -mean < 700 else math.inf
        return math.sqrt(mean) if self.kind == "root" else mean

    @property
    def finite(self) -> bool:
        """Whether the total is finite."""
        return math.isfinite(self.total)

    def __str__(self) -> str:
        """Return the total as text."""
        return str(self.total)

    def figures(self, name: str) -> dict[str, float]:
        """Return the one figure, called `name`."""
        return {name: self.value()}


Score = dict[str, Part]
"""The parts of a score by name, as `Model.score` returns them for a block."""
Sums = dict[str, Figures]


class Tally:
    """Adds up the scores of blocks, in their order.

    The first `clear` takes its memory, once.
    """

    def __init__(self, totals: Mapping[str, Total], data_scores: Sequence[DataScore] = ()) -> None:
        """Make a tally without memory.

        totals: for the names whose parts do not add up by themselves.
        data_scores: scores that read blocks on the host.
        """
        self._totals, self._data_scores = totals, data_scores
        self._sums: Sums = {}
        self._met: set[str] = set()  # totals that a part was added to

    @property
    def rooms(self) -> Iterable[Room]:
        """The memory that the first `clear` takes."""
        of_totals = [room for total in self._totals.values() for room in total.rooms]
        return [*of_totals, *(room for score in self._data_scores for room in score.rooms)]

    @property
    def counted(self) -> Sequence[NDArray[np.int64]]:
        """What the scores that read blocks have counted; see `DataScore`."""
        return [array for score in self._data_scores for array in score.counted]

    def clear(self) -> None:
        """Forget all blocks."""
        self._sums = {}
        self._met.clear()
        for total in self._totals.values():
            total.clear()
        for score in self._data_scores:
            score.clear()

    def count(self, block: HostBlock) -> None:
        """Add a block on the host to the scores that read it."""
        for each in self._data_scores:
            each.add(block)

    def add(self, score: Score, rows: int) -> None:
        """Add the score of a block, already read, whose first `rows` rows are true ones."""
        for name, part in score.items():
            if name in self._totals:
                self._totals[name].add(part, rows)
                self._met.add(name)
            else:
                own = cast(Figures, part)
                self._sums[name] = self._sums[name] + own if name in self._sums else own

    def figures(self) -> dict[str, float]:
        """Return the final figures by name."""
        found = values(self._sums)
        for name in self._totals:
            if name in self._met:  # a subclass may score less than its base plans
                found |= self._totals[name].figures(name)
        for score in self._data_scores:
            found |= score.figures()
        return found


def add_scores(a: Sums, b: Sums) -> Sums:
    """Add up the scores of two sets of rows."""
    return {name: a[name] + b[name] if name in a else b[name] for name in b} | {
        name: a[name] for name in a if name not in b
    }


def values(score: Sums) -> dict[str, float]:
    """Return the final figures by name."""
    found: dict[str, float] = {}
    for name, part in score.items():
        found |= part.figures(name)
    return found
