"""Trace a row-local function: run it once with arguments that record operations.

Whether an argument is a vector per row, a vector for all rows, a number per column or a table
follows from its shape and its use. Vectors of length 1 are treated as numbers.

Longer than 300 lines: one class of operands, a method for each operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np

from ..errors import ShapeError, source_line
from ..notation.elementwise import ELEMENTWISE
from ..notation.operand import Operand
from .instructions import (
    Access,
    Apply,
    Argument,
    Count,
    Dot,
    Gather,
    Instruction,
    Kind,
    Made,
    Product,
    Reduce,
    Store,
    Until,
    Value,
)


class TraceError(ShapeError, AttributeError, TypeError):
    """A row's value was used as if it were a whole matrix, or a number on the host."""


class RowShape:
    """`x.shape` of a row: the number of rows is unknown, since a program is the same for any."""

    def __init__(self, columns: int) -> None:
        """Take the number of columns."""
        self.columns = columns

    def __getitem__(self, axis: int) -> int:
        """Return the number of columns, for axis 1."""
        if axis in (1, -1):
            return self.columns
        raise TraceError(
            f"@rowwise: shape[{axis}] at {source_line()}: the function is recorded once for any "
            "number of rows. Use x.shape[1], or pass the number as an argument."
        )


_REDUCE = {"rowsum": "sum", "rowmax": "max", "rowmin": "min"}


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
            raise ShapeError("@rowwise: until(...) must be the last statement of its repeat.")
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


