"""Print the body of a loop in Numba source, and its sums over table rows."""

from __future__ import annotations

from collections.abc import Iterable

from ..program.instructions import Access, Dot, Gather, Kind, Value
from ..program.schedule import Group
from .numba_elements import NumbaElements
from .rows import LoopBody, column

SHORT = 24  # LLVM unrolls loops with fewer rounds instead of vectorising them


class NumbaBody(LoopBody):
    """A loop body that reads numbers from arrays.

    Sums over table rows are calls of `cpu.vectors`, or of `cpu.long_rows` if rows are long.
    """

    def __init__(self, rows: NumbaElements, group: Group, lanes: int = 1, guard: str = "") -> None:
        """guard: the condition on which sums of numbers grow; empty: always."""
        super().__init__(rows, group, lanes)
        self.numba, self.guard = rows, guard

    def run(self) -> None:
        """Print the body, after the columns of its non-zeros."""
        for name, array, place in self.columns():
            self.out.line(f"{name} = place1({array}, {place})")
        super().run()

    def load(self, value: Value, lane: int) -> str:
        """Return a value of the loop from its array."""
        if value.kind is Kind.NNZ and value.access is Access.PLACE:
            return f"F({column(value.pattern, lane)})"
        if value.kind is Kind.NNZ:
            return self.numba.read(self.numba.nonzero(value, lane))
        return self.numba.load(value)

    def store(self, value: Value, *, again: bool) -> None:
        """Print how locals go to their array."""
        for lane in self.every:
            if value.kind is Kind.NNZ:
                self.rows.set(self.numba.nonzero(value, lane), self.name(value, lane))
            else:
                self.numba.put(value, self.name(value, lane))

    def dot(self, dot: Dot) -> list[str]:
        """Print dot products with table rows; return them by lane."""
        length, names = dot.vec.length, [f"d{lane}" for lane in self.every]
        array, at = self.numba.home(dot.vec)
        dots, last = self.numba.dotter(length, len(names))
        places = self.offsets(dot.out, length)
        self.out.line(f"{listed(names)}= {dots}({array}, {at}, a{dot.table}, ({places}){last})")
        return names

    def gather(self, gather: Gather) -> None:
        """Print how table rows are added."""
        out = self.out
        weights = [self.read(gather.weight, lane) for lane in self.every]
        if gather.out.kind is Kind.ROW:
            places = [column(gather.weight.pattern, lane) for lane in self.every]
            numbers = [self.numba.read(f"a{gather.table}[{place}, 0]") for place in places]
            place, more = self.rows.place(gather.out), weighted(weights, numbers)
            if self.guard:
                out.line(f"t = {place} + {more}")
                out.line(f"{place} = t if {self.guard} else {place}")
            else:
                out.line(f"{place} += {more}")
        else:
            add, array, at, last = self.numba.adder(gather.out, len(weights))
            rows = f"a{gather.table}, ({self.offsets(gather.weight, gather.out.length)})"
            out.line(f"{add}({array}, {at}, {rows}, ({listed(weights)}){last})")

    def offsets(self, value: Value, length: int) -> str:
        """Return where the table rows of a value's non-zeros begin."""
        columns = (column(value.pattern, lane) for lane in self.every)
        return listed(f"np.intp({name}) * {self.numba.length(length)}" for name in columns)


def listed(texts: Iterable[str]) -> str:
    """Return the inside of a tuple, also of one with a single element."""
    return "".join(f"{text}, " for text in texts)


def weighted(factors: list[str], numbers: list[str]) -> str:
    """Return a sum of products, in the order of `cpu.vectors.make_add`.

    A column therefore has the same bits for any number of columns.
    """
    return " + ".join(f"{factor} * {x}" for factor, x in zip(factors, numbers, strict=True))
