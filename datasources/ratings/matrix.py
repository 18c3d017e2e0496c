"""Make ratings a matrix: sort records, merge duplicates, check numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.compiled import kernel
from ..errors import DataError
from ..holdout.samples import Samples
from ..ids import Ids
from .table import Coded, Table

if TYPE_CHECKING:
    import pyarrow as pa

Duplicates = Literal["error", "last", "sum", "mean"]
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # integers that fit an int64, in their only spelling


@dataclass(frozen=True)
class Ratings:
    """Ratings of items by users.

    matrix: SciPy `csr_array`, float32 [users, items], with ascending indices. A rating of 0 is
        stored like any other.
    users, items: their ids.
    times: int64 or float64 [nnz], the times of the stored ratings; None if unknown.
    dropped: number of records whose user or item is not among the given ids.
    unrated: whether the file has only users and items, so that each record counts as 1.
    """

    matrix: Any
    users: Ids
    items: Ids
    times: npt.NDArray[Any] | None = None
    dropped: int = 0
    unrated: bool = False

    def samples(self) -> Samples:
        """Return the users as rows to train on."""
        return Samples(self.matrix, names=self.items, row_names=self.users)

    def only(self, kept: npt.NDArray[np.bool_]) -> Ratings:
        """Keep the ratings that `kept`, bool [nnz], marks, and all users and items."""
        matrix = self.matrix
        before = np.concatenate([[0], np.cumsum(kept)])
        parts = (matrix.data[kept], matrix.indices[kept], before[matrix.indptr])
        times = None if self.times is None else self.times[kept]
        return replace(self, matrix=sparse.csr_array(parts, shape=matrix.shape), times=times)


def assemble(
    table: Table,
    duplicates: Duplicates,
    users: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
) -> Ratings:
    """Build the matrix from the records of a file; see `read_ratings`."""
    if not table.users.codes.size:
        raise DataError(f"{table.path}: the file has no records.")
    check_values(table)
    rows, user_ids = numbered(table, table.users, "user", users)
    columns, item_ids = numbered(table, table.items, "item", items)
    known = (rows >= 0) & (columns >= 0)
    records = np.arange(rows.size) if known.all() else np.flatnonzero(known)
    if table.times is not None and duplicates == "last":
        records = records[np.argsort(table.times[records], kind="stable")]
    order = sort_pairs(rows, columns, len(user_ids), len(item_ids), records)
    rows, columns = rows[order], columns[order]
    values = np.ones(order.size, np.float32) if table.values is None else table.values[order]
    times = None if table.times is None else table.times[order]
    starts = np.flatnonzero(
        np.concatenate([[True], (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])])
    )[: order.size]
    if starts.size < order.size:
        if duplicates == "error":
            raise DataError(repeated(table, order, starts))
        values = merged(values, starts, duplicates)
        if times is not None:
            times = np.maximum.reduceat(times, starts)
        rows, columns = rows[starts], columns[starts]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(user_ids)))])
    matrix = sparse.csr_array((values, columns, indptr), shape=(len(user_ids), len(item_ids)))
    if not np.isfinite(values).all():
        raise DataError(
            f"{table.path}: the {duplicates} of repeated {table.value}s is too large for a "
            "float32. Divide them by a number, or merge by `duplicates: last`."
        )
    dropped = table.users.codes.size - order.size
    return Ratings(matrix, user_ids, item_ids, times, dropped, unrated=table.values is None)


def check_values(table: Table) -> None:
    """Raise `DataError` unless every rating is a finite float32."""
    if table.values is not None and not np.isfinite(table.values).all():
        record = int(np.flatnonzero(~np.isfinite(table.values))[0])
        place, value = table.places([record])[0], table.values[record]
        raise DataError(
            f"{place}: the {table.value} {value}: must be finite. Leave the record out."
        )


def numbered(
    table: Table, column: Coded, what: str, known: Sequence[str] | None
) -> tuple[npt.NDArray[np.int32], Ids]:
    """Return the number of the id in each record, and the ids.

    known: ids to number by, other ids get -1; None: number all ids in sorted order.
    """
    from pyarrow import compute

    names = Ids(column.ids)
    bad = compute.match_substring_regex(names.arrow, r"^$|[\r\n]").to_numpy(zero_copy_only=False)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        found = np.flatnonzero(column.codes == first)
        place = table.places([int(found[0])])[0] if found.size else table.path
        fault = "is empty" if not names[first] else "has a line break"
        raise DataError(f"{place}: the {what} {names[first]!r} {fault}.")
    if known is not None:
        ids = known if isinstance(known, Ids) else Ids(known)
        return ids.numbers(names).astype(np.int32)[column.codes], ids
    order = sorted_order(names.arrow)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[column.codes], names.take(order)


def sorted_order(ids: pa.Array) -> npt.NDArray[np.int64]:
    """Return the order of distinct ids: numeric if all are integers, else as text."""
    import pyarrow as pa
    from pyarrow import compute

    if compute.all(compute.match_substring_regex(ids, WHOLE)).as_py():
        ids = ids.cast(pa.int64())
    order: npt.NDArray[np.int64] = compute.sort_indices(ids).to_numpy().astype(np.int64)
    return order


def repeated(table: Table, order: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> str:
    """Return the message about the first pair of user and item that occurs twice."""
    lengths = np.diff(np.append(starts, order.size))
    again = np.flatnonzero(lengths > 1)
    groups = np.minimum.reduceat(order, starts)[again]
    first = int(again[np.argmin(groups)])  # the pair whose first record is earliest
    records = np.sort(order[starts[first] : starts[first] + lengths[first]])
    user, item = (
        Ids(column.ids)[int(column.codes[records[0]])] for column in (table.users, table.items)
    )
    before, here = table.places([int(record) for record in records[:2]])
    return (
        f"{here}: user {user!r} and item {item!r} are a pair again, after {before}. Pairs with "
        f"several records: {again.size:,}. {table.merge}"
    )


def merged(
    values: npt.NDArray[np.float32], starts: npt.NDArray[np.int64], duplicates: Duplicates
) -> npt.NDArray[np.float32]:
    """Merge each group of records to one value; groups begin at `starts`."""
    ends = np.append(starts[1:], values.size)
    if duplicates == "last":
        found: npt.NDArray[np.float32] = values[ends - 1]
        return found
    sums = np.add.reduceat(values.astype(np.float64), starts)
    if duplicates == "mean":
        sums /= ends - starts
    with np.errstate(over="ignore"):  # the caller reports overflows
        return sums.astype(np.float32)


def sort_pairs(
    rows: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
    n_rows: int,
    n_columns: int,
    records: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Sort `records` by row and column with a stable counting sort, in O(n).

    rows, columns: int32 [n], of each record, in [0, n_rows) and [0, n_columns).
    """
    by_column, order = np.empty_like(records), np.empty_like(records)
    sort_by_count(columns, records, np.zeros(n_columns + 1, np.int64), by_column)
    sort_by_count(rows, by_column, np.zeros(n_rows + 1, np.int64), order)
    return order


@kernel
def sort_by_count(
    keys: npt.NDArray[np.int32],
    records: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    into: npt.NDArray[np.int64],
) -> None:
    """Write `records` to `into`, stably sorted by `keys[record]` < m.

    starts: [m + 1] zeros.
    """
    for record in records:
        starts[keys[record] + 1] += 1
    for key in range(1, starts.size):
        starts[key] += starts[key - 1]
    for record in records:
        key = keys[record]
        into[starts[key]] = record
        starts[key] += 1