class Traced(Operand):
    """A value inside a traced function, or an argument whose use decides its kind."""

    def __init__(
        self,
        recorder: Recorder,
        value: Value | None,
        argument: int = -1,
        tree: tuple[str, tuple[Any, ...]] | None = None,
    ) -> None:
        """Wrap a value, an argument, or an expression of whole matrices.

        value: None for a matrix argument and for an expression of tables.
        argument: number of a matrix argument, else -1.
        tree: operation and operands, where these are whole matrices and numbers. Only then may the
            result be used as a table.
        """
        self.recorder = recorder
        self.value = value
        self.argument = argument
        self.tree = tree

    # ------------------------------------------------------------- what an argument is

    def described(self) -> str:
        """Return a name for messages."""
        return (
            f"'{self.recorder.arguments[self.argument].name}'" if self.argument >= 0 else "a value"
        )

    def as_value(self, target: Kind | None = None, pattern: int = 0) -> Value:
        """Return this operand as a value.

        target: kind of the other operands of the same operation.
        pattern: theirs, if they are numbers per non-zero.
        """
        if self.value is not None:
            return self.value
        recorder, number = self.recorder, self.whole()
        argument = recorder.arguments[number]
        if target is Kind.NNZ and argument.rows_one and argument.columns != 1:
            return recorder.argument(number, Access.COLUMN, Kind.NNZ, pattern=pattern)
        if argument.rowlike:
            kind = Kind.ROW if argument.columns == 1 else Kind.VEC
            return recorder.argument(number, Access.ROWS, kind, argument.columns)
        if argument.rows_one and argument.columns == 1:
            return recorder.argument(number, Access.NUMBER, Kind.UNI)
        if argument.rows_one:
            return recorder.argument(number, Access.SHARED, Kind.VEC, argument.columns)
        raise ShapeError(
            f"@rowwise: {self.described()} is used element by element, but has neither one row per "
            "row of the block nor a single row. (The rows are those of the sparse arguments, or "
            "else of the first matrix.) A table can be used in sddmm(rows, table, pattern), in "
            "sparse @ table, in rows @ matrix and, if it has one column, as table[sparse]."
        )

    def kind(self) -> Kind | None:
        """Return the kind, or None for an argument that adapts (1 x n)."""
        if self.value is not None:
            return self.value.kind
        argument = self.recorder.arguments[self.whole()]
        return None if argument.rows_one and argument.columns != 1 else self.as_value().kind

    def table(self, what: str) -> int:
        """Return the number of the argument that is used as a table."""
        number = self.whole()
        if number < 0 or self.recorder.arguments[number].form != "mat":
            raise ShapeError(
                f"@rowwise: {what} needs a whole matrix, an argument of the function, as its "
                f"table; got {self.described()} computed inside it, where each row sees only its "
                "own numbers."
            )
        return number

    @property
    def is_whole(self) -> bool:
        """Whether this is an argument, other than a sparse one, or an expression of such."""
        here = self.argument >= 0 and self.recorder.arguments[self.argument].form != "sparse"
        return here or self.tree is not None

    @property
    def is_table(self) -> bool:
        """Whether this is a matrix that no row can use element by element."""
        if self.value is not None or self.tree is not None:
            return self.value is None
        argument = self.recorder.arguments[self.argument]
        return not (argument.rowlike or argument.rows_one)

    def whole(self) -> int:
        """Return the number of the argument that holds this matrix as a whole, or -1.

        An expression of whole matrices becomes an argument, which is computed before the program.
        """
        if self.tree is None:
            return self.argument
        op, operands = self.tree
        parts = tuple(a.whole() if isinstance(a, Traced) else float(a) for a in operands)
        every = [self.recorder.arguments[n] for n in parts if isinstance(n, int)]
        columns = max(argument.columns for argument in every)
        name = f"{op}({', '.join(argument.name for argument in every)})"
        one = all(argument.rows_one for argument in every if argument.form == "mat")
        return self.recorder.make(op, parts, Argument("mat", name, columns, rows_one=one))

    @property
    def T(self) -> Any:
        """Raise an error: a transposed matrix is not row-local."""
        raise ShapeError(
            f"@rowwise: {self.described()}.T: a transposed matrix is not row-local. Transpose "
            "outside the function."
        )

    def __getattr__(self, name: str) -> Any:
        """Raise an error: a row knows only its own numbers."""
        if name.startswith("__"):  # Python's own look-ups
            raise AttributeError(name)
        raise TraceError(
            f"@rowwise: {self.described()}.{name} at {source_line()}: one row of a matrix has no "
            f"{name!r} of its own. Pass what depends on it to the function as another argument; "
            "sums of a row are rowsum(x)."
        )

    @property
    def shape(self) -> RowShape:
        """The shape, of which a row knows the number of columns."""
        if self.value is None:
            return RowShape(self.recorder.arguments[self.whole()].columns)
        if self.value.kind is Kind.NNZ:
            raise self._no("the shape", "Pass the number of columns as an argument")
        return RowShape(self.value.length)

    def mean(self, axis: int | None = None) -> Any:
        """Return the mean of the row's numbers (axis 1)."""
        if axis not in (1, -1):
            raise self._no(f"mean(axis={axis})", "Of a row's numbers it is mean(axis=1)")
        return self.sum(1) / float(self.shape[1])

    def __getitem__(self, index: Any) -> Any:
        """Return `table[X]`: the numbers of a table [columns x 1] at the row's entries of X."""
        if not isinstance(index, Traced) or index.kind() is not Kind.NNZ:
            remedy = "Take rows and columns outside the function: x[rows, columns]"
            raise self._no("a subscript", remedy)
        number = self.table("a subscript")
        _expect(
            self.recorder.arguments[number].columns == 1,
            "a subscript",
            "the table must have one column; sddmm(rows, table, X) takes more",
        )
        place = recorded(index).pattern
        return Traced(
            self.recorder, self.recorder.argument(number, Access.ENTRY, Kind.NNZ, pattern=place)
        )

    def __len__(self) -> int:
        """Raise an error: a row has no length."""
        raise self._no("len()", "Pass the number as another argument; rownnz(x) counts entries")

    def __iter__(self) -> Iterator[Any]:
        """Raise an error: a row cannot be looped over."""
        raise self._no("a loop over its numbers", "Operations work on all numbers of a row at once")

    def __float__(self) -> float:
        """Raise an error: a traced value is not a number on the host."""
        raise self._no("a number on the host", "Use where(condition, a, b), or pass the number")

    __int__ = __index__ = __float__

    def _no(self, what: str, remedy: str) -> ShapeError:
        return TraceError(
            f"@rowwise: {what} of {self.described()} at {source_line()}: the function is recorded "
            f"once for all rows, before there are numbers. {remedy}."
        )

    # ------------------------------------------------------------- operations

    def _apply(self, op: str, args: tuple[Any, ...]) -> Traced:
        for arg in args:
            if isinstance(arg, Operand) and not isinstance(arg, Traced):
                raise ShapeError(
                    f"@rowwise: {op} mixes an argument with {arg!r} from outside the function; "
                    "pass it as an argument."
                )
            if not isinstance(arg, Operand | Real | np.bool_):
                raise ShapeError(
                    f"@rowwise: {op} of {type(arg).__name__}; operands are arguments of the "
                    "function, values computed in it, and numbers."
                )
        if op in ELEMENTWISE:
            traced = [a for a in args if isinstance(a, Traced)]
            tree = (op, args) if all(a.is_whole for a in traced) else None
            if tree is not None and any(a.is_table for a in traced):
                return Traced(self.recorder, None, tree=tree)
            return Traced(self.recorder, self._elementwise(op, args), tree=tree)
        if op in ("sort", "argsort"):
            raise ShapeError(
                f"@rowwise: {op} has no row-wise program. Call {op}(x) outside the function and "
                "pass its result as an argument."
            )
        if op not in _OPERATIONS:
            raise ShapeError(
                f"@rowwise: '{op}' is not row-local: its result for a row depends on other rows. "
                "Compute it outside the function."
            )
        traced = [a for a in args if isinstance(a, Traced)]
        if len(traced) < len(args):
            raise ShapeError(f"@rowwise: {op} of a Python number; it needs matrices.")
        return Traced(self.recorder, _OPERATIONS[op](self.recorder, op, *traced))

    def _elementwise(self, op: str, args: tuple[Any, ...]) -> Value:
        kinds = [a.kind() for a in args if isinstance(a, Traced)]
        known = [k for k in kinds if k is not None]
        target = max(known, key=lambda k: k.value) if known else Kind.VEC
        if None in kinds and target in (Kind.ROW, Kind.UNI):
            target = Kind.VEC
        if Kind.NNZ in known and Kind.VEC in known:
            raise ShapeError(
                f"@rowwise: {op} mixes a value per non-zero with a row vector; use sddmm to bring "
                "vectors to the non-zeros, or sparse @ table for the other way."
            )
        pattern = next((p for a in args if (p := _pattern(a)) is not None), 0)
        values = tuple(
            a.as_value(target, pattern) if isinstance(a, Traced) else float(a) for a in args
        )
        lengths = {v.length for v in values if isinstance(v, Value) and v.kind is Kind.VEC}
        if len(lengths) > 1:
            raise ShapeError(f"@rowwise: {op} of row vectors of lengths {sorted(lengths)}.")
        kind = Kind.ROW if target is Kind.UNI else target
        out = self.recorder.new(kind, lengths.pop() if lengths else 1, pattern)
        self.recorder.add(Apply(out, op, values))
        return out

    def _in_place(self, other: Any) -> Any:
        """Raise an error for `x += y` of an argument: the name alone would get the new value."""
        if self.argument < 0:
            return NotImplemented  # a value made here: Python binds its name anew
        raise ShapeError(
            f"@rowwise: an operation in place, such as +=, of {self.described()} at "
            f"{source_line()}: would change the name, not the matrix. Write x <<= x + y to change "
            "the rows, or z = x + y for a new value."
        )

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = __imatmul__ = _in_place

    def _assign(self, value: Any) -> None:
        target = self.as_value()
        if target.access not in (None, Access.ROWS, Access.VALUES):
            raise ShapeError(
                f"@rowwise: <<= to {self.described()}, which all rows share; a row may write only "
                "to its own row."
            )
        source: Value | float
        if isinstance(value, Traced):
            source = value.as_value(target.kind, target.pattern)
            fits = source.kind in (Kind.UNI, Kind.ROW) or source.kind is target.kind
            if not fits or (source.kind is Kind.VEC and source.length != target.length):
                raise ShapeError(
                    f"@rowwise: <<= to {self.described()}, {described(target)}: got "
                    f"{described(source)}."
                )
        elif isinstance(value, Real | np.bool_):
            source = float(value)
        else:
            raise ShapeError(
                f"@rowwise: <<= of {value!r} to {self.described()}; pass matrices as arguments."
            )
        target.mutable = True
        self.recorder.add(Store(target, source))


