"""Trace a row-local function: run it once with arguments that record operations."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from ..errors import ShapeError, row_error, source_line
from ..notation.elementwise import ELEMENTWISE
from ..notation.operand import Operand
from .instructions import (
    Access,
    Apply,
    Count,
    Dot,
    Gather,
    Kind,
    Product,
    Reduce,
    Store,
    Value,
)
from .recorder import Recorder
from .row_operand import RowOperand

_REDUCE = {"rowsum": "sum", "rowmax": "max", "rowmin": "min"}


class Traced(RowOperand):
    """An operand whose operations are recorded."""

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

    def _apply(self, op: str, args: tuple[Any, ...]) -> Traced:
        for arg in args:
            if isinstance(arg, Operand) and not isinstance(arg, Traced):
                raise row_error(
                    f"{op} mixes an argument with {arg!r} from outside the function; "
                    "pass it as an argument."
                )
            if not isinstance(arg, Operand | Real | np.bool_):
                raise row_error(
                    f"{op} of {type(arg).__name__}; operands are arguments of the "
                    "function, values computed in it, and numbers."
                )
        if op in ELEMENTWISE:
            traced = [a for a in args if isinstance(a, Traced)]
            tree = (op, args) if all(a.is_whole for a in traced) else None
            if tree is not None and any(a.is_table for a in traced):
                return Traced(self.recorder, None, tree=tree)
            return Traced(self.recorder, self._elementwise(op, args), tree=tree)
        if op in ("sort", "argsort"):
            raise row_error(
                f"{op} has no row-wise program. Call {op}(x) outside the function and "
                "pass its result as an argument."
            )
        if op not in _OPERATIONS:
            raise row_error(
                f"'{op}' is not row-local: its result for a row depends on other rows. "
                "Compute it outside the function."
            )
        traced = [a for a in args if isinstance(a, Traced)]
        if len(traced) < len(args):
            raise row_error(f"{op} of a Python number; it needs matrices.")
        return Traced(self.recorder, _OPERATIONS[op](self.recorder, op, *traced))

    def _elementwise(self, op: str, args: tuple[Any, ...]) -> Value:
        kinds = [a.kind() for a in args if isinstance(a, Traced)]
        known = [k for k in kinds if k is not None]
        target = max(known, key=lambda k: k.value) if known else Kind.VEC
        if None in kinds and target in (Kind.ROW, Kind.UNI):
            target = Kind.VEC
        if Kind.NNZ in known and Kind.VEC in known:
            raise row_error(
                f"{op} mixes a value per non-zero with a row vector; use sddmm to bring "
                "vectors to the non-zeros, or sparse @ table for the other way."
            )
        pattern = next((p for a in args if (p := _pattern(a)) is not None), 0)
        values = tuple(
            a.as_value(target, pattern) if isinstance(a, Traced) else float(a) for a in args
        )
        lengths = {v.length for v in values if isinstance(v, Value) and v.kind is Kind.VEC}
        if len(lengths) > 1:
            raise row_error(f"{op} of row vectors of lengths {sorted(lengths)}.")
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
            raise row_error(
                f"<<= to {self.described()}, which all rows share; a row may write only "
                "to its own row."
            )
        source: Value | float
        if isinstance(value, Traced):
            source = value.as_value(target.kind, target.pattern)
            fits = source.kind in (Kind.UNI, Kind.ROW) or source.kind is target.kind
            if not fits or (source.kind is Kind.VEC and source.length != target.length):
                raise row_error(
                    f"<<= to {self.described()}, {described(target)}: got {described(source)}."
                )
        elif isinstance(value, Real | np.bool_):
            source = float(value)
        else:
            raise row_error(f"<<= of {value!r} to {self.described()}; pass matrices as arguments.")
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
        raise row_error(f"{op}: {rule}.")
