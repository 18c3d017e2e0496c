"""Print how CUDA C++ reads and writes a row's numbers: vectors are in registers of its lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..notation.elementwise import ELEMENTWISE
from ..program.instructions import Access, Apply, Value
from ..program.schedule import Schedule
from .cuda_header import C_TYPES, number
from .cuda_layout import Layout, is_shared
from .rows import RowwisePrinter, column


class CudaNumbers(RowwisePrinter):
    """Prints numbers, in more locals than `RowwisePrinter` has.

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
