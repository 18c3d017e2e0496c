"""Find the rows of a file that satisfy conditions, first by statistics of row groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ..errors import DataError
from .types import is_number, is_text, plain
from .where import Condition, Value

Bound = int | float | bytes
INT32, INT64, FLOAT, DOUBLE, BYTES = 1, 2, 4, 5, 6  # physical types of Parquet
COMPARE: dict[str, Callable[..., Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Test:
    """A condition with values of type `kind`, to which its column in one file is cast."""

    condition: Condition
    kind: Any  # pyarrow.DataType
    values: Any  # pyarrow.Array

    @classmethod
    def of(cls, condition: Condition, schema: Any, file: str) -> "Test":
        """Convert the values. Raises `DataError`, naming file, column and types."""
        found = plain(schema.field(condition.column).type)
        kind, place = found, f"{file}: where: {condition}: column {condition.column!r}"
        if not (is_number(kind) or is_text(kind) or is_time(kind)):
            raise DataError(
                f"{place} is of type {found}, but must be a number, a text, a date, "
                "a timestamp or a boolean."
            )
        if is_text(kind) or kinds.is_float16(kind):  # types that Arrow compares
            kind = pa.large_string() if is_text(kind) else pa.float32()
        values = [
            converted(value, kind, f"{place} is of type {found}") for value in condition.values
        ]
        return cls(condition, kind, pa.array(values, kind))

    def rows(self, batch: Any) -> npt.NDArray[np.bool_]:
        """Return which rows satisfy the condition, bool [n]; those with a null do not."""
        column, values = batch.column(self.condition.column), self.values
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        column = column.cast(self.kind)
        if kinds.is_floating(self.kind):  # -0.0 becomes 0.0, because is_in tells them apart
            zero = pa.scalar(0.0, self.kind)
            column, values = pc.add(column, zero), pc.add(values, zero)
        if self.condition.operation == "in":
            found = pc.is_in(column, value_set=values)
        elif self.condition.operation == "not in":
            inside = pc.is_in(column, value_set=values)
            found = pc.and_(pc.invert(inside), pc.is_valid(column))
        else:
            found = COMPARE[self.condition.operation](column, values[0])
        table: npt.NDArray[np.bool_] = found.fill_null(False).to_numpy(zero_copy_only=False)
        return table

    def excludes(self, low: Bound, high: Bound) -> bool:
        """Return whether no number from `low` to `high` satisfies the condition."""
        values = [plain_value(value, self.kind) for value in self.values]
        match self.condition.operation:
            case "==" | "in":
                return not any(low <= value <= high for value in values)
            case "<":
                return not low < values[0]
            case "<=":
                return not low <= values[0]
            case ">":
                return not high > values[0]
            case ">=":
                return not high >= values[0]
        return False  # "!=" and "not in": statistics omit NaN, which satisfies both


def is_time(kind: Any) -> bool:
    """Return whether a type is a date or a timestamp."""
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind))


def converted(value: Value, kind: Any, column: str) -> Any:
    """Return a value as a scalar of type `kind`.

    Raises `DataError`, which describes the `column`.
    """
    boolean = isinstance(value, bool)
    fits = (
        boolean
        if kinds.is_boolean(kind)
        else isinstance(value, (int, float)) and not boolean
        if is_number(kind)
        else isinstance(value, str)
    )
    hint = ""
    if fits:
        try:
            given = Decimal(str(value)) if kinds.is_decimal(kind) else value
            return pa.scalar(given, kind) if kinds.is_decimal(kind) else pa.scalar(given).cast(kind)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            hint = f" ({error})"
    raise DataError(f"{column}, but {value!r} is not a value of this type{hint}.")


def plain_value(scalar: Any, kind: Any) -> Any:
    """Return a scalar as statistics have it: times as integers, texts as bytes."""
    if kinds.is_date32(kind):
        return scalar.cast(pa.int32()).as_py()
    if kinds.is_timestamp(kind):
        return scalar.cast(pa.int64()).as_py()
    return scalar.as_py().encode() if is_text(kind) else scalar.as_py()


def bound_of(data: bytes, physical: int, kind: Any) -> Bound | None:
    """Return a bound that a footer has for a column of type `kind`, None if it is unusable."""
    whole = kinds.is_integer(kind) or kinds.is_date32(kind) or kinds.is_timestamp(kind)
    if whole and (physical, len(data)) in ((INT32, 4), (INT64, 8)):
        return int.from_bytes(data, "little", signed=not kinds.is_unsigned_integer(kind))
    if kinds.is_floating(kind) and (physical, len(data)) in ((FLOAT, 4), (DOUBLE, 8)):
        number = float(np.frombuffer(data, f"<f{len(data)}")[0])
        return None if np.isnan(number) else number
    return data if is_text(kind) and physical == BYTES else None


def matching(tests: Sequence[Test], batch: Any) -> tuple[Any, npt.NDArray[np.int64] | None]:
    """Return the rows of a batch that satisfy all tests, and their numbers, None if all do."""
    if not tests:
        return batch, None
    left = np.flatnonzero(np.logical_and.reduce([test.rows(batch) for test in tests]))
    return (batch, None) if left.size == batch.num_rows else (batch.take(pa.array(left)), left)
