"""The contents of a `row_steps` kernel, as data shared by both backends."""

from __future__ import annotations

from dataclasses import dataclass

from .instructions import Program, walk, writes
from .schedule import Schedule

# Numbers of a row that a program which moves entries receives: their names, in argument order.
LANES = 4  # partial sums of a dot product over the non-zeros of a row
WIDTH = 8  # numbers of the narrowest vector that is worth its instructions
SIGNALS = ("gradient", "rate", "weight", "clock", "elapsed")


@dataclass(frozen=True)
class EntryProgram:
    """A traced program for one entry of each table.

    tables: columns of each table; 0 for an absent one.
    shared: columns of each row of numbers; 0 for an absent one.
    prefix: of array names, so that two programs fit into one kernel.

    Its arguments are the signals in their order, then the entries, then the numbers by column.
    """

    program: Program
    tables: tuple[int, ...]
    shared: tuple[int, ...]
    prefix: str

    @property
    def first(self) -> int:
        """The number of the argument that is the first table's entry."""
        return len(SIGNALS)

    @property
    def kept(self) -> list[int]:
        """The places of the tables that are present."""
        return [place for place, columns in enumerate(self.tables) if columns]

    @property
    def written(self) -> list[int]:
        """The tables that the program assigns to."""
        targets = {w.arg for i in walk(self.program.body) if (w := writes(i)) is not None}
        return [place for place in self.kept if self.first + place in targets]

    @property
    def strips(self) -> list[tuple[int, int]]:
        """The number of the strip and the place of the table, for each gathered table."""
        return list(enumerate(self.kept))

    def array(self, place: int) -> str:
        """Return the name of a table."""
        return f"{self.prefix}{place}"

    def arrays(self) -> list[str]:
        """Return the kernel's parameters for its tables and its numbers by column."""
        names = [self.array(place) for place in self.kept]
        return names + [f"{self.prefix}s{n}" for n, columns in enumerate(self.shared) if columns]


@dataclass(frozen=True)
class RowStepsPlan:
    """The contents of a kernel.

    residual: a row program whose first argument is a row of scores.
    wake: program that brings an entry up to date before it is read, or None.
    seen: whether a table records the clock of each entry's last move.
    bias: the step of the entries of a row of constants, or None.
    """

    columns: int
    residual: Schedule
    step: EntryProgram
    wake: EntryProgram | None
    bias: EntryProgram | None
    seen: bool
    dtype: str

    @property
    def wide(self) -> bool:
        """Whether loops over the columns are the inner ones: each table has all columns."""
        return self.columns > 1 and all(n in (0, self.columns) for n in self.step.tables)

    @property
    def width(self) -> int:
        """The columns of a strip's row: a multiple of `WIDTH` where `wide`."""
        return -(-self.columns // WIDTH) * WIDTH if self.wide else self.columns

    def strips(self, room: int) -> int:
        """Return the number of strips of `room` numbers.

        They are those of the tables and one for times. If `wide`, they are those of the tables, of
        values, of residuals and of the numbers by column, and some for sums.
        """
        if not self.wide:
            return 1 + self.columns * len(self.step.kept)
        tables = len(self.step.kept) + 2 + sum(columns > 1 for columns in self.step.shared)
        return self.width * tables - -(LANES + 2) * self.width // room

    @property
    def moved(self) -> set[int]:
        """The places of the tables whose entries a row moves."""
        return {*self.step.written, *(() if self.wake is None else self.wake.written)}
