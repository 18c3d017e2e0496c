"""Rewrite the body of a traced program as a straight line, in which no value is assigned twice.

`repeat(n)` becomes n copies of its body, `x <<= y` a new value in place of x, and equal
computations become one. A dense product of two arguments becomes an argument that is computed
before the program, by BLAS.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import ShapeError
from .instructions import (
    Access,
    Apply,
    Argument,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Reduce,
    Repeat,
    Store,
    Until,
    Value,
    reads,
    writes,
)
from .recorder import Recorder

MOST_ROUNDS = 64  # of loops within each other: each keeps its values, and has a text of its own


class Straight:
    """The straight line of a body.

    body: its instructions.
    """

    def __init__(self, recorder: Recorder, body: list[Instruction]) -> None:
        """Rewrite `body`. Raises ShapeError for what has no straight line."""
        self.recorder = recorder
        self.body: list[Instruction] = []
        self._now: dict[int, Value | float] = {}  # what stands for a value of the old body
        self._known: dict[tuple[Any, ...], Value] = {}
        self._run(body, 1)

    def now(self, value: Value | float) -> Value | float:
        """Return what stands for a value of the old body, at its end."""
        return self._now.get(value.id, value) if isinstance(value, Value) else value

    def value(self, value: Value) -> Value:
        """Return the value that stands for another one."""
        found = self.now(value)
        assert isinstance(found, Value)
        return found

    def _run(self, body: list[Instruction], copies: int) -> None:
        for step in body:
            where = self.recorder.lines.get(id(step), "")
            match step:
                case Repeat():
                    rounds = step.count if isinstance(step.count, int) else 0
                    if not 1 <= rounds * copies <= MOST_ROUNDS:
                        raise ShapeError(
                            f"grad: the repeat at {where}: must have 1 to {MOST_ROUNDS} rounds, a "
                            "number that the function knows: a gradient keeps the values of each "
                            "round. Write repeat(10), say."
                        )
                    for _ in range(rounds):
                        self._run(step.body, rounds * copies)
                case Until():
                    raise ShapeError(
                        f"grad: until at {where}: rows that leave a loop early have no common "
                        "gradient. Leave it out, or differentiate by hand."
                    )
                case Store():
                    self._store(step, where)
                case _:
                    self._keep(step, where)

    def _store(self, step: Store, where: str) -> None:
        if step.target.arg >= 0:
            name = self.recorder.arguments[step.target.arg].name
            raise ShapeError(
                f"grad: <<= to the argument '{name}' at {where}: a loss must leave its arguments "
                "as they are. Assign to copy(...) of it."
            )
        value = self.now(step.value)
        old = self.value(step.target)
        if isinstance(value, Value) and (value.kind, value.length) == (old.kind, old.length):
            self._now[step.target.id] = value
            return
        wide = Apply(self.recorder.new(old.kind, old.length), "full", (old, value))
        self.body.append(wide)
        self._now[step.target.id] = wide.out

    def _keep(self, step: Any, where: str) -> None:
        """Add an instruction, unless the same is there already."""
        own = writes(step)
        assert own is not None
        if isinstance(step, Product) and (found := self._before(step)) is not None:
            self._now[own.id] = found
            return
        match step:
            case Apply():
                step = replace(step, args=tuple(map(self.now, step.args)))
            case Dot() | Product():
                step = replace(step, vec=self.value(step.vec))
            case Gather():
                step = replace(step, weight=self.value(step.weight))
            case Reduce():
                step = replace(step, source=self.value(step.source))
        key = (type(step), *_facts(step))
        if key not in self._known:
            self._known[key] = step.out = self.recorder.new(own.kind, own.length)
            self.body.append(step)
            self.recorder.lines[id(step)] = where
        self._now[own.id] = self._known[key]

    def _before(self, step: Product) -> Value | None:
        """Return a product of two arguments, computed before the program."""
        left, arguments = self.value(step.vec), self.recorder.arguments
        if left.access is not Access.ROWS or left.arg >= len(arguments) - len(self.recorder.made):
            return None
        names = f"{arguments[left.arg].name} @ {arguments[step.matrix].name}"
        what = Argument("mat", names, step.out.length, rowlike=True)
        made = self.recorder.make("matmul", (left.arg, step.matrix), what)
        return self.recorder.argument(made, Access.ROWS, Kind.VEC, step.out.length)


def _facts(step: Any) -> tuple[Any, ...]:
    """Return what an instruction computes, comparable."""
    read = tuple(value.id for value in reads(step))
    match step:
        case Apply():
            return step.op, *(a.id if isinstance(a, Value) else repr(a) for a in step.args)
        case Dot() | Gather():
            return *read, step.table
        case Product():
            return *read, step.matrix
        case Reduce():
            return *read, step.op
        case _:
            return read
