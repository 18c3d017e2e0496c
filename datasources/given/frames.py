"""Read columns of data frames and Arrow tables as numbers.

pandas, Polars and others hand their columns over through Arrow's C stream interface or the data
frame interchange protocol, so none of them is imported.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import DataError

ADVICE = {
    True: "Leave the column out, or learn from its words alone: train=list(X[{!r}]).",
    False: "Leave the column out, or make numbers of it.",
}
"""What to do with a column that has texts, or something else that is no number."""


def is_frame(data: Any) -> bool:
    """Return whether `data` is a data frame, an Arrow table or a record batch."""
    streams = any(
        hasattr(data, name)
        for name in ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "dtypes")
    )
    return streams and hasattr(data, "columns") and not hasattr(data, "collect")


def is_column(data: Any) -> bool:
    """Return whether `data` is a series of a frame or an Arrow array."""
    return hasattr(data, "to_numpy") and not hasattr(data, "columns")


def names_of(frame: Any) -> list[str]:
    """Return the names of the columns of a frame."""
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def numbers_of(frame: Any, known: Sequence[str] | None = None) -> tuple[Any, list[str]]:
    """Return the values of a frame, [rows x columns], and the names of its columns.

    known: the columns to take, in this order; None: all. The values are dense, in the dtype that
    holds all columns, or SciPy CSR if all columns of a pandas frame are sparse.

    Raises:
        DataError: a column is missing, or has an entry that is no number.
    """
    names = wanted(names_of(frame), known)
    if _all_sparse(frame):
        places = [names_of(frame).index(name) for name in names]
        return sparse.csr_array(frame.iloc[:, places].sparse.to_coo()), names
    if not names:
        raise DataError("X is a frame without columns: must have at least one.")
    table = arrow_table(frame)
    columns = [column_of_numbers(table.column(name), name) for name in names]
    matrix = np.empty((table.num_rows, len(names)), np.result_type(*columns))
    for number, column in enumerate(columns):
        matrix[:, number] = column
    return matrix, names


def wanted(names: list[str], known: Sequence[str] | None) -> list[str]:
    """Return the columns to read. Raises `DataError` if one is missing or occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"X has the column {twice!r} twice: names must differ.")
    if known is None:
        return names
    missing = [name for name in known if name not in set(names)]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise DataError(
            f"X lacks the column {missing[0]!r}{more} that the model was trained on. Give it the "
            "columns of the training data."
        )
    return list(known)


def arrow_table(frame: Any) -> Any:
    """Return a frame as an Arrow table. Raises `DataError` if Arrow cannot read it."""
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    try:
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        if hasattr(frame, "__arrow_c_stream__"):
            found = pa.RecordBatchReader.from_stream(frame).read_all()
        else:
            found = from_dataframe(frame)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"X is a {type(frame).__name__} that Arrow cannot read: {error}") from error
    names = [str(name) for name in found.column_names]
    return pa.table([_plain_texts(column) for column in found.columns], names)


def _plain_texts(column: Any) -> Any:
    """Return a column whose text views, as Polars has them, are texts."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        parts = [
            pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.large_string()))
            for part in column.chunks
        ]
        return pa.chunked_array(parts, pa.dictionary(kind.index_type, pa.large_string()))
    return column


def _all_sparse(frame: Any) -> bool:
    dtypes = list(getattr(frame, "dtypes", ()))
    return bool(dtypes) and all(str(dtype).startswith("Sparse") for dtype in dtypes)


def column_of_numbers(column: Any, name: str) -> npt.NDArray[Any]:
    """Return an Arrow column of numbers or booleans as an array [rows].

    Raises:
        DataError: it has something else, or an empty entry.
    """
    from pyarrow import compute, types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        texts = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        what = "texts" if texts else kind
        raise DataError(
            f"X has {what} in the column {name!r}: must be numbers. {ADVICE[texts].format(name)}"
        )
    if column.null_count:
        row = int(np.flatnonzero(compute.is_null(column).to_numpy())[0])
        raise DataError(
            f"X: row {row}, column {name!r} is empty: must be a number. Fill it, or leave out the "
            "row."
        )
    values: npt.NDArray[Any] = column.to_numpy()
    return values.astype(np.uint8) if values.dtype == np.bool_ else values
