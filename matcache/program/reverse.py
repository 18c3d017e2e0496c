"""Differentiate a traced program: reverse mode, by instructions that follow those of the loss.

The loss of a row is a number, or several that are added up. Its derivatives by what belongs to the
row are values of the program. A table, a shared row or a number belongs to all rows: its derivative
is a sum over them, which the program leaves as factors, see `Factors`. (Griewank and Walther,
Evaluating Derivatives, 2008, chapter 3.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ShapeError
from ..notation.operand import apply
from .derivatives import DERIVATIVES, product
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
    Value,
    reads,
    writes,
)
from .recorder import Recorder
from .straight import Straight
from .trace import Traced

_SHARED = (Access.SHARED, Access.ENTRY, Access.COLUMN, Access.NUMBER)

Sum = Literal["own", "columns", "turned columns", "product", "turned product"]


@dataclass(frozen=True)
class Factors:
    """A part of the derivative by an argument, of values of the program.

    how: "own": the value is the derivative, row by row or entry by entry. "columns": the sums of
        its columns [1 x k]. "product": left.T @ right of two values. "turned": the transposed
        matrix of that.
    """

    how: Sum
    values: tuple[Traced, ...]


class Reverse:
    """The derivatives of a loss by arguments, and by values that they are computed from.

    factors: by number of the argument, also those that are computed from the ones asked for.
    """

    def __init__(self, recorder: Recorder, line: Straight, root: Value, by: Iterable[int]) -> None:
        """Record the derivatives of `root` by the arguments of these numbers."""
        self.recorder = recorder
        self.factors: dict[int, list[Factors]] = defaultdict(list)
        self._by = _with_made(recorder, by)
        self._needs = self._active(line.body)
        self._found: dict[int, Any] = {root.id: 1.0}  # derivatives by values
        for step in reversed(line.body):
            out = writes(step)
            if out is not None and out.id in self._needs and out.id in self._found:
                self._back(step, out, self._found.pop(out.id))
        self._leaves()

    # ------------------------------------------------------------- through the program

    def _active(self, body: list[Instruction]) -> set[int]:
        """Return the ids of the values that depend on what is asked for."""
        values = self.recorder.argument_values.values()
        needs = {v.id for v in values if v.arg in self._by}
        for step in body:
            table = getattr(step, "matrix", getattr(step, "table", -1))
            out = writes(step)
            if out is not None and (table in self._by or any(v.id in needs for v in reads(step))):
                needs.add(out.id)
        return needs

    def _back(self, step: Instruction, out: Value, g: Any) -> None:
        """Pass g, the derivative by `out`, on to what `out` is computed from."""
        match step:
            case Apply():
                self._apply(step, g)
            case Dot():
                g = self._wide(g, out)
                if self._of(step.vec):
                    self._add(step.vec, g @ self._table(step.table), step.vec)
                self._pair(step.table, g, self._traced(step.vec))
            case Gather():
                weight = self._traced(step.weight)
                g = self._wide(g, out)
                if self._of(step.weight):
                    back = apply("sddmm", g, self._table(step.table), weight)
                    self._add(step.weight, back, step.weight)
                self._pair(step.table, weight, g)
            case Product():
                g = self._wide(g, out)
                if self._of(step.vec):
                    self._add(step.vec, self._times_turned(g, step), step.vec)
                self._pair(step.matrix, self._traced(step.vec), g)
            case Reduce():
                source = self._traced(step.source)
                if step.op != "sum":  # equal ones share it
                    here = source == self._traced(out)
                    g = product(g, here / apply("rowsum", here))
                self._add(step.source, g, step.source)

    def _apply(self, step: Apply, g: Any) -> None:
        rule = DERIVATIVES.get(step.op)
        if rule is None:
            where = self.recorder.lines.get(id(step), "")
            raise ShapeError(
                f"grad: {step.op}{' at ' if where else ''}{where}: has no derivative among the "
                "operations. Differentiate by hand, or keep it from what is differentiated."
            )
        if step.op == "mul" and self._of_column(step, g):
            return
        args = [self._traced(a) if isinstance(a, Value) else a for a in step.args]
        for argument, back in zip(step.args, rule(g, self._traced(step.out), *args), strict=True):
            if isinstance(argument, Value) and self._of(argument):
                self._add(argument, back, step.out)

    def _of_column(self, step: Apply, g: Any) -> bool:
        """Note a product for a shared vector times the row's own, where g is one number per row.

        Its derivative is a product of matrices, which need not be made element by element.
        """
        if isinstance(g, Traced) and g.kind() is not Kind.ROW:
            return False
        for shared, own in (step.args, step.args[::-1]):
            if not isinstance(shared, Value) or not isinstance(own, Value):
                continue
            by_row = own.kind is Kind.VEC and own.access not in _SHARED
            if not by_row or shared.access not in (Access.SHARED, Access.ENTRY):
                continue
            left, right = self._traced(own), self._wide(g, None)
            if self._of(own):
                self._add(own, product(g, self._traced(shared)), step.out)
            if self._of(shared):
                pair = (left, right) if shared.access is Access.ENTRY else (right, left)
                self.factors[shared.arg].append(Factors("product", pair))
            return True
        return False

    def _add(self, value: Value, g: Any, out: Value) -> None:
        """Add g, of the extent of `out`, to the derivative by `value`, which may be shorter."""
        if g is None or not self._of(value):
            return
        if _extent(value) < _extent(out):
            if _extent_of(g) >= Kind.VEC.value:
                g = apply("rowsum", g)
            elif out.kind is Kind.NNZ:
                g = product(g, apply("rownnz", self._traced(out)))
            else:
                g = product(g, float(out.length))
        before = self._found.get(value.id)
        self._found[value.id] = g if before is None else before + g

    # ------------------------------------------------------------- to the arguments

    def _leaves(self) -> None:
        """Note the derivatives by arguments that are read as values; made ones first."""
        values = [v for v in self.recorder.argument_values.values() if v.id in self._found]
        for value in sorted(values, key=lambda v: -v.arg):
            g = self._wide(self._found[value.id], value)
            match value.access:
                case Access.ROWS:
                    self._of_rows(value, g)
                case Access.VALUES:
                    self.factors[value.arg].append(Factors("own", (g,)))
                case Access.COLUMN:
                    part = Factors("turned product", (g, self._number(1.0)))
                    self.factors[value.arg].append(part)
                case Access.ENTRY if value.kind is Kind.NNZ:
                    part = Factors("product", (g, self._number(1.0)))
                    self.factors[value.arg].append(part)
                case Access.ENTRY:
                    self.factors[value.arg].append(Factors("turned columns", (g,)))
                case _:
                    self.factors[value.arg].append(Factors("columns", (g,)))

    def _of_rows(self, value: Value, g: Traced) -> None:
        arguments, made = self.recorder.arguments, self.recorder.made
        first = len(arguments) - len(made)
        if value.arg < first:
            self.factors[value.arg].append(Factors("own", (g,)))
            return
        left, matrix = (int(part) for part in made[value.arg - first].parts)  # a product
        if matrix in self._by:
            rows = Traced(self.recorder, None, left)
            self.factors[matrix].append(Factors("product", (rows, g)))
        if left in self._by:
            turned = self._turned(matrix, arguments[left].columns)
            self.factors[left].append(Factors("own", (g @ turned,)))

    def _pair(self, table: int, left: Traced, right: Traced) -> None:
        """Note the derivative left.T @ right by a table."""
        if table not in self._by:
            return
        self.factors[table].append(Factors("product", (_by_row(left), _by_row(right))))

    # ------------------------------------------------------------- helpers

    def _of(self, value: Value) -> bool:
        return value.id in self._needs

    def _traced(self, value: Value) -> Traced:
        return Traced(self.recorder, value)

    def _table(self, number: int) -> Traced:
        return Traced(self.recorder, None, number)

    def _wide(self, g: Any, like: Value | None) -> Any:
        """Return g as a value of the kind of `like`, or of one number per row; no argument."""
        if like is None or _extent(like) == Kind.ROW.value:
            return g if isinstance(g, Traced) and _is_made(g) else self._number(g)
        if not isinstance(g, Traced) or _extent_of(g) < _extent(like):
            return apply("full", self._traced(like), g)
        return g if _is_made(g) else apply("copy", g)

    def _number(self, g: Any) -> Traced:
        """Return g as one number per row."""
        out = self.recorder.new(Kind.ROW)
        value = g.as_value() if isinstance(g, Traced) else float(g)
        self.recorder.add(Apply(out, "copy", (value,)))
        return self._traced(out)

    def _times_turned(self, g: Traced, step: Product) -> Traced:
        found: Traced = g @ self._turned(step.matrix, step.vec.length)
        return found

    def _turned(self, matrix: int, columns: int) -> Traced:
        """Return a matrix argument, transposed before the program."""
        what = Argument("mat", f"{self.recorder.arguments[matrix].name}.T", columns)
        return self._table(self.recorder.make("transpose", (matrix,), what))


def _by_row(value: Traced) -> Any:
    """Return a value that each row has of its own."""
    shared = value.value is not None and value.value.access in _SHARED
    return apply("copy", value) if shared else value


def _is_made(g: Traced) -> bool:
    """Return whether an instruction of the program makes this value."""
    return g.value is not None and g.value.arg < 0


def _with_made(recorder: Recorder, by: Iterable[int]) -> set[int]:
    """Return these arguments, and those that are computed from them."""
    found = set(by)
    first = len(recorder.arguments) - len(recorder.made)
    for number, made in enumerate(recorder.made, first):
        if found & set(made.numbers):
            found.add(number)
    return found


def _extent(value: Value) -> int:
    """Return the order of kinds by their extent; one number counts as one per row."""
    return max(value.kind.value, Kind.ROW.value)


def _extent_of(g: Any) -> int:
    return _extent(g.as_value()) if isinstance(g, Traced) else 0
