"""Columns of an Arrow table as NumPy arrays, with what is missing in them masked."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from .errors import DataError

Masked = np.ma.MaskedArray[Any, Any]


def categories(column: Any, name: str) -> Any:
    """Text or whole numbers, as `hash_features` takes them.

    column: an Arrow array or chunked array. Returns an object array of str and None, or a masked
    array of integers. Raises `DataError` for another type; its message starts with `name`.
    """
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind):
        try:
            return np.array(column.to_pylist(), object)
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: text that is not UTF-8: {error}") from error
    if kinds.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not kinds.is_integer(kind):
        raise DataError(
            f"{name} is of type {kind}, but a category is text or a whole number; a number with a "
            "fraction is a feature as it is (`numeric`)."
        )
    return masked(column, 0)


def numbers(column: Any, name: str) -> Masked:
    """Numbers as a masked array float64.

    column: an Arrow array or chunked array. Raises `DataError` for another type; its message starts
    with `name`.
    """
    kind = column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)):
        raise DataError(
            f"{name} is of type {kind}, but holds numbers; text belongs to `categorical`."
        )
    return masked(column.cast(pa.float64(), safe=False), 0.0)


def masked(column: Any, filler: Any) -> Masked:
    """An Arrow column of numbers; `filler` stands where nothing is."""
    empty = column.is_null().to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(column.fill_null(filler).to_numpy(zero_copy_only=False), empty)
