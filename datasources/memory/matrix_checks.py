"""Check sizes and names of a matrix in memory; the error for one that has changed."""

from collections.abc import Sequence

from ..arrays.block_shape import MAX_COLUMNS
from ..errors import DataError


def check_row_names(rows: int, names: Sequence[str] | None) -> None:
    """Raise `DataError` unless `names` has one name for each row."""
    if names is not None and len(names) != rows:
        raise DataError(
            f"MatrixSource: X has {rows} rows and {len(names)} row names; give each row one name."
        )


def check_columns(rows: int, columns: int, names: Sequence[str] | None) -> None:
    """Raise `DataError` unless an int32 can number the columns and each has one name."""
    if columns > MAX_COLUMNS:
        raise DataError(f"MatrixSource: X has {columns} columns: must be at most {MAX_COLUMNS}.")
    if names is not None and len(names) != columns:
        hint = "; if samples are columns, pass X.T" if len(names) == rows else ""
        raise DataError(
            f"MatrixSource: X has {columns} columns and {len(names)} names, but each column has "
            f"one name{hint}."
        )


def changed(row: int) -> DataError:
    """Return the error for a row that no longer fits into its block."""
    return DataError(
        f"MatrixSource: row {row} is not what it was when the source was made; do not change X "
        "while it is in use."
    )
