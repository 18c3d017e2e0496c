"""What a kernel of `row_steps` is to do, as data: the same for both backends."""

from __future__ import annotations

from dataclasses import dataclass

from .instructions import Program, walk, writes
from .schedule import Schedule

# What a row says to a program that moves entries: names in the source, in the order of arguments.
SIGNALS = ("gradient", "rate", "weight", "clock", "elapsed")


@dataclass(frozen=True)
class EntryProgram:
    """A traced program of one entry of each table.

    Its arguments are the signals, in their order, then the entries, then numbers by column. tables:
    how many columns each table has, 0 for one that is not there; shared: the same of the numbers.
    prefix: of the names of its arrays, so that two programs fit into one kernel.
    """

    program: Program
    tables: tuple[int, ...]
    shared: tuple[int, ...]
    prefix: str

    @property
    def first(self) -> int:
        """Number of the argument that is the first table's entry."""
        return len(SIGNALS)

    @property
    def kept(self) -> list[int]:
        """The tables that are there, by their place."""
        return [place for place, columns in enumerate(self.tables) if columns]

    @property
    def written(self) -> list[int]:
        """The tables that the program assigns to."""
        targets = {w.arg for i in walk(self.program.body) if (w := writes(i)) is not None}
        return [place for place in self.kept if self.first + place in targets]

    @property
    def strips(self) -> list[tuple[int, int]]:
        """Number of the strip, and place of the table, of all that are gathered."""
        return list(enumerate(self.kept))

    def array(self, place: int) -> str:
        """Name of a table."""
        return f"{self.prefix}{place}"

    def arrays(self) -> list[str]:
        """Parameters of the kernel that hold its tables and its numbers by column."""
        names = [self.array(place) for place in self.kept]
        return names + [f"{self.prefix}s{n}" for n, columns in enumerate(self.shared) if columns]


@dataclass(frozen=True)
class RowStepsPlan:
    """All of a kernel. residual: a row program whose first argument is a row of scores.

    wake: what brings an entry up to date before it is read, or None. seen: whether there is a table
    of what the clock showed then. bias: the step of the entries of a row of constants, or None.
    """

    columns: int
    residual: Schedule
    step: EntryProgram
    wake: EntryProgram | None
    bias: EntryProgram | None
    seen: bool
    dtype: str

    @property
    def moved(self) -> set[int]:
        """The tables of which a row moves entries, by their place."""
        return {*self.step.written, *(() if self.wake is None else self.wake.written)}
