"""Print a row's work for a group of lanes as CUDA C++ loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar

from ..notation.elementwise import ELEMENTWISE
from ..program.instructions import (
    Access,
    Apply,
    Dot,
    Gather,
    Kind,
    Product,
    Reduce,
    Value,
    reads,
)
from ..program.schedule import Group, Schedule
from .cuda_body import CudaBody
from .cuda_header import C_TYPES, number
from .cuda_layout import Layout, is_shared
from .rows import RowwisePrinter, column

_ACROSS = {"sum": "bl_plus", "max": "bl_larger", "min": "bl_smaller"}


class CudaLoops(RowwisePrinter):
    """Prints the work on a row, with more locals than `RowwisePrinter` has.

    m: numbers of the row in arguments.
    w: registers of a vector.
    r: the register.
    s: the first register of a pack.
    v: the place in a pack.
    b: packs of shared vectors.
    """

    layout: Layout  # where vectors are kept, in a program of rows
    end = ";"
    declare = "F "
    count = "F(length)"
    start: ClassVar[Mapping[str, str]] = {"sum": "F(0)", "max": "-BL_INF(F)", "min": "BL_INF(F)"}
    fold: ClassVar[Mapping[str, str]] = {
        "sum": "{0} + {1}",
        "max": "bl_maximum({0}, {1})",
        "min": "bl_minimum({0}, {1})",
    }

    def __init__(self, plan: Schedule, types: Sequence[str] | None = None) -> None:
        """Prepare to print the plan.

        types: C types of the arguments; None: the program's dtype.
        """
        super().__init__(plan)
        self.types = types
        self.float = C_TYPES[self.program.dtype]

    # -------------------------------------------------------------- names

    def number(self, value: float) -> str:
        """Return a constant."""
        return number(value)

    def cell(self, argument: int) -> str:
        """Return the row's number in an argument of one column."""
        return f"m{argument}"

    def type_of(self, argument: int) -> str:
        """Return the C type of an argument's numbers."""
        return self.float if self.types is None else self.types[argument]

    def register(self, value: Value) -> str:
        """Return the registers of a spread vector."""
        return f"w{value.id}"

    def element(self, value: Value) -> str:
        """Return this lane's element of a vector."""
        if is_shared(value):
            return f"b{value.arg}[v]"
        if value.access is Access.PLACE:
            return "F(k + v)"
        return f"{self.register(value)}[r]"

    def put(self, value: Value, text: str) -> None:
        """Print the store of this lane's element of a vector."""
        self.set(self.element(value), text)

    def nonzero(self, value: Value, lane: int) -> str:
        """Return non-zero j + lane of a value that is not made in the loop."""
        if value.access is Access.PLACE:
            return f"F({column(value.pattern, lane)})"
        if value.access in (Access.COLUMN, Access.ENTRY):
            return f"F(a{value.arg}[{column(value.pattern, lane)}])"
        text = self.nonzero_place(value, lane)
        own = value.access is not Access.VALUES or self.type_of(value.arg) == self.float
        return text if own else f"F({text})"

    def nonzero_place(self, value: Value, lane: int) -> str:
        """Return where a value of non-zero j + lane is stored."""
        return f"{self.array(value)}[{self.index(lane)}]"

    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """Return an elementwise operation on these texts."""
        return ELEMENTWISE[instruction.op].c.format(*texts)

    def single_numbers(self) -> None:
        """Print locals for the arguments that are one number for all rows."""
        for n, argument in enumerate(self.program.arguments):
            if argument.form == "number":
                self.out.line(f"const F x{n} = n{n};")
            elif argument.form == "mat" and argument.rows_one and argument.columns == 1:
                self.out.line(f"const F x{n} = (F)a{n}[0];")

    # -------------------------------------------------------------- vectors in registers

    def pack(self, length: int) -> int:
        """Return how many consecutive numbers of a vector a lane holds."""
        return self.layout.pack(length)

    @contextmanager
    def packs(self, length: int) -> Iterator[None]:
        """Print a loop over this lane's packs of a vector.

        Its locals: `s` is the first register of a pack, `k` its place.
        """
        pack = self.pack(length)
        per, step = f"BL_PER({length}, {pack})", f"BL_LANES * {pack}"
        self.out.line("#pragma unroll")
        head = f"for (int s = 0, k = lane * {pack}; s < {per}; s += {pack}, k += {step})"
        with self.out.block(f"{head} if (k < {length}) {{", "}"):
            yield

    @contextmanager
    def each(self, length: int) -> Iterator[None]:
        """Print a loop over a pack, within `packs`; `v`: place in it, `r`: register."""
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int v = 0; v < {self.pack(length)}; ++v) {{", "}"):
            self.out.line("const int r = s + v; (void)r;")
            yield

    def start_gather(self, out: Value) -> None:
        """Print a vector of zeros, to which rows of a table will be added."""
        with self.packs(out.length), self.each(out.length):
            self.out.line(f"{self.register(out)}[r] = F(0);")

    def shared_pack(self, value: Value) -> None:
        """Print the load of this lane's pack of a vector that is the same for all rows."""
        if is_shared(value):
            pack = self.pack(value.length)
            self.out.line(f"F b{value.arg}[{pack}];")
            self.out.line(f"bl_load<{pack}>(b{value.arg}, a{value.arg} + k);")

    # -------------------------------------------------------------- loops and groups

    def repeat(self, count: Value | int) -> AbstractContextManager[None]:
        """Print a loop of `count` rounds."""
        rounds = f"(i64)({self.scalar(count)})" if isinstance(count, Value) else str(count)
        head = f"for (i64 round = 0, rounds = {rounds}; round < rounds; ++round) {{"
        return self.out.block(head, "}")

    def leave(self, condition: str) -> None:
        """Print the exit of a loop when the condition is not zero."""
        self.out.line(f"if ({condition} != F(0)) break;")

    def product(self, product: Product) -> None:
        """Print a vector times a small matrix; its numbers move from lane to lane."""
        out, length, width = self.out, product.vec.length, product.out.length
        pack = self.pack(length)
        self.start_gather(product.out)
        out.line("#pragma unroll")
        with out.block(f"for (int b = 0; b < BL_PER({length}, {pack}); b += {pack}) {{", "}"):
            with out.block("for (int from = 0; from < BL_LANES; ++from) {", "}"):
                out.line(f"const int first = b * BL_LANES + from * {pack};")
                out.line(f"if (first >= {length}) break;")
                out.line("#pragma unroll")
                with out.block(f"for (int u = 0; u < {pack}; ++u) {{", "}"):
                    if is_shared(product.vec):
                        out.line(f"const F t = (F)a{product.vec.arg}[first + u];")
                    else:
                        register = self.register(product.vec)
                        out.line(f"const F t = BL_FROM_LANE({register}[b + u], from);")
                    with self.packs(width):
                        row = f"a{product.matrix} + (i64)(first + u) * {width} + k"
                        out.line(f"F g[{self.pack(width)}];")
                        out.line(f"bl_load<{self.pack(width)}>(g, {row});")
                        with self.each(width):
                            out.line(f"{self.element(product.out)} += t * g[v];")

    def vector(self, group: Group) -> None:
        """Print a loop over a vector."""
        shared = {
            value.arg: value
            for instruction in group.instructions
            for value in reads(instruction)
            if value.kind is Kind.VEC and is_shared(value)
        }
        with self.packs(group.length):
            for value in shared.values():
                self.shared_pack(value)
            with self.each(group.length):
                self.body(group)
        self.finish(group)

    def body(self, group: Group) -> None:
        """Print the body of a loop over elements."""
        CudaBody(self, group).run()

    def nonzeros(self, group: Group) -> None:
        """Print a loop over the non-zeros of the row."""
        out, rows = self.out, self.layout.rows_in_flight
        wide = any(
            isinstance(i, Dot) or (isinstance(i, Gather) and i.out.kind is Kind.VEC)
            for i in group.instructions
        )
        if not wide:  # each lane has its own non-zeros
            with out.block("for (i64 j = p + lane; j < q; j += BL_LANES) {", "}"):
                CudaBody(self, group).run()
            self.finish(group)
        elif rows > 1:  # all lanes work on the vectors of the same non-zeros
            with out.block("{", "}"):
                out.line(f"const i64 full = p + (q - p) / {rows} * {rows};")
                with out.block(f"for (i64 j = p; j < full; j += {rows}) {{", "}"):
                    CudaBody(self, group, rows, wide=True).run()
                with out.block("for (i64 j = full; j < q; ++j) {", "}"):
                    CudaBody(self, group, wide=True).run()
        else:
            with out.block("for (i64 j = p; j < q; ++j) {", "}"):
                CudaBody(self, group, wide=True).run()
        self.join(group)
        out.line("BL_SYNC();")  # makes stored values visible to every lane

    def finish(self, group: Group) -> None:
        """Print how lanes' parts of sums are combined."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce | Gather) and instruction.out.kind is Kind.ROW:
                name = f"s{instruction.out.id}"
                self.set(name, f"bl_across<{_across(instruction)}>({name})")

    def join(self, group: Group) -> None:
        """Print how parts of a long row's sums over non-zeros are combined."""
        sums = [i for i in group.instructions if isinstance(i, Reduce | Gather)]
        if not sums:
            return
        with self.out.block("if (LONG) {", "}"):
            for instruction in sums:
                if instruction.out.kind is Kind.ROW:
                    name = f"s{instruction.out.id}"
                    self.set(name, f"bl_across_groups<{_across(instruction)}>({name})")
                else:
                    pack, name = self.pack(instruction.out.length), self.register(instruction.out)
                    per = f"BL_PER({instruction.out.length}, {pack})"
                    self.out.line(f"bl_add_groups<{per}, {pack}>({name});")


def _across(instruction: Reduce | Gather) -> str:
    """Return the function that combines two parts of a sum."""
    return _ACROSS[instruction.op if isinstance(instruction, Reduce) else "sum"]
