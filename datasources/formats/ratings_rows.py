"""Read ratings in text, a record per line, as rows of users."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from ..errors import DataError
from ..ids import Ids
from ..parsing.entries import Entries
from ..parsing.layout import Known, Layout, check_columns
from ..parsing.lines import Lines
from ..parsing.scratch import Scratch
from ..ratings.matrix import WHOLE, Duplicates, sorted_order
from ..ratings.table import Columns
from .delimited import Delimited
from .grouping import Grouped, group

Numbering = Callable[[pa.Array], npt.NDArray[np.int64]]


def ratings_rows(
    paths: Sequence[Path],
    scratch: Scratch,
    known: Known | None = None,
    *,
    user: str = "user",
    item: str = "item",
    rating: str | None = "rating",
    separator: str | None = None,
    header: bool | None = None,
    columns: Sequence[str] | None = None,
    duplicates: Duplicates = "error",
) -> Grouped:
    """Read records, in any order, as rows of users with items as columns.

    user, item: names of the columns.
    rating: name of the column; "": each record counts as 1, as in files of users and items alone.
    separator, header, columns: see `Delimited`.
    duplicates: policy for several records of one user and item.

    Users and items are sorted by id: as numbers if all ids are whole numbers, else as text. The
    files are read twice, first to find all ids. Memory is that of the ids and `scratch.memory`.
    Raises `DataError`.
    """
    file = Delimited(paths, scratch, separator=separator, header=header, columns=columns)
    names = Columns(user, item, rating or None).among(file.names, str(paths[0]))
    users, items = find_ids(file, names, scratch)
    if known is not None and known.names is not None:
        items = Ids(known.names)
    count = check_columns(paths[0], len(items), known)
    found = read_entries(file, names, numbering(users), numbering(items))
    parts = group(str(paths[0]), found, len(users), scratch)
    layout = Layout(count, names=items, named=True)
    return Grouped(str(paths[0]), layout, parts, scratch, duplicates, users)


def find_ids(file: Delimited, names: Columns, scratch: Scratch) -> tuple[Ids, Ids]:
    """Return all users and all items, in order."""
    found: list[Ids] = []

    def side(number: int) -> Ids:
        if not found:
            seen = {name: Distinct() for name in (names.user, names.item)}
            for chunk, table in file.tables(dict.fromkeys(seen, pa.large_string())):
                for name, ids in seen.items():
                    check_ids(file, chunk, table[name], name)
                    ids.add(table[name])
            found.extend(ids.sorted() for ids in seen.values())
        return found[number]

    users = scratch.remember_names("users.arrow", lambda: side(0))
    return users, scratch.remember_names("items.arrow", lambda: side(1))


def check_ids(file: Delimited, chunk: Lines, column: Any, name: str) -> None:
    """Raise `DataError` if an id is empty."""
    row = compute.index(compute.equal(column, ""), True).as_py()
    if row >= 0:
        raise DataError(f"{file.line(chunk, row)}: the {name} is empty.")


class Distinct:
    """Collects distinct texts, in the memory of twice their number."""

    def __init__(self) -> None:
        """Start without texts."""
        self._seen, self._fresh, self._waiting = empty(), [empty()], 0

    def add(self, column: Any) -> None:
        """Add the texts of an Arrow column."""
        fresh = compute.unique(column)
        self._fresh.append(fresh)
        self._waiting += len(fresh)
        if self._waiting > max(1 << 20, len(self._seen)):
            self._merge()

    def sorted(self) -> Ids:
        """Return all texts: sorted as numbers if all are whole numbers, else as text."""
        self._merge()
        return Ids(self._seen).take(sorted_order(self._seen))

    def _merge(self) -> None:
        self._seen = compute.unique(pa.concat_arrays([self._seen, *self._fresh]))
        self._fresh, self._waiting = [], 0


def empty() -> Any:
    """Return an Arrow array without texts."""
    return pa.array([], pa.large_string())


def numbering(ids: Ids) -> Numbering:
    """Return a function that numbers an Arrow array of texts by `ids`, others -1.

    Whole numbers are looked up by binary search, other texts in a dictionary.
    """
    if compute.all(compute.match_substring_regex(ids.arrow, WHOLE)).as_py():
        values = ids.arrow.cast(pa.int64()).to_numpy()
        order = np.argsort(values, kind="stable")

        def search(texts: pa.Array) -> npt.NDArray[np.int64]:
            whole = compute.match_substring_regex(texts, WHOLE)
            wanted = compute.if_else(whole, texts, "0").cast(pa.int64()).to_numpy()
            places = np.minimum(np.searchsorted(values[order], wanted), len(values) - 1)
            there = (values[order[places]] == wanted) & whole.to_numpy(zero_copy_only=False)
            return np.where(there, order[places], -1)

        return search
    numbers = {name: number for number, name in enumerate(ids)}

    def look_up(texts: pa.Array) -> npt.NDArray[np.int64]:
        return np.array([numbers.get(text, -1) for text in texts.to_pylist()], np.int64)

    return look_up


def read_entries(
    file: Delimited, names: Columns, users: Numbering, items: Numbering
) -> Iterator[Entries]:
    """Yield all records of known users and items."""
    types = {names.user: pa.large_string(), names.item: pa.large_string()}
    if names.rating is not None:
        types[names.rating] = pa.float64()
    for chunk, table in file.tables(types):
        found = []
        for name, number in ((names.user, users), (names.item, items)):
            column = table[name].combine_chunks().dictionary_encode()
            found.append(number(column.dictionary)[column.indices.to_numpy()])
        rows, columns = found
        values = np.ones(len(rows), np.float32)
        if names.rating is not None:
            values = file.numbers(chunk, table, [names.rating])[:, 0]
        known = (rows >= 0) & (columns >= 0)
        yield Entries(rows[known], columns[known].astype(np.int32), values[known])
