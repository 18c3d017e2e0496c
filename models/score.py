"""Scores of blocks that add up over blocks and replicas, without rounding games."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol


class Part(Protocol):
    """What a model's `score` returns by name: something that adds up over blocks."""

    def read(self) -> Any:
        """The same with plain numbers in place of Mats, which the next block will overwrite."""

    def __add__(self, other: Any) -> Any:
        """The same of both sets of rows together."""

    @property
    def finite(self) -> bool:
        """Whether all of its numbers are: a model that diverges has others."""

    def figures(self, name: str) -> dict[str, float]:
        """The final figures. Those of a single target are called `NAME/TARGET`."""


@dataclass(frozen=True)
class Sum:
    """A total and what it is divided by at the very end.

    kind "mean": total / count. "perplexity": exp(-total / count), where total is a log likelihood
    and count the tokens it is of. "root": sqrt(total / count). Both may be 1 x 1 Mats: the learner
    reads them when the block is done.
    """

    total: Any
    count: Any
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


def add_scores(a: Score, b: Score) -> Score:
    """The scores of two sets of rows together."""
    return {name: a[name] + b[name] if name in a else b[name] for name in b} | {
        name: a[name] for name in a if name not in b
    }


def values(score: Score) -> dict[str, float]:
    """The final figures by name."""
    found: dict[str, float] = {}
    for name, part in score.items():
        found |= part.figures(name)
    return found
