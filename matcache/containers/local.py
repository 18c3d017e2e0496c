"""Patterns whose column numbers are places in the list of the columns that occur."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .slots import PatternSlot, Slot

if TYPE_CHECKING:
    from .matrices import Mat


def _of_block(name: str) -> property:
    def get(self: LocalPattern) -> Any:
        return getattr(self.of, name)

    def put(self: LocalPattern, value: Any) -> None:
        setattr(self.of, name, value)

    return property(get, put, doc="As of the pattern that this one numbers anew.")


class LocalPattern(PatternSlot):
    """The entries of another pattern; column n is the n-th of those that occur in the block.

    of: the other pattern. Everything but the column numbers is its own, as it is now.

    A table for it has as many rows as the block has room for non-zeros: see `local_table`. Where a
    program over the columns meets such a table, its rows are in the order of these columns; rows of
    tables with a row for each column of the data are found through `active`, as always.
    """

    def __init__(self, guid: int, of: PatternSlot, places: Slot) -> None:
        """places: int32 [1 x capacity], for the column numbers."""
        self.guid, self.of, self.places = guid, of, places
        self.rows, self.label = of.rows, f"{of.label}, columns numbered in the block"

    @property
    def columns(self) -> int:  # type: ignore[override]
        """The rows of its tables."""
        return self.of.capacity

    @property
    def indices(self) -> Any:
        """The column numbers."""
        return None if self.places.array is None else self.places.array.reshape(-1)

    capacity = _of_block("capacity")
    nnz = _of_block("nnz")
    version = _of_block("version")
    where = _of_block("where")
    indptr = _of_block("indptr")
    active = _of_block("active")
    active_count = _of_block("active_count")
    starts = _of_block("starts")
    t_rows = _of_block("t_rows")
    t_pos = _of_block("t_pos")
    counts = _of_block("counts")
    turned = _of_block("turned")
    block = _of_block("block")
    dependents = _of_block("dependents")
    grown = _of_block("grown")
    build = _of_block("build")


def columns_of_data(pattern: PatternSlot) -> int:
    """Return how many columns a pattern has where they are not numbered in the block."""
    return pattern.of.columns if isinstance(pattern, LocalPattern) else pattern.columns


def grows_with(pattern: PatternSlot, table: Mat) -> None:
    """Let a table have as many rows as a pattern has room for non-zeros."""
    table.slot.grows = 0
    pattern.dependents.setdefault(table.slot.guid, table.slot)
