"""Check which Arrow types serve as numbers, indices and lists."""

from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from ..errors import DataError
from .columns import Columns, Dense


def is_list(kind: Any) -> bool:
    """Return whether a type is a list of variable length."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def plain(kind: Any) -> Any:
    """Return the type below dictionaries and extensions."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif kinds.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def is_number(kind: Any) -> bool:
    """Return whether a type is an integer, float, decimal or boolean."""
    kind = plain(kind)
    return bool(
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_decimal(kind)
        or kinds.is_boolean(kind)
    )


def is_text(kind: Any) -> bool:
    """Return whether a type is text, not inside a dictionary or an extension."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def element(kind: Any) -> Any:
    """Return the element type of a list, and any other type unchanged."""
    kind = plain(kind)
    if is_list(kind) or kinds.is_fixed_size_list(kind):
        return plain(kind.value_type)
    return kind


def width_of(part: Dense, kind: Any, file: str) -> int:
    """Return how many numbers a row has in a dense column of this type.

    Raises `DataError`.
    """
    kind = plain(kind)
    if is_number(kind):
        width = 1
    elif kinds.is_fixed_size_list(kind) and is_number(kind.value_type):
        width = kind.list_size
    elif is_list(kind) and is_number(kind.value_type):
        if part.width is None:
            raise DataError(
                f"{file}: column {part.column!r} has lists of any length ({kind}); set their "
                "common length (width), or name the column as the indices of a sparse feature."
            )
        return part.width
    else:
        raise DataError(
            f"{file}: column {part.column!r} is of type {kind}, but must be a number or a list of "
            "numbers; convert it where the file is written."
        )
    if part.width not in (None, width) or width < 1:
        raise DataError(
            f"{file}: column {part.column!r} has {width} numbers in each row (its type is {kind}), "
            f"but {part.width or 'at least one'} was asked for."
        )
    return width


def check_schema(columns: Columns, schema: Any, file: str) -> dict[str, int]:
    """Return the width of every dense column.

    Raises `DataError`, naming file, column and type, for a missing column or an unsuitable type.
    """
    for name in columns.names:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            listed = ", ".join(schema.names[:20]) + (", ..." if len(schema.names) > 20 else "")
            count = "no column" if not found else f"{len(found)} columns"
            near = [] if found else get_close_matches(name, schema.names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            if name in columns.texts:
                hint += " `text` says which column has the texts."
            if name in columns.tested:
                hint += " `where` names it."
            raise DataError(f"{file}: {count} {name!r}; it has {listed or 'none'}.{hint}")
    for part in columns.sparse:
        kind = plain(schema.field(part.indices).type)
        if not kinds.is_integer(element(kind)) or kinds.is_fixed_size_list(kind):
            raise DataError(
                f"{file}: column {part.indices!r} is of type {kind}, but indices must be integers "
                "or lists of integers (list<int32>)."
            )
        if part.values is None:
            continue
        other = plain(schema.field(part.values).type)
        if not is_number(element(other)) or is_list(kind) != is_list(other):
            raise DataError(
                f"{file}: column {part.values!r} is of type {other}, but the values of the indices "
                f"{part.indices!r} ({kind}) must be "
                + ("lists of numbers of the same lengths." if is_list(kind) else "numbers.")
            )
    if columns.weights is not None and not is_number(schema.field(columns.weights).type):
        kind = schema.field(columns.weights).type
        raise DataError(
            f"{file}: column {columns.weights!r} is of type {kind}, but weights must be numbers."
        )
    if columns.ids is not None:
        kind = plain(schema.field(columns.ids).type)
        if not (kinds.is_integer(kind) or is_text(kind)):
            raise DataError(
                f"{file}: column {columns.ids!r} is of type {kind}, but ids must be text or "
                "integers."
            )
    for name in columns.texts:
        kind = plain(schema.field(name).type)
        if not is_text(kind):
            listed = ", ".join(part.name for part in schema if is_text(plain(part.type))) or "none"
            raise DataError(
                f"{file}: column {name!r} is of type {kind}, not text; columns of text are "
                f"{listed}."
            )
    return {
        part.column: width_of(part, schema.field(part.column).type, file)
        for part in (*columns.dense, *columns.targets)
    }


def list_columns(columns: Columns, schema: Any) -> frozenset[str]:
    """Return the sparse features whose indices are lists."""
    names = [part.indices for part in columns.sparse]
    return frozenset(name for name in names if is_list(plain(schema.field(name).type)))
