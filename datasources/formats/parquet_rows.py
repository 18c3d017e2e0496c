"""Read rows of Parquet files, and guess which columns are features."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from ..errors import DataError
from ..listing import PARQUET
from ..parquet import Dense, Nulls, ParquetSource, Sparse
from ..parquet.columns import names_of
from ..parquet.files import BROKEN
from ..parquet.footer import MAGIC, read_footer
from ..parquet.types import is_text
from ..parquet.where import parse_condition
from ..parsing.layout import COUNTED, Known, check_columns, refuse_hashed, require_targets
from ..parsing.scratch import Scratch
from ..remote import PATIENCE, find, resolve
from .delimited import brief
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
    the layout name columns of other types. If the columns of a model have names, and rows are
    dense, the features are the columns with these names, in the order of the model.

    Raises `DataError`.
    """
    schema = read_schema(str(paths[0]))
    if known is not None:
        require_targets(paths[0], targets, schema.names)
    others = {*targets, *leave_out, *(name for name in (weights, ids) if name is not None)}
    free = [field for field in schema if field.name not in others]
    numbers = {field.name: dense_of(field) for field in free if is_number(field.type)}
    columns = {name: column for column, part in numbers.items() for name in names_of([part])}
    texts = COUNTED if any(is_text(field.type) for field in free) else ""
    names = None if known is None else known.names
    if indices is None and (names is None or not all(name in columns for name in names)):
        indices, values = guess_lists(free)
    dense = [name for name in numbers if name not in (indices, values)]
    if names is not None and indices is None and dense:
        refuse_hashed(paths[0], names)
        dense = columns_named(str(paths[0]), numbers, columns, names, texts)
    features: list[Dense | Sparse] = [Dense(name) for name in dense]
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
    check_columns(paths[0], source.shape.columns, known, texts)
    read = {column for feature in features for column in feature.columns}
    others_left = [field for field in free if field.name not in read and field.name not in numbers]
    return SourceRows(source, left_out(others_left))


def columns_named(
    path: str,
    numbers: Mapping[str, Dense],
    columns: Mapping[str, str],
    names: Sequence[str],
    hint: str,
) -> list[str]:
    """Return the columns whose numbers have the names of a model's columns, in the model's order.

    numbers: the columns of numbers. columns: the column of each number, by the number's name.
    hint: how texts are read, if there are any; or empty.

    Raises `DataError` if a name is missing, or the model has only some numbers of a list.
    """
    for name in names:
        if name not in columns:
            raise DataError(
                f"{path}: no column {name!r} of numbers, which the model has; there are "
                f"{brief(list(columns))}. Name them as in the training data{hint}."
            )
    chosen = list(dict.fromkeys(columns[name] for name in names))
    found = names_of([numbers[column] for column in chosen])
    if found != list(names):
        raise DataError(
            f"{path}: the columns {brief(chosen)} have the numbers {brief(found)}: must be those "
            f"of the model, {brief(names)}, in this order."
        )
    return chosen


def dense_of(field: pa.Field) -> Dense:
    """Return a column of numbers, or of lists of a fixed size, as a feature."""
    lists = pa.types.is_fixed_size_list(field.type)
    return Dense(field.name, field.type.list_size if lists else 1)


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
