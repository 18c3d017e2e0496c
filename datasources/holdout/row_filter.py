"""Filters the rows of a source: the held-out rows, or the others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from blocklearn.answers import answered

from ..arrays.compiled import kernel
from ..arrays.copy_rows import gather_csr, gather_dense
from ..arrays.hashing import GOLDEN, mix_one
from ..arrays.numbered_names import NumberedNames
from ..block import HostBlock
from ..source import (
    DataSource,
    RowLabels,
    first_rows,
    labels_of,
    mean_sum,
    row_names,
    rows_last,
    target_names,
)
from .derived import DerivedSource
from .samples import check_parts
from .split import limit_of, start_of

STEP = 256  # rows from one stored count to the next
CHUNK = 1 << 14  # rows tested at a time by `chosen`


class Rule(NamedTuple):
    """Which rows belong to a part.

    - marks: bits from `split_by_contents`, or empty.
    - start, limit: see `start_of` and `limit_of`; used without marks.
    - held: whether the part is the held-out rows.
    """

    marks: npt.NDArray[np.uint8]
    start: np.uint64
    limit: np.uint64
    held: bool


class RowFilter(DerivedSource):
    """A part of the rows of `source`: the held-out rows, or the others.

    - share, seed: as for `split_rows`.
    - held: True for the held-out rows, False for the others.
    - marks: bits from `split_by_contents`, used instead of `split_rows`.

    Each block is a block of `source` without the rows of the other part. So blocks are shorter than
    they could be, and either part reads all of `source`. Rows are numbered anew, in the order of
    their numbers in `source`. Raises `DataError` if a part is empty.

    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(np.arange(40.0).reshape(20, 2), block_rows=10)
    >>> part = RowFilter(source, 0.2, seed=1, held=True)
    >>> block = HostBlock(part.shape)
    >>> part.read(0, 1, block)
    >>> part.shape.total_rows, block.row_ids[: block.rows].tolist(), block.dense[0].tolist()
    (3, [1, 2], [28.0, 29.0])
    """

    @answered
    def __init__(
        self,
        source: DataSource,
        share: float,
        seed: int,
        *,
        held: bool,
        marks: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Count the rows of both parts."""
        rows = source.shape.total_rows
        bits = np.empty(0, np.uint8) if marks is None else marks
        self._rule = Rule(bits, start_of(seed), limit_of(share), held)
        self._before = np.zeros(-(-rows // STEP) + 1, np.int64)
        count_held(self._rule, rows, self._before)
        found = int(self._before[-1])
        check_parts(share, rows - found, found)
        shape = replace(source.shape, total_rows=found if held else rows - found)
        settings = f"{share} {seed} {held}" + ("" if marks is None else " contents")
        super().__init__(source, shape, settings, (source.shape.rows, np.int64))
        self.rows_last = rows_last(source)

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, or None."""
        return target_names(self._source)

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows, looked up in the source on demand; None if unknown."""
        names = row_names(self._source)
        return None if names is None else PartNames(names, self)

    @property
    def mean_sum(self) -> float | None:
        """The sum of a row's values, on average over all rows of the source; None if unknown."""
        return mean_sum(self._source)

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each block of the rows in order, and the number of rows."""
        found = first_rows(self._source).copy()
        count_before(found, self._rule)
        return found

    def row(self, number: int) -> int:
        """Return the number in the source of the row with this number here."""
        return nth(number, self._rule, self._before)

    def chosen(self) -> Iterator[bool]:
        """Yield for every row of the source whether it belongs to this part."""
        rows = self._source.shape.total_rows
        for start in range(0, rows, CHUNK):
            ids = np.arange(start, min(start + CHUNK, rows))
            bits = np.empty(ids.size, np.bool_)
            mark(ids, self._rule, bits)
            yield from bits.tolist()

    def read_labels(self) -> Iterator[RowLabels] | None:
        """Return the labels of each block of pass 0, or None: see `labels_of`."""
        whole = labels_of(self._source)
        return None if whole is None else map(self._inside, whole)

    def _inside(self, labels: RowLabels) -> RowLabels:
        bits = np.empty(labels.ids.size, np.bool_)
        mark(labels.ids, self._rule, bits)
        return RowLabels(labels.ids[bits], labels.targets[bits], labels.weights[bits])

    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        ids = whole.row_ids[: whole.rows]
        rows = select(ids, self._rule, self._before, scratch, into.row_ids)
        self._copy(whole, scratch[:rows], into)
        return rows

    def _copy(self, whole: HostBlock, places: npt.NDArray[np.int64], into: HostBlock) -> None:
        if self._shape.dense:
            gather_dense(places, whole.dense, into.dense)
        else:
            gather_csr(
                places, whole.indptr, whole.indices, whole.values,
                into.indptr, into.indices, into.values,
            )  # fmt: skip
        if self._shape.targets:
            gather_dense(places, whole.targets, into.targets)
        np.take(whole.weights, places, out=into.weights[: places.size], mode="clip")

    def __repr__(self) -> str:
        """Show the number of rows and the source."""
        return f"RowFilter({self._shape.total_rows} rows of {self._source})"


class PartNames(NumberedNames):
    """Row names of `part`, looked up in the `names` of its source; nothing is copied."""

    def __init__(self, names: Sequence[str], part: RowFilter) -> None:
        """Read nothing yet: names are read on demand."""
        self._names, self._part = names, part

    def __len__(self) -> int:
        """Return the number of names."""
        return self._part.shape.total_rows

    def _name(self, number: int) -> str:
        return self._names[self._part.row(number)]

    def __iter__(self) -> Iterator[str]:
        """Yield all names, in one pass through the names of the source."""
        return compress(self._names, self._part.chosen())


@kernel
def is_held(row: int, rule: Rule) -> bool:
    """Whether this row is held out: by the marks if any, else by `split_rows`."""
    if rule.marks.size:
        return bool(rule.marks[row >> 3] >> (row & 7) & 1)
    return bool(mix_one(rule.start + np.uint64(row + 1) * GOLDEN) < rule.limit)


@kernel
def count_held(rule: Rule, rows: int, before: npt.NDArray[np.int64]) -> None:
    """Fill `before` [parts + 1] with the counts of held-out rows before each part.

    A part has `STEP` rows. The last element counts all `rows`.
    """
    found, part = 0, 0
    for row in range(rows):
        if row % STEP == 0:
            before[part] = found
            part += 1
        found += is_held(row, rule)
    before[part] = found


@kernel
def count_before(rows: npt.NDArray[np.int64], rule: Rule) -> None:
    """Replace ascending rows of the source by the number of rows of a part before each."""
    found, row = 0, 0
    for i in range(rows.size):
        while row < rows[i]:
            found += is_held(row, rule) == rule.held
            row += 1
        rows[i] = found


@kernel
def nth(number: int, rule: Rule, before: npt.NDArray[np.int64]) -> int:
    """Return the row with this number within a part; before: filled by `count_held`."""
    low, high = 0, before.size - 1  # search the part of `STEP` rows that contains it
    while high - low > 1:
        middle = (low + high) // 2
        rank = before[middle] if rule.held else middle * STEP - before[middle]
        if rank <= number:
            low = middle
        else:
            high = middle
    rank, row = int(before[low]) if rule.held else int(low * STEP - before[low]), low * STEP
    while True:
        if is_held(row, rule) == rule.held:
            if rank == number:
                return row
            rank += 1
        row += 1


@kernel
def mark(ids: npt.NDArray[np.int64], rule: Rule, chosen: npt.NDArray[np.bool_]) -> None:
    """Write to `chosen` which of the rows `ids` belong to a part."""
    for i in range(ids.size):
        chosen[i] = is_held(int(ids[i]), rule) == rule.held


@kernel
def select(
    ids: npt.NDArray[np.int64],
    rule: Rule,
    before: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
) -> int:
    """Select the rows of a part from `ids`; return their count.

    - places: filled with the position of each selected row in the block.
    - numbers: filled with its number within the part.
    """
    found, at, rank = 0, -1, 0  # rank: held rows before row `at`
    for place in range(ids.size):
        row = int(ids[place])
        if at < 0 or row < at or row - at > STEP:
            at, rank = row // STEP * STEP, int(before[row // STEP])
        while at < row:
            rank += is_held(at, rule)
            at += 1
        if is_held(row, rule) == rule.held:
            places[found] = place
            numbers[found] = rank if rule.held else row - rank
            found += 1
    return found
