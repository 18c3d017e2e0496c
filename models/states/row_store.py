"""Keep numbers for each row of the data on the host, in memory or mapped from a file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.containers.backend import Held

from .row_share import Ids, RowShare

DRAWN = 2**16  # rows drawn at a time: another number changes what a seed draws

Numbers = float | npt.NDArray[np.floating]  # one for all columns, or one for each
Kind = Literal["uniform", "normal"]
Init = Numbers | tuple[Kind, Numbers] | tuple[Kind, Numbers, Numbers]


class Pages(Protocol):
    """Compares the pages of a store in a file with what was written to them."""

    def reading(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Read numbers of the flat array, from `begin` to `end` of each range."""

    def writing(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Change numbers of the flat array, from `begin` to `end` of each range."""

    def check(self) -> None:
        """Compare all pages."""

    def renew(self) -> None:
        """Take the array as it is now."""

    def expect(self, *, in_order: bool) -> None:
        """Tell the system whether rows are read in their order."""


class RowStore:
    """Holds numbers [rows x columns], one row per row of the data. A learner owns it.

    held: where a device holds all rows; None: it does not.
    pages: of its file, to be compared; None: it is in memory.
    """

    held: Held | None = None
    pages: Pages | None = None

    def __init__(self, rows: int, columns: int, dtype: npt.DTypeLike = np.float32) -> None:
        """Allocate zeros in memory."""
        self._array: npt.NDArray[np.number] = np.zeros((rows, columns), dtype)

    @classmethod
    def of(cls, array: npt.NDArray[np.number]) -> RowStore:
        """Return a store that uses `array`, C-contiguous and writable, without a copy."""
        store = cls.__new__(cls)
        store._array = array
        return store

    @property
    def array(self) -> npt.NDArray[np.number]:
        """The rows, as of now. Call `changed` after writing to them."""
        if self.held is not None:
            self.held.bring(self._array)
        return self._array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self._array.shape
        return rows, columns

    def check(self) -> None:
        """Compare the pages of a file, before the array is read as a whole."""
        if self.pages is not None:
            self.pages.check()

    def reading(self, rows: Ids, starts: Ids | None = None) -> AbstractContextManager[None]:
        """Read these rows in a `with` statement.

        starts: where each row of the data begins in the flat array, and its end; None: rows are
            those of the array.
        """
        return nullcontext() if self.pages is None else self.pages.reading(*self._of(rows, starts))

    def writing(self, rows: Ids, starts: Ids | None = None) -> AbstractContextManager[None]:
        """Change these rows in a `with` statement. starts: see `reading`."""
        return nullcontext() if self.pages is None else self.pages.writing(*self._of(rows, starts))

    def _of(self, rows: Ids, starts: Ids | None) -> tuple[Ids, Ids]:
        """Return where rows begin and end in the flat array."""
        if starts is not None:
            return starts[rows], starts[rows + 1]
        begin = rows.astype(np.int64) * self._array.shape[1]
        return begin, begin + self._array.shape[1]

    def hold(self, held: Held) -> None:
        """Let a device hold the rows; pages of a file, which follow at times, are not compared."""
        self.held, self.pages = held, None
        self.changed()

    def changed(self) -> None:
        """Take the array as it is now: note its pages, and copy it to the device, if any."""
        if self.pages is not None:
            self.pages.renew()
        if self.held is not None:
            self.held.send(self._array)

    def draw(self, init: Init, seed: int, stream: int, share: RowShare | None = None) -> None:
        """Fill every row from `init`.

        `(kind, scale, centre)` draws `centre + scale * noise`. A row's noise depends only on
        `(seed, stream, row)`.

        share: of the worker whose rows these are; None: it has all.
        """
        if not isinstance(init, tuple):
            if np.any(init):
                self.array[:] = init
                self.changed()
            return
        kind, scale, centre = init if len(init) == 3 else (*init, 0.0)
        share = share or RowShare.of_all(len(self.array))
        for start in range(0, share.rows, DRAWN):
            own = share.own(np.arange(start, min(start + DRAWN, share.rows)))
            if not own.size:
                continue
            key = np.array([seed, (stream << 40) + start // DRAWN], np.uint64)
            rng = np.random.Generator(np.random.Philox(key=key))
            shape = (int(own[-1]) + 1 - start, self.array.shape[1])
            drawn = rng.standard_normal(shape, np.float32) if kind == "normal" else rng.random(
                shape, np.float32
            )  # fmt: skip
            places = share.places(own)
            with self.writing(places):
                self.array[places] = scale * drawn[own - start] + centre
