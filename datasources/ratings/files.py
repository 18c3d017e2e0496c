"""Read ratings from a file; the end of its name decides the format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from blocklearn.answers import answered

from ..errors import DataError
from ..ids import Ids
from ..parsing.announced import check_announced
from ..parsing.array_files import check_archive, load_file, read_as
from .matrix import Duplicates, Ratings, assemble
from .table import MERGE, Coded, Columns, Places, Table, coded, times_of
from .text import first_comments, read_text

TEXTS = (".csv", ".tsv", ".txt")
BATCH = 1 << 17  # records of a Parquet file that are decoded at once


@answered
def read_ratings(
    path: str | Path,
    *,
    user: str = "user",
    item: str = "item",
    rating: str | None = "rating",
    timestamp: str | None = None,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    duplicates: Duplicates = "error",
    users: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
) -> Ratings:
    """Read the ratings in a file as a matrix of users and items.

    path: one of these files, by the end of its name:
        .csv, .tsv, .txt (perhaps with .gz): UTF-8 text, a record per line; fields may be in double
            quotes.
        .parquet: the same columns.
        .npz: arrays with the names of the columns, or a matrix of users x items from
            `scipy.sparse.save_npz`.
        .mtx: a Matrix Market file of users x items.
        Ids of a matrix are the numbers of its rows and columns.
    user, item, timestamp: names of the columns. Ids are text or whole numbers.
    rating: name of the column; None: each record counts as 1, as in files of users and items alone.
    columns: names of all columns, if the first line does not have them.
    separator: None: a tab in .tsv files, else a comma.
    duplicates: policy for several records of one user and item: "error", "sum", "mean" or "last"
        (by time if there are times, else by position in the file).
    users, items: ids that a model knows, in its order. They become the rows and columns. Records
        of other ids are counted in `dropped`.

    Without `users` and `items`, ids are sorted: as numbers if all are numbers, else as text. Raises
    `DataError`, naming file and line, for unreadable records, non-finite ratings and empty ids.
    """
    names = Columns(user, item, rating, timestamp)
    table = read_table(Path(path), names, separator, columns)
    return assemble(table, duplicates, users, items)


def read_pairs(
    path: str | Path,
    *,
    user: str = "user",
    item: str = "item",
    columns: Sequence[str] | None = None,
    separator: str | None = None,
) -> tuple[Ids, Ids]:
    """Read the users and the items of all records of a file, in their order.

    path and the names of columns: as for `read_ratings`. Ratings and times are not read.

    Raises:
        DataError: the file cannot be read; the message names file and line.
    """
    table = read_table(Path(path), Columns(user, item, None, None), separator, columns)
    users, items = (Ids(coded.ids).take(coded.codes) for coded in (table.users, table.items))
    return users, items


def read_table(
    path: Path,
    names: Columns,
    separator: str | None,
    columns: Sequence[str] | None,
    *,
    commented: bool = False,
) -> Table:
    """Read the records of a file; the end of its name decides the format.

    commented: whether the first lines of a text are comments where they begin with `#`.
    """
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if not path.exists():
        raise DataError(f"{path}: file does not exist.")
    if suffix in TEXTS:
        comments = first_comments(path) if commented else 0
        return read_text(path, names, separator, columns, comments)
    if path.suffix in BINARY:
        return BINARY[path.suffix](path, names)
    kinds = ", ".join([*TEXTS, *BINARY])
    raise DataError(f"{path}: unknown kind of ratings; name one of {kinds}.")


def read_parquet(path: Path, columns: Columns) -> Table:
    """Read all records of a Parquet file, decoded part by part."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
            columns = columns.among(file.schema_arrow.names, str(path))
            parts = [
                batch_of_ids(batch, columns, str(path))
                for batch in file.iter_batches(BATCH, columns=columns.wanted)
            ]
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the operating system
            raise
        raise DataError(f"{path}: cannot be read as Parquet: {error}") from error
    if not parts:
        raise DataError(f"{path}: the file has no records.")
    return table_of_batches(parts, columns, str(path), numbered_places(path, "record"))


def table_of_batches(
    parts: Sequence[Any], columns: Columns, path: str, places: Places, merge: str = MERGE
) -> Table:
    """Return batches as `batch_of_ids` makes them as records.

    path, places, merge: for messages, as in `Table`.
    """
    import pyarrow as pa
    from pyarrow import compute

    table = pa.Table.from_batches(parts)
    for what, name in zip(columns.keys, (columns.user, columns.item), strict=False):
        if table[name].null_count:
            record = compute.index(table[name].is_null(), True).as_py()
            raise DataError(f"{places([record])[0]}: the {what} is missing.")
    rating, time = columns.rating, columns.timestamp
    return Table(
        path,
        coded(table[columns.user]),
        coded(table[columns.item]),
        None if rating is None else table[rating].to_numpy(),
        None if time is None else times_of(table[time], time, path),
        places,
        merge,
        columns.keys[2],
    )


