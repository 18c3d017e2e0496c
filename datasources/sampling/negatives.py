"""Adds negatives to rows of implicit feedback: random columns that a row does not have."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.cpu.kernels.sort_row import sort_numbers

from ..arrays.block_shape import CsrArrays
from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one
from ..block import HostBlock
from ..errors import DataError
from ..holdout.derived import DerivedSource
from ..holdout.entries import entries_of
from ..holdout.split import start_of
from ..source import DataSource, each_block

WHOLE = 2.0**-64  # of a hash as a number in [0, 1)


class NegativeSource(DerivedSource):
    """The positive entries of `source`, and negatives that are drawn anew in every pass.

    - draws: columns drawn for each row, with replacement.
    - power: column j is drawn with probability q_j in proportion to n_j^power, where n_j is the
      number of its positive entries, or 1 if it has none. 0: all columns alike.
    - seed: of the draws. They depend on (seed, pass, row), so nothing else changes them.
    - room: draws for which blocks have room, if more than `draws`. Further sources with as many
      then fit into the same memory.
    - same: every row has the same draws in every pass. `power` must then be 0.

    A positive entry has its value. A negative has the value -c / (draws q_j), where c is how often
    it was drawn: the sum of f(j) times these weights estimates the sum of f over all columns that
    are not positive. Columns that are positive are not made negatives. Stored values of 0 or less
    are left out. Raises `DataError` for a dense source.

    >>> from scipy.sparse import csr_array
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(csr_array([[0, 2.0, 0, 0], [0, 0, 0, 1.0]]), block_rows=2)
    >>> negatives = NegativeSource(source, draws=2, power=0.0, seed=0)
    >>> block = HostBlock(negatives.shape)
    >>> negatives.read(0, 0, block)
    >>> block.indptr.tolist(), block.indices[:6].tolist(), block.values[:6].tolist()
    ([0, 2, 4], [1, 2, 2, 3, 0, 0], [2.0, -4.0, -4.0, 1.0, 0.0, 0.0])
    """

    def __init__(
        self,
        source: DataSource,
        draws: int,
        power: float,
        seed: int,
        *,
        room: int = 0,
        same: bool = False,
    ) -> None:
        """Count the positive entries of the columns in a pass of `source`, if not `same`."""
        shape = source.shape
        if shape.dense:
            raise DataError(
                f"NegativeSource: {type(source).__name__} is dense, so every row has every column; "
                "pass a sparse matrix."
            )
        if draws < 1:
            raise DataError(f"NegativeSource: draws={draws}: must be at least 1.")
        self._draws, self._same, self._start = draws, same, start_of(seed)
        self._counts = np.empty(0) if same else counts_of(source)
        self._ends = np.empty(0) if power == 0.0 else ends_of(self._counts, power)
        most = min(shape.nnz + shape.rows * max(draws, room), shape.rows * shape.columns)
        shape = replace(shape, nnz=most, targets=0, weighted=False)
        settings = f"negatives {draws} {power} {seed} {same}"
        super().__init__(source, shape, settings, (draws, np.int32))

    def entries(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return the stored entries of these rows of the source, without negatives."""
        return entries_of(self._source, rows)

    def value_sums(self) -> tuple[float, int]:
        """Return the number of positive entries, as their sum and as their number."""
        positives = int(self._counts.sum())
        return float(positives), positives

    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        rows = whole.rows
        into.write()
        into.row_ids[:rows] = whole.row_ids[:rows]
        add_negatives(
            whole.row_ids[:rows], whole.csr, self._start, -1 if self._same else pass_,
            self._shape.columns, self._ends, scratch, into.csr,
        )  # fmt: skip
        return rows

    def __repr__(self) -> str:
        """Show the draws and the source."""
        return f"NegativeSource({self._draws} draws for each row of {self._source})"


def counts_of(source: DataSource) -> npt.NDArray[np.float64]:
    """Return the number of positive entries of each column, float64 [columns]."""
    counts = np.zeros(source.shape.columns)
    for block in each_block(source):
        count_positive(block.indices, block.values, block.nnz, counts)
    return counts


def ends_of(counts: npt.NDArray[np.float64], power: float) -> npt.NDArray[np.float64]:
    """Return the cumulative probabilities of the columns, float64 [columns]."""
    weights = np.maximum(counts, 1.0) ** power
    return np.cumsum(weights / weights.sum())


@kernel
def count_positive(
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    nnz: int,
    counts: npt.NDArray[np.float64],
) -> None:
    """Add the numbers of positive entries to the counts of their columns."""
    for entry in range(nnz):
        if values[entry] > 0.0:
            counts[indices[entry]] += 1.0


@kernel
def column_at(place: float, ends: npt.NDArray[np.float64], columns: int) -> int:
    """Return the column whose share of [0, 1) contains `place`; without ends all are alike."""
    if ends.size == 0:
        return min(int(place * columns), columns - 1)
    low, high = 0, columns - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > place:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def add_negatives(
    ids: npt.NDArray[np.int64],
    given: CsrArrays,
    start: np.uint64,
    pass_: int,
    columns: int,
    ends: npt.NDArray[np.float64],
    drawn: npt.NDArray[np.int32],
    to: CsrArrays,
) -> None:
    """Merge each row's positive entries with its draws, in ascending order of columns.

    pass_: of the draws; -1: they depend neither on the pass nor on the row.
    drawn: scratch [draws].
    """
    of_pass = mix_one(start + np.uint64(pass_ + 2) * GOLDEN)
    place = 0
    to.indptr[0] = 0
    for row in range(ids.size):
        number = ids[row] if pass_ >= 0 else np.int64(0)
        state = mix_one(of_pass + np.uint64(number + 1) * GOLDEN)
        for draw in range(drawn.size):
            hashed = mix_one(state + np.uint64(draw + 1) * GOLDEN)
            drawn[draw] = column_at(float(hashed) * WHOLE, ends, columns)
        sort_numbers(drawn)
        entry, end, draw = given.indptr[row], given.indptr[row + 1], 0
        while entry < end or draw < drawn.size:
            if entry < end and given.values[entry] <= 0.0:
                entry += 1
                continue
            if entry < end and (draw == drawn.size or given.indices[entry] <= drawn[draw]):
                to.indices[place], to.values[place] = given.indices[entry], given.values[entry]
                place += 1
                while draw < drawn.size and drawn[draw] == given.indices[entry]:
                    draw += 1
                entry += 1
                continue
            column, often = drawn[draw], 0
            while draw < drawn.size and drawn[draw] == column:
                often += 1
                draw += 1
            share = 1.0 / columns
            if ends.size:
                share = ends[column] - (ends[column - 1] if column else 0.0)
            to.indices[place] = column
            to.values[place] = -often / (drawn.size * share)
            place += 1
        to.indptr[row + 1] = place
