"""Exchange the states of rows, each of which belongs to one worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowState, RowStore, TokenState

from .crew import Crew
from .row_pieces import PartedRows, RowPieces, Rows


class SharedRows(RowPieces):
    """The state of all rows, of which each worker has its own.

    All workers take part when its pieces are read: see `LiveModel.rows_of`.
    """

    def __init__(
        self, state: RowState | TokenState, rows_of: Callable[[NDArray[np.int64]], Rows]
    ) -> None:
        """rows_of: returns the rows of these numbers."""
        super().__init__(state.shape, np.dtype(state.dtype))
        self._state, self._rows_of = state, rows_of

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


def fetched(
    state: RowState | TokenState, ids: NDArray[np.int64], crew: Crew
) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """Yield the rows `ids` of a state in parts: places among `ids`, and numbers, flat.

    Each worker asks for its own `ids`. All workers call it.
    """
    owners = state.share.owners(ids)
    places = [np.flatnonzero(owners == rank) for rank in range(crew.size)]
    asked = [part.copy() for part in crew.exchange.exchange([ids[place] for place in places])]
    found = crew.exchange.exchange([state.of_rows(part) for part in asked])
    return zip(places, found, strict=True)


def split(state: RowState | TokenState, ids: Sequence[NDArray[np.int64]], crew: Crew) -> Rows:
    """Return the rows `ids[rank]` of a state to each worker; all call it with the same `ids`."""
    own = [state.share.own(part) for part in ids]
    found = crew.exchange.exchange([state.of_rows(part) for part in own])
    owners = state.share.owners(ids[crew.rank])
    parts = ((np.flatnonzero(owners == rank), part) for rank, part in enumerate(found))
    return state.joined(ids[crew.rank], parts)


def hand_out(state: RowState | TokenState, array: Rows | PartedRows | None, crew: Crew) -> None:
    """Give every other worker its rows of the leader's array of all; all workers call it."""
    nothing = np.empty(0, state.dtype)
    for ids in state.ranges():
        owners, parts = state.share.owners(ids), [nothing] * crew.size
        if array is not None:
            begin, end = state.span(ids)
            piece, first = array[begin:end], int(ids[0])
            others = range(1, crew.size)
            parts[1:] = [state.cut(piece, ids[owners == rank], first) for rank in others]
        part = crew.exchange.exchange(parts)[0]
        if not crew.leads:
            state.set_rows(ids[owners == crew.rank], part)


def take_own(state: RowState | TokenState, store: RowStore, array: Rows | PartedRows) -> None:
    """Set the rows in the store of a state to those of an array of all, before its `changed`."""
    rows, place = store.array, 0
    for begin, end in state.stored_share.runs():
        into = rows[place : place + end - begin]
        if isinstance(array, PartedRows):
            array.read(begin, into)
        else:
            into[:] = array[begin:end]
        place += end - begin