def batch_of_ids(batch: Any, columns: Columns, path: str) -> Any:
    """Return ids as dictionaries and ratings as float32, missing ones as NaN."""
    import pyarrow as pa

    found = {}
    for name in columns.wanted:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if name in (columns.user, columns.item):
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            if not (text or pa.types.is_integer(kind)):
                gaps = " Leave out rows without an id, which turn whole numbers into floats."
                raise DataError(
                    f"{path}: the column {name!r} is of type {kind}, but ids must be text or whole "
                    f"numbers.{gaps if pa.types.is_floating(kind) else ''}"
                )
            column = column.dictionary_encode()
        elif name == columns.rating:
            try:
                column = column.cast(pa.float32(), safe=False).fill_null(float("nan"))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(
                    f"{path}: the column {name!r} is of type {kind}, but "
                    f"{columns.keys[2]}s must be numbers."
                ) from error
        found[name] = column
    return pa.RecordBatch.from_pydict(found)


def read_arrays(path: Path, columns: Columns) -> Table:
    """Read a .npz file: arrays named like columns, or a SciPy matrix."""
    import pyarrow as pa

    with read_as(path, "ratings"), path.open("rb") as raw:
        check_archive(raw)
        with np.load(raw, allow_pickle=False) as file:
            if "format" in file:
                return table_of_matrix(sparse.load_npz(path), str(path))
            columns = columns.among(
                [name for name in file.files if file[name].ndim == 1], str(path)
            )
            arrays = {name: file[name] for name in columns.wanted}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{path}: arrays of different lengths, {lengths}; they must be equal.")
    rating, time = columns.rating, columns.timestamp
    for name in (columns.user, columns.item):
        if arrays[name].dtype.kind not in "iuU":
            raise DataError(
                f"{path}: the array {name!r} is of dtype {arrays[name].dtype}, but ids must be "
                "text or whole numbers."
            )
    return Table(
        str(path),
        coded(pa.chunked_array([as_ids(arrays[columns.user], path, columns.user)])),
        coded(pa.chunked_array([as_ids(arrays[columns.item], path, columns.item)])),
        None if rating is None else as_ratings(arrays[rating], str(path)),
        None if time is None else times_of(pa.chunked_array([arrays[time]]), time, str(path)),
        numbered_places(path, "entry"),
    )


def as_ids(array: Any, path: Path, name: str) -> Any:
    """Return ids as an Arrow array. Raises `DataError` for text that is not Unicode."""
    import pyarrow as pa

    try:
        return pa.array(array)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the array {name!r} has text that is not Unicode.") from error


def read_market(path: Path, columns: Columns) -> Table:
    """Read a Matrix Market file of users x items."""
    matrix = load_file(path, "Matrix Market")
    return table_of_matrix(sparse.coo_array(matrix), str(path))


def table_of_matrix(matrix: Any, path: str) -> Table:
    """Return the stored entries of a sparse matrix of users x items as records."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):  # indices out of bounds would crash below
            matrix.check_format(full_check=True)
        entries = matrix.tocoo()
    except ValueError as error:
        raise DataError(f"{path}: not a valid matrix of users x items: {error}") from error
    rows, columns = entries.coords
    for what, count in zip(("users", "items"), matrix.shape, strict=True):
        check_announced(path, what, count, entries.nnz)
    return Table(
        path,
        Coded(rows, Ids.numbered(matrix.shape[0]).arrow),
        Coded(columns, Ids.numbered(matrix.shape[1]).arrow),
        as_ratings(entries.data, path),
        None,
        numbered_places(path, "entry"),
    )


def as_ratings(values: Any, path: str) -> Any:
    """Return numbers as float32.

    Raises `DataError` for dtypes other than real numbers.
    """
    if values.dtype.kind not in "biuf":
        raise DataError(f"{path}: ratings of dtype {values.dtype}: must be real numbers.")
    with np.errstate(over="ignore"):  # `check_values` reports overflows with their record
        return values.astype(np.float32)


def numbered_places(path: str | Path, word: str) -> Places:
    """Return a function that names entries, from 0: `ratings.npz: entry 17`."""
    return lambda numbers: [f"{path}: {word} {number}" for number in numbers]


BINARY = {
    ".parquet": read_parquet,
    ".npz": read_arrays,
    ".mtx": read_market,
}
