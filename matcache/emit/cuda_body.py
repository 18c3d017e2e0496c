"""Print the body of a loop as CUDA C++, and its sums over table rows."""

from __future__ import annotations

from ..program.instructions import Dot, Gather, Kind, Value, reads, writes
from ..program.schedule import Group
from .cuda_numbers import CudaNumbers
from .rows import LoopBody, column


class CudaBody(LoopBody):
    """A loop body with elements of vectors in registers.

    wide: whether all lanes have the same non-zeros, and each its part of the vectors. Otherwise
    each lane has its own non-zeros.
    """

    def __init__(
        self, rows: CudaNumbers, group: Group, lanes: int = 1, *, wide: bool = False
    ) -> None:
        """Start without text."""
        super().__init__(rows, group, lanes)
        self.cuda = rows
        self.wide = wide
        self.held = _read_twice(group)
        self.loaded: set[tuple[int, int]] = set()  # tables and patterns of rows in registers

    def run(self) -> None:
        """Print the body, after the columns of its non-zeros."""
        for name, array, place in self.columns():
            self.out.line(f"const i64 {name} = {array}[{place}];")
        if self.wide:  # load these numbers at the same time as table rows
            for value in _read_before_made(self.group):
                self.read(value, 0)
        for (table, pattern), length in self.held.items():
            for lane in self.every:
                name = f"g{table}_{column(pattern, lane)}"
                self.out.line(f"F {name}[BL_PER({length}, {self.cuda.pack(length)})];")
        super().run()

    def read(self, value: Value | float, lane: int) -> str:
        """See `LoopBody`. Elements of vectors are read where they are."""
        if isinstance(value, Value) and value.kind is Kind.VEC and value.id not in self.known:
            return self.cuda.element(value)
        return super().read(value, lane)

    def load(self, value: Value, lane: int) -> str:
        """See `LoopBody`."""
        nonzero = value.kind is Kind.NNZ
        return self.cuda.nonzero(value, lane) if nonzero else self.cuda.element(value)

    def store(self, value: Value, *, again: bool) -> None:
        """See `LoopBody`."""
        if value.kind is Kind.VEC:
            self.cuda.put(value, self.name(value, 0))
            return
        if self.wide and again:
            self.out.line("BL_SYNC();")  # waits until every lane has read the old values
        guard = "if (lane == 0) " if self.wide else ""
        for lane in self.every:
            place = self.cuda.nonzero_place(value, lane)
            self.rows.set(f"{guard}{place}", self.name(value, lane))

    def dot(self, dot: Dot) -> list[str]:
        """See `LoopBody`."""
        out, vector = self.out, dot.vec
        name, lanes = f"d{self.group.instructions.index(dot)}", len(self.every)
        out.line(f"F {name}[{lanes}] = {{}};")
        with self.cuda.packs(vector.length):
            self.cuda.shared_pack(vector)
            numbers = self.table_rows(dot.table, dot.out.pattern, vector.length)
            with self.cuda.each(vector.length):
                out.line(f"const F t = {self.cuda.element(vector)};")
                for lane, number in enumerate(numbers):
                    out.line(f"{name}[{lane}] += t * {number};")
        out.line(f"bl_sums<{lanes}>({name});")
        return [f"{name}[{lane}]" for lane in self.every]

    def gather(self, gather: Gather) -> None:
        """See `LoopBody`."""
        weights = [self.read(gather.weight, lane) for lane in self.every]
        if gather.out.kind is Kind.ROW:
            # lanes that share non-zeros each compute the whole sum
            for lane, weight in enumerate(weights):
                entry = f"F(a{gather.table}[{column(gather.weight.pattern, lane)}])"
                self.out.line(f"{self.rows.place(gather.out)} += {weight} * {entry};")
            return
        length = gather.out.length
        with self.cuda.packs(length):
            numbers = self.table_rows(gather.table, gather.weight.pattern, length)
            with self.cuda.each(length):
                for weight, number in zip(weights, numbers, strict=True):
                    self.out.line(f"{self.cuda.element(gather.out)} += {weight} * {number};")

    def table_rows(self, table: int, pattern: int, length: int) -> list[str]:
        """Load the lane's packs of a table's rows, unless done; return a number per row.

        pattern: whose columns choose the rows.
        """
        held, pack = (table, pattern) in self.held, self.cuda.pack(length)
        columns = [column(pattern, lane) for lane in self.every]
        for lane, at in () if (table, pattern) in self.loaded else enumerate(columns):
            name = f"g{table}_{at} + s" if held else f"g{lane}"
            if not held:
                self.out.line(f"F g{lane}[{pack}];")
            self.out.line(f"bl_load<{pack}>({name}, a{table} + {at} * {length} + k);")
        if held:
            self.loaded.add((table, pattern))
        return [f"g{table}_{at}[r]" if held else f"g{lane}[v]" for lane, at in enumerate(columns)]


def _read_before_made(group: Group) -> list[Value]:
    """Return values of non-zeros that are in arrays when the group begins."""
    found: dict[int, Value] = {}
    made: set[int] = set()
    for instruction in group.instructions:
        for value in reads(instruction):
            if value.kind is group.kind and value.id not in made:
                found.setdefault(value.id, value)
        out = writes(instruction)
        if out is not None:
            made.add(out.id)
    return list(found.values())


def _read_twice(group: Group) -> dict[tuple[int, int], int]:
    """Return what both a dot product and a sum of rows read: (table, pattern) -> length."""
    steps = group.instructions
    dots = {(i.table, i.out.pattern): i.vec.length for i in steps if isinstance(i, Dot)}
    gathers = {(i.table, i.weight.pattern) for i in steps if isinstance(i, Gather)}
    return {rows: length for rows, length in dots.items() if rows in gathers}
