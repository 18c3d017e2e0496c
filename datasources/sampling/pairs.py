"""Makes blocks of any two parts of a graph, so that a model sees links between all parts."""

from dataclasses import replace
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one
from ..block import HostBlock
from ..errors import DataError
from ..holdout.derived import MadeSource
from ..source import DataSource, TwoSidedSource, check_request

KEPT = 2  # blocks of the source: those of the two parts of a pair


class Pages(NamedTuple):
    """The rows of a block, which are pages.

    rows: their number.
    ids: of each, its page.
    indptr, indices: their links.
    """

    rows: int
    ids: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]


class Links(NamedTuple):
    """Arrays of a block to write."""

    ids: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


class PairSource(MadeSource):
    """Links of two parts of a graph's pages: each part has half of the rows of a block.

    - source: a square matrix of links, sparse; the number of a row is its page.

    A row has the links of its page to pages with larger numbers, in whichever direction they are
    stored, each with the value 1. A pass has every pair of parts, and every part beside itself, but
    for parts without links.

    Links are counted first, in one pass. Where a link is stored in one direction only, the source
    is also read by column. Of p blocks, a pass reads about p^2 / 2.

    Raises `DataError` where links have one direction, and the source cannot be read by column.

    >>> from scipy.sparse import csr_array
    >>> from blocklearn.datasources import MatrixSource
    >>> links = csr_array([[0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0]])
    >>> pairs = PairSource(MatrixSource(links, block_rows=4))
    >>> block = HostBlock(pairs.shape)
    >>> pairs.read(0, 1, block)
    >>> block.row_ids.tolist(), block.indptr.tolist(), block.indices[:5].tolist()
    ([0, 1, 2, 3], [0, 2, 4, 5, 5], [1, 2, 2, 3, 3])
    """

    def __init__(self, source: DataSource) -> None:
        """Count the links of each part."""
        shape = source.shape
        if shape.dense or shape.rows < 2:
            raise DataError(
                f"PairSource: blocks of {shape.rows} rows{', dense' * shape.dense}: must be "
                "sparse, with two rows or more. Raise block_rows."
            )
        super().__init__(source, shape, "pairs")
        self._half, self._lock = shape.rows // 2, Lock()
        self._sides = [_Side(source)]
        counts, page = self._count()
        if page is not None:
            if not isinstance(source, TwoSidedSource):
                raise DataError(
                    f"{type(source).__name__}: a link of page {page} is stored in one direction "
                    "only, and these data are not read by column. Store each link in both "
                    "directions."
                )
            self._sides.append(_Side(source.transposed()))
            counts, _ = self._count()
        self._parts = [part for part, count in enumerate(counts) if count] or [0]
        self._starts = np.cumsum([0, *range(len(self._parts), 0, -1)])  # of pairs, by first part
        self._shape = replace(shape, nnz=max(2 * max(counts), 1), targets=0, weighted=False)

    @property
    def blocks(self) -> int:
        """The number of pairs."""
        return int(self._starts[-1])

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with the pair `index`, the same in every pass."""
        check_request(self, pass_, index, into.shape)
        one = int(np.searchsorted(self._starts, index, side="right")) - 1
        other = one + index - int(self._starts[one])
        into.write()
        into.row_ids[:] = -1
        into.indptr[: self._half + 1] = 0
        to = Links(into.row_ids, into.indptr, into.indices, into.values)
        with self._lock:
            for part, row in ((one, 0), (other, self._half)):
                row = copy_links(*self._rows(self._parts[part]), row, to)
                into.indptr[row : self._half + 1] = into.indptr[row]
        into.finish(pass_=pass_, index=index, rows=row)

    def _rows(self, part: int) -> tuple[int, int, Pages, Pages]:
        """Return the rows of a part in its block, first and end, and the block from both sides.

        Raises DataError where both do not have the same pages.
        """
        block, place = divmod(part, self._each)
        one, other = (self._sides[n].rows(block) for n in (0, -1))
        both = min(one.rows, other.rows)
        if (one.ids[:both] != other.ids[:both]).any():
            raise DataError(
                f"{self._source}: its rows and its columns must be the same pages in the same "
                "order. Do not hold out rows of a graph."
            )
        first = place * self._half
        return first, min(first + self._half, max(one.rows, other.rows)), one, other

    @property
    def _each(self) -> int:
        """The parts of a block of the source: two, or three if it has an odd number of rows."""
        return -(-self._source.shape.rows // self._half)

    def _count(self) -> tuple[list[int], int | None]:
        """Return the links of each part, and a page with a link in one direction, if any."""
        differ = np.zeros(self._source.shape.columns, np.int64)
        parts = self._each * max(side.source.blocks for side in self._sides)
        counts = [count_links(*self._rows(part), differ) for part in range(parts)]
        return counts, int(np.argmax(differ != 0)) if differ.any() else None

    def __repr__(self) -> str:
        """Show the source."""
        return f"PairSource({self._source})"


class _Side:
    """Rows of one orientation of the data: the blocks that were read last are kept."""

    def __init__(self, source: DataSource) -> None:
        self.source = source
        self._rooms = [HostBlock(source.shape, indexed=False) for _ in range(KEPT)]
        self._kept: list[int] = []  # numbers of the blocks in the rooms, the last one used first

    def rows(self, index: int) -> Pages:
        """Return the rows of a block."""
        block = self._rooms[0]
        if index >= self.source.blocks:
            return Pages(0, block.row_ids, block.indptr, block.indices)
        if index in self._kept:
            place = self._kept.index(index)
        else:
            place = len(self._kept) if len(self._kept) < KEPT else KEPT - 1
            self._kept[place:] = [-1]  # should reading fail
            self.source.read(0, index, self._rooms[place])
            self._kept[place] = index
        self._kept.insert(0, self._kept.pop(place))
        self._rooms.insert(0, self._rooms.pop(place))
        block = self._rooms[0]
        return Pages(block.rows, block.row_ids, block.indptr, block.indices)


@kernel
def links_of(here: int, pages: Pages) -> tuple[int, int]:
    """Return where the links of a row begin and end; beyond the rows there are none."""
    return (pages.indptr[here], pages.indptr[here + 1]) if here < pages.rows else (0, 0)


@kernel
def next_column(
    one: Pages, x: int, stop: int, other: Pages, y: int, last: int
) -> tuple[int, int, int]:
    """Return the least column of two ascending lists, and where both go on.

    x, y: places before `stop` and `last`; at least one list is not at its end.
    """
    if y == last or (x < stop and one.indices[x] < other.indices[y]):
        return one.indices[x], x + 1, y
    return other.indices[y], x + (x < stop and one.indices[x] == other.indices[y]), y + 1


@kernel
def copy_links(first: int, end: int, one: Pages, other: Pages, row: int, to: Links) -> int:
    """Write links of rows to larger pages, of both sides, from `row` on; return the row after."""
    for here in range(first, end):
        number = one.ids[here] if here < one.rows else other.ids[here]
        (x, stop), (y, last) = links_of(here, one), links_of(here, other)
        place = to.indptr[row]
        while x < stop or y < last:
            column, x, y = next_column(one, x, stop, other, y, last)
            if column > number:
                to.indices[place], to.values[place] = column, 1.0
                place += 1
        to.ids[row], to.indptr[row + 1] = number, place
        row += 1
    return row


@kernel
def count_links(
    first: int, end: int, one: Pages, other: Pages, differ: npt.NDArray[np.int64]
) -> int:
    """Return how many links `copy_links` writes.

    differ: [pages], gets the hashes of the larger pages that a page has links to, minus those of
    larger pages with links to it.
    """
    count = 0
    for here in range(first, end):
        number = one.ids[here] if here < one.rows else other.ids[here]
        (x, stop), (y, last) = links_of(here, one), links_of(here, other)
        while x < stop or y < last:
            column, x, y = next_column(one, x, stop, other, y, last)
            if column > number:
                count += 1
                differ[number] += np.int64(mix_one(np.uint64(column + 1) * GOLDEN))
            elif column < number:
                differ[column] -= np.int64(mix_one(np.uint64(number + 1) * GOLDEN))
    return count
