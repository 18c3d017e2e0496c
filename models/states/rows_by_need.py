"""Bring blocks of the other side the rows that occur in them, and sums of all rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from blocklearn.matcache import Mat, SparseMat, named
from blocklearn.matcache.containers.matrices import handle
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.operations.local import local_table

from .row_share import Ids
from .stored_rows import StoredRows

__hands_on__ = True  # a state is read where the model does it, see `source_line`

SAMPLE = 2**12
"""Rows of a sample of all, at most."""


class RowsByNeed(StoredRows):
    """Rows that workers read without a table of all. On the CPU only.

    sample: some rows of all, evenly spaced: [`SAMPLE` x columns] at most.
    gram: R.T @ R [columns x columns] of all rows R.

    Both are as they were when training turned to the other side.
    """

    _sample: Slot | None = None
    _gram: Slot | None = None
    _near: Slot | None = None

    @property
    def sample(self) -> Mat:
        """A handle to some rows of all."""
        if self._sample is None:
            shape = len(self.sampled), self.shape[1]
            self._sample = named(self.cache, f"{self.name}, a sample", shape).slot
            self.refresh()
        return handle(self.cache, self._sample)

    @cached_property
    def sampled(self) -> Ids:
        """The numbers of the rows of the sample."""
        count = min(self.shape[0], SAMPLE)
        return np.arange(count, dtype=np.int64) * self.shape[0] // max(1, count)

    @property
    def gram(self) -> Mat:
        """A handle to R.T @ R."""
        shape = self.shape[1], self.shape[1]
        self._gram = named(self.cache, f"{self.name}.T @ {self.name}", shape).slot
        return handle(self.cache, self._gram)

    def near(self, X: SparseMat) -> Mat:
        """Return the rows that occur in the present block of the other side, as it numbers them.

        Workers bring them before the block: each needs to have its own rows only.

        X: entries of the block, numbered by `local`.
        """
        rows = local_table(X, self.shape[1], f"{self.name} of the block")
        self._near = rows.slot
        return rows

    # ------------------------------------------------------------- what a learner brings

    @property
    def by_need(self) -> bool:
        """Whether blocks of the other side read rows by `near`, as workers bring them."""
        return self._near is not None

    @property
    def wants_sample(self) -> bool:
        """Whether `sample` was read."""
        return self._sample is not None

    @property
    def wants_gram(self) -> bool:
        """Whether `gram` was read."""
        return self._gram is not None

    def refresh(self) -> None:
        """Update `sample` from the store."""
        if self._store is not None and self.whole and self._sample is not None:
            with self._store.reading(self.sampled):
                self._store.array.take(self.sampled, 0, self._sample.data(), "clip")
            self._sample.written(self._where)

    def bring(self, places: Ids, rows: npt.NDArray[np.number]) -> None:
        """Set these places of what `near` returned to rows [r * columns] that occur."""
        self._set(self._near, rows.reshape(len(places), self.shape[1]), places)

    def set_gram(self, found: npt.NDArray[np.number]) -> None:
        """Set `gram`."""
        self._set(self._gram, found)

    def set_sample(self, rows: npt.NDArray[np.number]) -> None:
        """Set `sample` to these rows."""
        self._set(self._sample, rows)

    def _set(
        self, slot: Slot | None, numbers: npt.NDArray[np.number], places: Ids | slice = slice(None)
    ) -> None:
        assert slot is not None
        slot.data()[places] = numbers
        slot.written(self._where)

    def run(self, begin: int, end: int) -> npt.NDArray[np.number]:
        """Return rows of a whole store, not to be changed: a copy if they lie in a file."""
        assert self.whole
        if self.store.pages is None:
            return self.store.array[begin:end]
        return self.of_rows(np.arange(begin, end))