def _pattern(operand: Any) -> int | None:
    """Return the number of the pattern of an operand that has a number per non-zero."""
    value = operand.value if isinstance(operand, Traced) else None
    return value.pattern if value is not None and value.kind is Kind.NNZ else None


def described(value: Value) -> str:
    """Describe a value in messages."""
    return {
        Kind.UNI: "one number",
        Kind.ROW: "one number per row",
        Kind.VEC: f"a row vector of {value.length} numbers",
        Kind.NNZ: "one number per non-zero",
    }[value.kind]


# ---------------------------------------------------------------- the other operations


def _sddmm(recorder: Recorder, op: str, rows: Traced, table: Traced, pattern: Traced) -> Value:
    vector = rows.as_value(Kind.VEC)
    _expect(vector.kind in (Kind.VEC, Kind.ROW), op, "its first argument must be row vectors")
    _expect(pattern.kind() is Kind.NNZ, op, "its third argument must be sparse")
    number = table.table(op)
    columns = recorder.arguments[number].columns
    _expect(
        vector.length == columns,
        op,
        f"row vectors have {vector.length} numbers, the table's rows have {columns}",
    )
    place = recorded(pattern).pattern
    out = recorder.new(Kind.NNZ, pattern=place)
    if vector.kind is Kind.ROW:  # vectors of one number
        entries = recorder.argument(number, Access.ENTRY, Kind.NNZ, pattern=place)
        recorder.add(Apply(out, "mul", (vector, entries)))
    else:
        recorder.add(Dot(out, vector, number))
    return out


