"""A dense expression as data: leaves, steps and ending; the key of its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..notation.elementwise import ELEMENTWISE

Ending = Literal["assign", "total", "colsum"]


@dataclass(frozen=True)
class Leaf:
    """The way one input is read.

    kind: full, row (1 x n), column (m x 1), one (1 x 1) or random.
    """

    kind: str
    stream: int = 0


@dataclass(frozen=True)
class Fused:
    """A flattened expression, hashable because it is the key of its compiled kernel.

    steps: (operation, references); a reference is ("leaf", n), ("number", n) or ("step", n).

    The value of the expression is that of `result`, or of the last step.
    """

    leaves: tuple[Leaf, ...]
    numbers: int
    steps: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    result: tuple[str, int]
    ending: Ending
    dtype: str

    @property
    def flat(self) -> bool:
        """Whether one loop can run over all elements, without rows and columns."""
        return self.ending != "colsum" and all(x.kind in ("full", "one") for x in self.leaves)

    @property
    def flops(self) -> int:
        """The operations per element."""
        return sum(ELEMENTWISE[op].flops for op, _ in self.steps) + (self.ending != "assign")
