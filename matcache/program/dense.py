"""A dense expression as data: its leaves, steps and ending. The key of its compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..notation.elementwise import ELEMENTWISE

Ending = Literal["assign", "total", "colsum"]


@dataclass(frozen=True)
class Leaf:
    """How one input is read. kind: full, row (1 x n), column (m x 1), one (1 x 1), random."""

    kind: str
    stream: int = 0


@dataclass(frozen=True)
class Fused:
    """A linearised expression: hashable, so that it is the key of the compiled kernel.

    steps: (operation, references); a reference is ("leaf", n), ("number", n) or ("step", n).
    The value of the last step (or `result`) is the value of the expression.
    """

    leaves: tuple[Leaf, ...]
    numbers: int
    steps: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    result: tuple[str, int]
    ending: Ending
    dtype: str

    @property
    def flat(self) -> bool:
        """Whether rows and columns do not matter, so that it runs over the elements in one loop."""
        return self.ending != "colsum" and all(x.kind in ("full", "one") for x in self.leaves)

    @property
    def flops(self) -> int:
        """Operations per element."""
        return sum(ELEMENTWISE[op].flops for op, _ in self.steps) + (self.ending != "assign")
