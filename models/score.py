"""Scores of blocks that add up over blocks and replicas, without rounding games."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self, cast

import numpy as np

from blocklearn.matcache import Number


class Part(Protocol):
    """What a model's `score` returns by name: something that adds up over blocks."""

    def read(self) -> Self:
        """The same, with plain numbers in place of Mats where these are few.

        What stays a Mat is read by a `Total`, before the replica gets its next block.
        """

    @property
    def finite(self) -> bool:
        """Whether all of its numbers are: a model that diverges has others."""


class Figures(Part, Protocol):
    """A part that adds up by itself, being a few numbers."""

    def __add__(self, other: Self, /) -> Self:
        """The same of both sets of rows together."""

    def figures(self, name: str) -> dict[str, float]:
        """The final figures. Those of a single target are called `NAME/TARGET`."""


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
    """What parts of one name add up in, where a few numbers will not do."""

    @property
    def rooms(self) -> Sequence[Room]:
        """The memory that `clear` takes."""

    def clear(self) -> None:
        """Forget all parts. The first call takes the memory."""

    def add(self, part: Part, rows: int) -> None:
        """Add the part of a block, of which the first `rows` rows are true ones."""

    def figures(self, name: str) -> dict[str, float]:
        """The final figures, as of `Figures`."""


@dataclass(frozen=True)
class Sum:
    """A total and what it is divided by at the very end.

    kind "mean": total / count. "perplexity": exp(-total / count), where total is a log likelihood
    and count the tokens it is of. "root": sqrt(total / count). Both may be 1 x 1 Mats: the learner
    reads them when the block is done.
    """

    total: Number
    count: Number
    kind: Literal["mean", "perplexity", "root"] = "mean"

    def read(self) -> Sum:
        """The same with plain numbers."""
        return Sum(float(self.total), float(self.count), self.kind)

    def __add__(self, other: Sum) -> Sum:
        """Of the rows of both."""
        if self.kind != other.kind:
            raise ValueError(f"Sum: a {self.kind} and a {other.kind} do not add.")
        return Sum(self.total + other.total, self.count + other.count, self.kind)

    def value(self) -> float:
        """The figure; NaN when nothing was counted."""
        if self.count == 0:
            return math.nan
        mean = self.total / self.count
        if self.kind == "perplexity":
            return math.exp(-mean) if -mean < 700 else math.inf
        return math.sqrt(mean) if self.kind == "root" else mean

    @property
    def finite(self) -> bool:
        """Whether the total is."""
        return math.isfinite(self.total)

    def __str__(self) -> str:
        """The total."""
        return str(self.total)

    def figures(self, name: str) -> dict[str, float]:
        """The one figure."""
        return {name: self.value()}


Score = dict[str, Part]
Sums = dict[str, Figures]


class Tally:
    """Scores of blocks, added up in their order. The memory for it is taken once."""

    def __init__(self, totals: Mapping[str, Total]) -> None:
        """totals: of the names whose parts do not add up by themselves."""
        self._totals = totals
        self._sums: Sums = {}
        self._met: set[str] = set()  # totals that a part was added to

    @property
    def rooms(self) -> Iterable[Room]:
        """The memory that the first `clear` takes."""
        return [room for total in self._totals.values() for room in total.rooms]

    def clear(self) -> None:
        """Forget all blocks."""
        self._sums = {}
        self._met.clear()
        for total in self._totals.values():
            total.clear()

    def add(self, score: Score, rows: int) -> None:
        """Add what was read of a block, of which the first `rows` rows are true ones."""
        for name, part in score.items():
            if name in self._totals:
                self._totals[name].add(part, rows)
                self._met.add(name)
            else:
                own = cast(Figures, part)
                self._sums[name] = self._sums[name] + own if name in self._sums else own

    def figures(self) -> dict[str, float]:
        """The final figures by name."""
        found = values(self._sums)
        for name in self._totals:
            if name in self._met:  # a subclass may score less than its base plans
                found |= self._totals[name].figures(name)
        return found


def add_scores(a: Sums, b: Sums) -> Sums:
    """The scores of two sets of rows together."""
    return {name: a[name] + b[name] if name in a else b[name] for name in b} | {
        name: a[name] for name in a if name not in b
    }


def values(score: Sums) -> dict[str, float]:
    """The final figures by name."""
    found: dict[str, float] = {}
    for name, part in score.items():
        found |= part.figures(name)
    return found
