"""Tell what an operand of a traced function is, and what a row cannot ask of it.

Whether an argument is a vector per row, a vector for all rows, a number per column or a table
follows from its shape and its use. Vectors of length 1 are treated as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import ShapeError, row_error, source_line
from ..notation.operand import Operand
from .instructions import Access, Argument, Kind, Value
from .recorder import Recorder


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


class RowOperand(Operand):
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
        raise row_error(
            f"{self.described()} is used element by element, but has neither one row per "
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
            raise row_error(
                f"{what} needs a whole matrix, an argument of the function, as its "
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
        parts = tuple(a.whole() if isinstance(a, RowOperand) else float(a) for a in operands)
        every = [self.recorder.arguments[n] for n in parts if isinstance(n, int)]
        columns = max(argument.columns for argument in every)
        name = f"{op}({', '.join(argument.name for argument in every)})"
        one = all(argument.rows_one for argument in every if argument.form == "mat")
        return self.recorder.make(op, parts, Argument("mat", name, columns, rows_one=one))

    # ------------------------------------------------------------- what a row does not know

    @property
    def T(self) -> Any:
        """Raise an error: a transposed matrix is not row-local."""
        raise row_error(
            f"{self.described()}.T: a transposed matrix is not row-local. Transpose "
            "outside the function, or keep the table the other way round."
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
