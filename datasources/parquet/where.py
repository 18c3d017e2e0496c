"""Describe which rows are wanted, by comparisons of columns with values."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from ..errors import DataError

Operation = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
Value = bool | int | float | str | date
Where = Sequence[tuple[str, Operation, Value | Sequence[Value]]]


WRITTEN = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>|=|\bnot\s+in\b|\bin\b)\s*(.*?)\s*", re.DOTALL)


def parse_condition(text: str) -> tuple[str, Any, Value | Sequence[Value]]:
    """Return the column, the operation and the value of a condition that is written as text.

    Values are JSON, or else texts; those after `in` have commas between them.

    Raises `DataError`.

    >>> parse_condition("day >= 2024-01-01"), parse_condition("country in de, fr")
    (('day', '>=', '2024-01-01'), ('country', 'in', ['de', 'fr']))
    """
    found = WRITTEN.fullmatch(text)
    if found is None or not found[3]:
        raise DataError(
            f"where={text!r}: must be COLUMN, an operation and a value. Write it as in "
            "'day >= 2024-01-01', or 'country in de,fr'."
        )
    column, operation, value = found.groups()
    operation = " ".join(operation.split())
    if operation not in ("in", "not in"):
        return column, operation, _value(value)
    several = _value(value)
    if isinstance(several, list):
        return column, operation, several
    return column, operation, [_value(part.strip()) for part in value.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


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
