"""Exchange the states of rows, each of which belongs to one worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowState, TokenState

from .crew import Crew

Rows = NDArray[Any]


class SharedRows:
    """The state of all rows, of which each worker has its own.

    shape, dtype: of the whole.
    pieces: yields the rows, range after range; all workers take part, see `LiveModel.rows_of`.
    """

    def __init__(
        self, state: RowState | TokenState, rows_of: Callable[[NDArray[np.int64]], Rows]
    ) -> None:
        """rows_of: returns the rows of these numbers."""
        self.shape, self.dtype = state.shape, np.dtype(state.dtype)
        self._state, self._rows_of = state, rows_of

    @property
    def nbytes(self) -> int:
        """The bytes of the whole."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def checked(self, check: Callable[[Rows], None]) -> SharedRows:
        """Return the same, where `check` sees each piece first."""

        def rows_of(ids: NDArray[np.int64]) -> Rows:
            found = self._rows_of(ids)
            check(found)
            return found

        return SharedRows(self._state, rows_of)

    def pieces(self) -> Iterator[Rows]:
        """Yield the rows in order, range after range."""
        return (self._rows_of(ids) for ids in self._state.ranges())

    def whole(self) -> Rows:
        """Return all rows."""
        found = np.empty(self.shape, self.dtype)
        start = 0
        for piece in self.pieces():
            found[start : start + len(piece)] = piece
            start += len(piece)
        return found


def gathered(
    state: RowState | TokenState, ids: NDArray[np.int64], crew: Crew, *, everywhere: bool
) -> Rows:
    """Return the rows `ids` of a state from their owners; all workers call it.

    everywhere: whether all workers get them; otherwise the leader, and the others get none.
    """
    owners = state.share.owners(ids)
    own = state.of_rows(ids[owners == crew.rank])
    if everywhere:
        found = crew.exchange.share(own)
    else:
        nothing = np.empty(0, own.dtype)
        found = crew.exchange.exchange([own] + [nothing] * (crew.size - 1))
        if not crew.leads:
            return nothing
    parts = ((np.flatnonzero(owners == rank), part) for rank, part in enumerate(found))
    return state.joined(ids, parts)


def hand_out(state: RowState | TokenState, array: Rows | None, crew: Crew) -> None:
    """Give every other worker its rows of the leader's array of all; all workers call it."""
    nothing = np.empty(0, state.dtype)
    for ids in state.ranges():
        owners, parts = state.share.owners(ids), [nothing] * crew.size
        if array is not None:
            parts[1:] = [state.cut(array, ids[owners == rank]) for rank in range(1, crew.size)]
        part = crew.exchange.exchange(parts)[0]
        if not crew.leads:
            state.set_rows(ids[owners == crew.rank], part)


def take_own(state: RowState | TokenState, array: Rows) -> None:
    """Set the own rows of a state to those of an array of all."""
    for ids in state.ranges():
        own = state.share.own(ids)
        state.set_rows(own, state.cut(array, own))