def _matmul(recorder: Recorder, op: str, left: Traced, right: Traced) -> Value:
    """Record left @ right; vectors of length 1 are numbers."""
    matrix = right.table("@")
    argument = recorder.arguments[matrix]
    columns = argument.columns
    value = left.as_value(Kind.VEC)
    _expect(value.kind is not Kind.UNI, "@", "its left side must be sparse or row vectors")
    out = recorder.new(Kind.VEC if columns > 1 else Kind.ROW, columns)
    if value.kind is Kind.ROW:
        _expect(argument.rows_one, "@", "row vectors of 1 number need a matrix of 1 row")
        row = recorder.argument(matrix, Access.SHARED, Kind.VEC, columns)
        if columns == 1:
            row = recorder.argument(matrix, Access.NUMBER, Kind.UNI)
        recorder.add(Apply(out, "mul", (value, row)))
    elif value.kind is Kind.NNZ:
        recorder.add(Gather(out, value, matrix))
    elif columns == 1:
        entries = recorder.argument(matrix, Access.ENTRY, value.kind, value.length)
        terms = recorder.new(value.kind, value.length)
        recorder.add(Apply(terms, "mul", (value, entries)))
        recorder.add(Reduce(out, "sum", terms))
    else:
        recorder.add(Product(out, value, matrix))
    return out


def _reduce(recorder: Recorder, op: str, operand: Traced) -> Value:
    source = operand.as_value(Kind.VEC)
    out = recorder.new(Kind.ROW)
    if source.kind in (Kind.VEC, Kind.NNZ):
        recorder.add(Reduce(out, _REDUCE[op], source))
    else:  # a vector of one number
        recorder.add(Apply(out, "copy", (source,)))
    return out


def _place(recorder: Recorder, op: str, operand: Traced) -> Value:
    """Record the first place of a row's largest (argmax) or smallest entry; NaN is either.

    It is the smallest of the places at which the row has that entry.
    """
    source = operand.as_value(Kind.VEC)
    x = Traced(recorder, source)
    if source.kind not in (Kind.VEC, Kind.NNZ):  # a vector of one number
        return recorded(x._apply("full", (x, 0.0)))
    best = x._apply("rowmax" if op == "argmax" else "rowmin", (x,))
    place = Traced(recorder, recorder.new(source.kind, source.length, source.pattern))
    recorded(place).access = Access.PLACE
    here = (x == best) | (x != x)
    first = here._apply("rowmin", (here._apply("where", (here, place, np.inf)),))
    return recorded(first._apply("where", (first < np.inf, first, -1.0)))


def recorded(traced: Any) -> Value:
    """Return the value of an operand that is no matrix argument."""
    assert isinstance(traced, Traced) and traced.value is not None
    return traced.value


def _rownnz(recorder: Recorder, op: str, operand: Traced) -> Value:
    _expect(operand.kind() is Kind.NNZ, op, "its argument must be sparse")
    out = recorder.new(Kind.ROW)
    recorder.add(Count(out))
    return out


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "sddmm": _sddmm,
    "matmul": _matmul,
    "rownnz": _rownnz,
    **dict.fromkeys(_REDUCE, _reduce),
    **dict.fromkeys(("argmax", "argmin"), _place),
}


def _expect(condition: bool, op: str, rule: str) -> None:
    if not condition:
        raise ShapeError(f"@rowwise: {op}: {rule}.")


# ---------------------------------------------------------------- loops
