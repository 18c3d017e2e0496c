"""A program that can be printed, and how much work it is."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from ..program.instructions import (
    Access,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Repeat,
    Store,
    Value,
    walk,
)
from ..program.schedule import Schedule, all_values
from ..program.traffic import flops


@dataclass(eq=False)
class Compiled:
    """A scheduled program: a function traced for one signature, or a dense expression."""

    plan: Schedule
    single: bool  # returns one value, not a tuple
    returned: tuple[int, ...]  # argument number for a returned argument, else -1
    writes: tuple[int, ...]  # arguments that the function assigns to
    must_run: tuple[Repeat, ...]  # loops that need a round: their values are used later
    recipe: Any = None  # what the function's caller makes of the results
    _flops_each: dict[Any, tuple[int, int]] = field(default_factory=dict)  # by loop counts
    paddings: dict[Any, dict[int, float | None]] = field(default_factory=dict)  # see `padding.py`

    @functools.cached_property
    def rows_written(self) -> dict[int, int]:
        """Rows of arguments that are assigned to: value id -> argument number."""
        stores = (i.target for i in walk(self.plan.program.body) if isinstance(i, Store))
        return {target.id: target.arg for target in stores if target.access is Access.ROWS}

    @functools.cached_property
    def loops(self) -> bool:
        """Whether it contains a `repeat`, so that a row's work is unknown beforehand."""
        return any(isinstance(i, Repeat) for i in self.plan.program.body)

    @functools.cached_property
    def entry_loops(self) -> bool:
        """Whether a `repeat` goes over non-zeros, so that long rows take far longer."""
        loops: list[Instruction] = [i for i in self.plan.program.body if isinstance(i, Repeat)]
        return any(value.kind is Kind.NNZ for value in all_values(loops))

    @functools.cached_property
    def counts(self) -> list[int]:
        """The numbers of the arguments that are loop counts."""
        loops = [i for i in walk(self.plan.program.body) if isinstance(i, Repeat)]
        counts = [i.count for i in loops if isinstance(i.count, Value)]
        return sorted({count.arg for count in counts if count.access is Access.NUMBER})

    @functools.cached_property
    def width(self) -> int:
        """The length of the longest vector."""
        return max((v.length for v in all_values(self.plan.program.body)), default=1)

    @functools.cached_property
    def gathered(self) -> tuple[int, ...]:
        """The tables that are only read by gathering their rows."""
        body = self.plan.program.body
        found = {i.table for i in walk(body) if isinstance(i, Dot | Gather)}
        found -= {i.matrix for i in walk(body) if isinstance(i, Product)}
        read = {value.arg for value in (*all_values(body), *self.plan.program.returns)}
        return tuple(sorted(found - read))

    def flops_each(self, numbers: dict[int, float]) -> tuple[int, int]:
        """Return the operations of a call per non-zero and per row.

        numbers: argument number -> value, for loop counts.
        """
        rounds = tuple(numbers.items())
        found = self._flops_each.get(rounds)
        if found is None:
            found = flops(self.plan, numbers, 1, 0), flops(self.plan, numbers, 0, 1)
            self._flops_each[rounds] = found
        return found
