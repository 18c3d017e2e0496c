"""Loops of row-wise programs: `repeat` and `until`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..errors import ShapeError, row_error
from .instructions import (
    Access,
    Instruction,
    Kind,
    Repeat,
    Until,
    Value,
    made_in,
    reads,
    walk,
)
from .recorder import Recorder, recorder_in_use
from .trace import Traced, described


class EagerLoop:
    """The state of a `repeat` that really runs, in the reference."""

    def __init__(self) -> None:
        """Start with `until` not reached."""
        self.stop = False


eager_loop: ContextVar[EagerLoop | None] = ContextVar("eager_loop", default=None)


def repeat(count: Any) -> Iterator[None]:
    """Run a block `count` times inside a `@rowwise` function, compiled as a loop.

    count: an int, or an argument of the function (a number or a 1 x 1 Mat), the same for all rows;
        or one number per row. `repeat(x > 0.0)` runs the block for rows with such an x alone.

    Assign values that a round passes to the next one with `<<=`.
    """
    recorder = recorder_in_use.get()
    if recorder is None:
        loop = eager_loop.get()
        for _ in range(int(count)):
            yield None
            if loop is not None and loop.stop:
                loop.stop = False
                return
        return
    times = _rounds(recorder, count)
    # The body runs twice, to find names that the second round reads from the first. A compiled loop
    # could not do this: its text is the same in every round.
    first: list[Instruction] = []
    recorder.open.append(first)
    yield None
    recorder.open.pop()
    names = _names(sys._getframe(1).f_locals)
    body: list[Instruction] = []
    recorder.open.append(body)
    yield None
    recorder.open.pop()
    handed_over = made_in(first) & {v.id for i in walk(body) for v in reads(i)}
    if handed_over:
        found = ", ".join(sorted(names.get(i, "a value") for i in handed_over))
        raise row_error(
            f"the name {found} is bound anew in each round of a repeat, and read in the "
            "next one. A loop is compiled once: make the value before the loop and assign to it "
            "with <<=."
        )
    recorder.add(Repeat(times, body))


def _rounds(recorder: Recorder, count: Any) -> Value | int:
    if not isinstance(count, Traced):
        return int(count)
    if count.value is not None and count.value.access is Access.NUMBER:
        return count.value
    if count.argument >= 0:
        argument = recorder.arguments[count.argument]
        if argument.form == "mat" and argument.rows_one and argument.columns == 1:
            return recorder.argument(count.argument, Access.NUMBER, Kind.UNI)
    value = count.as_value()
    if value.kind is not Kind.ROW:
        raise row_error(
            f"repeat(n): n is {described(value)}. It must be an int, an argument that is "
            "one number, or one number per row."
        )
    return value


def _names(variables: dict[str, Any]) -> dict[int, str]:
    """Return the names of local variables, by the id of the value they stand for."""
    traced = ((n, v.value) for n, v in variables.items() if isinstance(v, Traced))
    return {value.id: f"'{name}'" for name, value in traced if value is not None}


def until(condition: Any) -> None:
    """End the innermost `repeat` for this row when the condition is not zero.

    condition: one number per row.

    This must be the last statement of the loop.
    """
    recorder = recorder_in_use.get()
    if recorder is None:
        loop = eager_loop.get()
        if loop is None:
            raise ShapeError("until(...) belongs inside a @rowwise function.")
        loop.stop = bool(float(condition))
        return
    if not isinstance(condition, Traced) or len(recorder.open) < 2:
        raise row_error("until(c) needs one number per row, inside a repeat.")
    value = condition.as_value()
    if value.kind not in (Kind.ROW, Kind.UNI):
        raise row_error(f"until(c): c is {described(value)}; it needs one per row.")
    recorder.add(Until(value))
