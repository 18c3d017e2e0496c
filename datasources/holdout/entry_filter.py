"""Filters the entries of a source of rows and columns: the held-out ones, or the others."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.answers import answered

from ..arrays.block_shape import CsrArrays
from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one
from ..block import HostBlock
from ..errors import DataError
from ..source import DataSource, TwoSidedSource
from .derived import DerivedSource
from .split import limit_of, start_of


class EntryFilter(DerivedSource):
    """A part of the stored entries of `source`: the held-out entries, or the others.

    - share, seed: entry (row, column) is held out if hash(seed, row, column) < share.
    - held: True for the held-out entries, False for the others.
    - side: 1 if the rows of `source` are the columns of the data, as in `source.transposed()`.

    Both parts have all rows and all columns, without targets. Each block is read from `source` and
    filtered, in every pass, so nothing is copied or kept. Both orientations hold out the same
    entries. Raises `DataError` for a dense source, in which no entry is unknown.

    >>> from scipy.sparse import csr_array
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(csr_array(np.ones((4, 5))), block_rows=4)
    >>> parts = [EntryFilter(source, 0.3, seed=0, held=held) for held in (False, True)]
    >>> blocks = [HostBlock(source.shape) for _ in parts]
    >>> for part, block in zip(parts, blocks):
    ...     part.read(0, 0, block)
    >>> [block.nnz for block in blocks], blocks[1].indices[:blocks[1].nnz].tolist()
    ([15, 5], [0, 1, 3, 4, 4])
    """

    @answered
    def __init__(
        self, source: DataSource, share: float, seed: int, *, held: bool, side: int = 0
    ) -> None:
        """Read nothing yet."""
        if source.shape.dense:
            raise DataError(
                f"EntryFilter: {type(source).__name__} is dense, so it has no unknown entries; "
                "pass a sparse matrix."
            )
        self._share, self._seed, self._held, self._side = share, seed, held, side
        self._start, self._limit = start_of(seed), limit_of(share)
        shape = replace(source.shape, targets=0, weighted=False)
        super().__init__(source, shape, f"entries {share} {seed} {held} {side}")

    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        rows = whole.rows
        into.write()
        into.row_ids[:rows] = whole.row_ids[:rows]
        filter_entries(
            whole.row_ids[:rows], whole.csr, self._side, self._start, self._limit, self._held,
            into.csr,
        )  # fmt: skip
        return rows

    def __repr__(self) -> str:
        """Show the part and the source."""
        part = "held-out" if self._held else "other"
        return f"EntryFilter({part} entries of {self._source})"


class TwoSidedEntryFilter(EntryFilter):
    """An `EntryFilter` of a source that has its data in both orientations."""

    def transposed(self) -> EntryFilter:
        """Return the same entries with rows and columns exchanged."""
        assert isinstance(self._source, TwoSidedSource)
        other = self._source.transposed()
        return EntryFilter(other, self._share, self._seed, held=self._held, side=1 - self._side)


def entry_filter(source: DataSource, share: float, seed: int, *, held: bool) -> EntryFilter:
    """Return a part of the entries of `source`, in both orientations if it has them."""
    kind = TwoSidedEntryFilter if isinstance(source, TwoSidedSource) else EntryFilter
    return kind(source, share, seed, held=held)


@kernel
def filter_entries(
    ids: npt.NDArray[np.int64],
    given: CsrArrays,
    side: int,
    start: np.uint64,
    limit: np.uint64,
    held: bool,
    to: CsrArrays,
) -> None:
    """Copy the entries of CSR rows that are held out, or that are not; see `EntryFilter`."""
    place = 0
    to.indptr[0] = 0
    for row in range(ids.size):
        for entry in range(given.indptr[row], given.indptr[row + 1]):
            user, item = ids[row], np.int64(given.indices[entry])
            if side == 1:
                user, item = item, user
            of_user = mix_one(start + np.uint64(user + 1) * GOLDEN)
            hashed = mix_one(of_user + np.uint64(item + 1) * GOLDEN)
            if (hashed < limit) == held:
                to.indices[place] = given.indices[entry]
                to.values[place] = given.values[entry]
                place += 1
        to.indptr[row + 1] = place
