"""Record the instructions of a traced function."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

from ..errors import row_error, source_line
from .instructions import Access, Argument, Instruction, Kind, Made, Until, Value


class Recorder:
    """The recorded instructions, and the stack of open `repeat` bodies."""

    def __init__(self, arguments: tuple[Argument, ...]) -> None:
        """Start without instructions."""
        self.arguments = arguments
        self.lines: dict[int, str] = {}  # source lines of instructions, by identity
        self.recipe: Any = None  # what the function's caller makes of its results
        self.made: list[Made] = []  # the last arguments, computed before the program runs
        self.body: list[Instruction] = []
        self.open = [self.body]
        self.ids = itertools.count()
        self.argument_values: dict[tuple[int, Access, Kind, int], Value] = {}

    def add(self, instruction: Instruction) -> None:
        """Append to the innermost open body."""
        if self.open[-1] and isinstance(self.open[-1][-1], Until):
            raise row_error("until(...) must be the last statement of its repeat.")
        self.open[-1].append(instruction)
        self.lines[id(instruction)] = source_line()

    def new(self, kind: Kind, length: int = 1, pattern: int = 0) -> Value:
        """Return a new value; pattern: of its non-zeros."""
        return Value(next(self.ids), kind, length, pattern=pattern)

    def make(self, op: str, parts: tuple[int | float, ...], what: Argument) -> int:
        """Return the number of the argument that holds `op` of these arguments and numbers.

        parts: numbers of arguments (int), and numbers (float).
        what: describes the result.
        """
        made = Made(op, parts)
        if made not in self.made:
            self.made.append(made)
            self.arguments = (*self.arguments, what)
        return len(self.arguments) - len(self.made) + self.made.index(made)

    def argument(
        self, number: int, access: Access, kind: Kind, length: int = 1, pattern: int = 0
    ) -> Value:
        """Return the one value that stands for an argument read in this way.

        pattern: whose columns say which number belongs to a non-zero.
        """
        key = (number, access, kind, pattern)
        if key not in self.argument_values:
            value = Value(next(self.ids), kind, length, number, access, pattern=pattern)
            self.argument_values[key] = value
        return self.argument_values[key]


recorder_in_use: ContextVar[Recorder | None] = ContextVar("recorder_in_use", default=None)
