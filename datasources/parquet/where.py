"""Describe which rows are wanted, by comparisons of columns with values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from ..errors import DataError

Operation = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
Value = bool | int | float | str | date
Where = Sequence[tuple[str, Operation, Value | Sequence[Value]]]


@dataclass(frozen=True)
class Condition:
    """One comparison of `column` with a value, or with several for "in" and "not in".

    values: dates become ISO 8601 text, so that a configuration that is read again is equal.
    """

    column: str
    operation: Operation
    values: tuple[bool | int | float | str, ...]

    @classmethod
    def of(cls, given: Any) -> "Condition":
        """Make a condition from `(column, operation, value)`.

        Raises `DataError`.

        >>> Condition.of(("country", "in", ["de", "fr"]))
        Condition(column='country', operation='in', values=('de', 'fr'))
        """
        if not isinstance(given, (list, tuple)) or len(given) != 3 or not isinstance(given[0], str):
            raise DataError(
                f"where: {given!r}: must be [column, operation, value], as in ['day', '>=', 5]."
            )
        column, operation, value = given
        shown = f"where: [{column!r}, {operation!r}, {value!r}]"
        if operation not in get_args(Operation):
            raise DataError(
                f"{shown}: the operation must be one of {', '.join(get_args(Operation))}."
            )
        several = operation in ("in", "not in")
        if several != isinstance(value, (list, tuple)):
            rule = "a list of values" if several else "one value, not a list"
            raise DataError(f"{shown}: {operation!r} must be followed by {rule}.")
        found = tuple(value) if several else (value,)
        for one in found:
            if not isinstance(one, Value) or (isinstance(one, float) and math.isnan(one)):
                raise DataError(
                    f"{shown}: {one!r}: must be a number, a text, a date or a boolean; a null "
                    "satisfies no condition."
                )
        texts = tuple(one.isoformat() if isinstance(one, date) else one for one in found)
        return cls(column, operation, texts)

    def __str__(self) -> str:
        """Return the condition as it is written in a configuration."""
        several = self.operation in ("in", "not in")
        value = list(self.values) if several else self.values[0]
        return str([self.column, self.operation, value])
