"""Read rows of Parquet files, and guess which columns are features."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from ..errors import DataError
from ..listing import PARQUET
from ..parquet import Dense, Nulls, ParquetSource, Sparse
from ..parquet.files import BROKEN
from ..parquet.footer import MAGIC, read_footer
from ..parquet.types import is_text
from ..parquet.where import parse_condition
from ..parsing.layout import COUNTED, Known, check_columns
from ..parsing.scratch import Scratch
from ..remote import PATIENCE, find, resolve
from .source_rows import SourceRows

BLOCK_ROWS = 1024  # rows that are read at once
MENTIONED = 5  # columns named in a message


def parquet_rows(
    paths: Sequence[str | Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    indices: str | None = None,
    values: str | None = None,
    targets: Sequence[str] = (),
    weights: str | None = None,
    ids: str | None = None,
    leave_out: Sequence[str] = (),
    nulls: Nulls = "error",
    where: Sequence[str] = (),
) -> SourceRows:
    """Read the rows of files, folders, patterns or URLs, as `ParquetSource` does.

    indices: column of lists that makes rows sparse; None: the only column of lists of integers, if
        there is one.
    values: column of lists with their values; None: all are 1. Without `indices`: the only column
        of lists of floats, if there is one.
    leave_out: columns that are not read.
    where: conditions that rows must all satisfy, as `parse_condition` reads them.

    All other columns of numbers are dense features, except those with another role. The notes of
    the layout name columns of other types. Raises `DataError`.
    """
    schema = read_schema(str(paths[0]))
    others = {*targets, *leave_out, *(name for name in (weights, ids) if name is not None)}
    free = [field for field in schema if field.name not in others]
    if indices is None:
        indices, values = guess_lists(free)
    dense = [field.name for field in free if is_number(field.type)]
    features: list[Dense | Sparse] = [
        Dense(name) for name in dense if name not in (indices, values)
    ]
    if indices is not None:
        size = None if known is None else known.columns - len(features)
        features.append(Sparse(indices, values, size))
    if not features:
        raise DataError(
            f"{paths[0]}: no features; its columns are "
            f"{', '.join(f'{field.name} ({field.type})' for field in schema)}. Name them: "
            "--indices COLUMN --values COLUMN; or which column has texts: --text COLUMN."
        )
    source = ParquetSource(
        paths,
        features,
        targets=targets,
        weights=weights,
        ids=ids,
        nulls=nulls,
        where=[parse_condition(text) for text in where],
        block_rows=BLOCK_ROWS,
    )
    texts = any(is_text(field.type) for field in free)
    check_columns(paths[0], source.shape.columns, known, COUNTED if texts else "")
    read = {column for feature in features for column in feature.columns}
    return SourceRows(source, left_out([field for field in free if field.name not in read]))


def left_out(fields: Sequence[pa.Field]) -> list[str]:
    """Return a note that these columns are not read, if there are any."""
    if not fields:
        return []
    named = ", ".join(f"{field.name} ({field.type})" for field in fields[:MENTIONED])
    more = ", ..." if len(fields) > MENTIONED else ""
    hint = COUNTED if any(is_text(field.type) for field in fields) else ""
    return [f"left out, because they are not numbers: {named}{more}{hint}"]


def read_schema(path: str) -> pa.Schema:
    """Return the Arrow schema of the first file of `path`.

    Raises `DataError` if it has none.
    """
    files, place, wild = resolve(path, PATIENCE)
    first = find(files, place, PARQUET, wild)[0]
    name = files.name(first.path)
    try:
        status = files.status(first.path)
        with files.open(status) as file:
            footer = read_footer(file, status.size)
        whole = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC  # a file without rows
        return parquet.read_schema(pa.BufferReader(whole))
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # from the operating system
        raise DataError(f"{name}: its footer is damaged: {error}") from error


def guess_lists(fields: Sequence[pa.Field]) -> tuple[str | None, str | None]:
    """Return columns of indices and values, None if missing, both if ambiguous."""
    lists = [field for field in fields if pa.types.is_list(field.type)]
    whole = [field.name for field in lists if pa.types.is_integer(field.type.value_type)]
    numbers = [field.name for field in lists if pa.types.is_floating(field.type.value_type)]
    if len(whole) != 1 or len(numbers) > 1:
        return None, None
    return whole[0], numbers[0] if numbers else None


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type has a fixed count of numbers per row."""
    if pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
