"""Ranked lists, such as items for users: blocks, lines, a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.answers import answered
from blocklearn.datasources import Ids
from blocklearn.datasources.arrays.arrow import number_array
from blocklearn.durable import new_file

from ..figures import number
from ..storage.table_file import TABLES, table_writer

Array = NDArray[Any]


class Ranked(NamedTuple):
    """Lists for r rows.

    Attributes:
        rows: int64 [r], row numbers.
        ids: int32 [r x n], numbers of the listed items, best first; -1 fills short lists.
        scores: float32 [r x n], scores of the listed items; -inf fills short lists.
    """

    rows: Array
    ids: Array
    scores: Array


@dataclass(frozen=True)
class Lists:
    """Lists that are made while they are read, once, as `Ranked` blocks.

    Attributes:
        blocks: the lists, block by block.
        what: names of a row and of a listed item, such as ("user", "item").
        row_ids: the ids of the rows; None: they have numbers only.
        ids: the ids of the listed items; None: they have numbers only.
    """

    blocks: Iterator[Ranked]
    what: tuple[str, str]
    row_ids: Ids | None
    ids: Ids | None

    def __iter__(self) -> Iterator[Ranked]:
        """Iterate over blocks."""
        return self.blocks

    def named(self) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """Yield each row's name, and names and scores of its list, best first."""
        for block in self.blocks:
            rows = names(self.row_ids, block.rows)
            real = block.ids >= 0
            listed = iter(names(self.ids, block.ids[real]))
            for row, scores, there in zip(rows, block.scores, real, strict=True):
                yield row, [(next(listed), float(score)) for score in scores[there]]

    def lines(self) -> Iterator[str]:
        """Yield a line per row: `ann: Alien (4.53), Up (4.31)`."""
        for row, listed in self.named():
            yield f"{row}: " + ", ".join(f"{name} ({number(score)})" for name, score in listed)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a record per row.

        For example `{"user": "ann", "items": [{"item": "Alien", "score": 4.53}]}`.
        """
        row_key, key = self.what
        for row, listed in self.named():
            yield {row_key: row, f"{key}s": [{key: name, "score": score} for name, score in listed]}

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object per row: see `records`."""
        for record in self.records():
            yield json.dumps(record, ensure_ascii=False)


@answered
def write_lists(path: Path | str, lists: Lists) -> int:
    """Write lists to a .parquet, .csv or .tsv file, block by block; return its number of rows.

    Columns: `user` and `item` (or `item` and `similar_item`, ...), text, or int64 without ids;
    `rank` int32, 1 is the best; `score` float32. The file is complete or absent.
    """
    import pyarrow as pa

    path = Path(path)
    ending = path.suffix if path.suffix in TABLES else ".parquet"
    row_name, name = lists.what
    columns = [
        (row_name, lists.row_ids),
        (name if name != row_name else f"similar_{name}", lists.ids),
    ]
    schema = pa.schema(
        [(column, pa.int64() if ids is None else pa.string()) for column, ids in columns]
        + [("rank", pa.int32()), ("score", pa.float32())]
    )
    written = 0
    with new_file(path) as temporary, table_writer(temporary, ending, schema) as write:
        for block in lists:
            real = block.ids >= 0
            numbers = (np.repeat(block.rows, real.sum(axis=1)), block.ids[real])
            arrays = [
                number_array(found) if ids is None else ids.take(found).arrow
                for found, (_, ids) in zip(numbers, columns, strict=True)
            ]
            arrays += [number_array(np.nonzero(real)[1] + 1), number_array(block.scores[real])]
            parts = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
            write(pa.table(parts, schema=schema))
            written += len(parts[0])
    return written


def names(ids: Ids | None, numbers: Array) -> list[str]:
    """Return the ids of rows or columns with these numbers, or the numbers as text."""
    return list(map(str, numbers)) if ids is None else list(ids.take(numbers))
