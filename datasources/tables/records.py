"""Makes Arrow tables of records given in Python, with the types that files of tables have."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal

import pyarrow as pa

from ..errors import DataError

Record = Mapping[str, Any]
WHOLE = 2**63


def table_of(records: Sequence[Any], fields: Mapping[str, Literal["number", "category"]]) -> Any:
    """Return fields of records as an Arrow table; other fields are not read.

    - records: one for each row. Each has all these fields; None is a missing value.
    - fields: "number": float64. "category": text, or whole numbers, which become text as in files.

    Raises `DataError`, naming row and field.

    >>> rows = [{"age": 34, "section": "python"}, {"age": None, "section": 7}]
    >>> table_of(rows, {"age": "number", "section": "category"}).to_pylist()
    [{'age': 34.0, 'section': 'python'}, {'age': None, 'section': '7'}]
    """
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise DataError(f"rows[{row}]: must be an object with the fields {', '.join(fields)}.")
    columns = {}
    for name, kind in fields.items():
        given = [field_of(record, row, name) for row, record in enumerate(records)]
        if kind == "number":
            numbers = [_number(value, row, name) for row, value in enumerate(given)]
            columns[name] = pa.array(numbers, pa.float64())
            continue
        found = [_category(value, row, name) for row, value in enumerate(given)]
        columns[name] = pa.array(found, pa.string())
    return pa.table(columns)


def field_of(record: Record, row: int, name: str) -> Any:
    """Return a field of record number `row`. Raises `DataError` if it is missing."""
    if name in record:
        return record[name]
    near = get_close_matches(name, list(record), n=1)
    hint = f" Did you mean it by {near[0][:40]!r}?" if near else " Write null if it has no value."
    raise DataError(f"rows[{row}]: {name!r} is missing.{hint}")


def _number(value: Any, row: int, name: str) -> float | None:
    if value is None or isinstance(value, float):
        return value
    if not isinstance(value, int) or abs(value) >= 2**1023:
        raise DataError(f"rows[{row}].{name}={_shown(value)}: must be a number, or null.")
    return float(value)


def _category(value: Any, row: int, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, int) or not -WHOLE <= value < WHOLE:
        raise DataError(
            f"rows[{row}].{name}={_shown(value)}: must be text, a whole number or null."
        )
    return str(value)


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < WHOLE else "a huge number"
    return text if len(text) <= 40 else f"{text[:40]}..."
