"""Print a scheduled program as Numba source.

A kernel runs one chunk of rows: `run(chunk, thread, bounds, ...)`. LLVM knows lengths of vectors:
short ones are literals, others sizes (`cpu/compiling/sized.py`). Values inside a loop are scalars.
The loop over non-zeros takes four at a time, so row vectors are loaded once for four table rows.

The kernel of an expression takes the number of columns, and runs over rows i and columns k. If each
of its numbers belongs to one element, chunks are of elements instead: arrays are one-dimensional,
and a single loop runs over k. A sum leaves a chunk's part in row `chunk` of its result. A total
that stands alone may reorder all arithmetic. One beside other results may reorder its own additions
only, so it does not change the bits of these.

Longer than 300 lines: a method for each kind of loop in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import ClassVar

from ..program.instructions import (
    Access,
    Dot,
    Gather,
    Kind,
    Product,
    Reduce,
    Value,
    reads,
    walk,
)
from ..program.schedule import Group, Loop, Schedule, all_values, groups
from .numba_body import SHORT, NumbaBody, listed, weighted
from .numba_elements import NumbaElements
from .numba_header import numba_header
from .rows import indices, plus

UNROLL = 4  # non-zeros at a time
TOGETHER = 8  # long rows of a matrix added at a time
SHORT_MATRIX = 128  # longest row of a matrix if several are added at a time
AHEAD = 2  # distance in rows from the computed one to the prefetched one
FAR = 512  # distance in non-zeros, of sums of numbers
NEAR = 8  # distance in non-zeros from the table row that is read to the prefetched one
LINE, MOST_LINES = 64, 32  # bytes of a cache line; most lines fetched of a row

VECTORS = """from blocklearn.matcache.cpu.inline.long_rows import make_add_rows, make_dot_rows
from blocklearn.matcache.cpu.inline.row_sums import make_sum_rows
from blocklearn.matcache.cpu.inline.vectors import fetch, fetch1, fetch_row, make_add, make_dots

"""


def rowwise_source(plan: Schedule) -> str:
    """Return the source of a module whose `run` executes `plan`."""
    return NumbaPrinter(plan).source()


class NumbaPrinter(NumbaElements):
    """Prints Numba source."""

    count = "F(q - p)"
    start: ClassVar[Mapping[str, str]] = {"sum": "F(0)", "max": "F(-np.inf)", "min": "F(np.inf)"}
    fold: ClassVar[Mapping[str, str]] = {
        "sum": "{0} + {1}",
        "max": "larger({0}, {1})",
        "min": "m.minimum({0}, {1})",
    }

    def __init__(self, plan: Schedule) -> None:
        """Start without text."""
        super().__init__(plan)
        self.fetches = False
        self.sizes: list[int] = []  # numbers that the kernel's decorator tells
        self.first = next(
            (n for n in plan.nodes if isinstance(n, Group) and n.kind is Kind.NNZ), None
        )

    # -------------------------------------------------------------- module

    def parameters(self) -> list[str]:
        """Return the names of the kernel's parameters."""
        names = ["chunk", "thread", "bounds"]
        if self.patterns:
            names += ["indptr", *map(indices, range(self.patterns))]
        if self.program.transposed:
            names += ["active", "positions"]
        for n, argument in enumerate(self.program.arguments):
            names.append({"sparse": "v", "mat": "a"}.get(argument.form, "n") + str(n))
        names += [f"o{n}" for n in self.outputs.values()]
        names += [f"h{n}" for n in self.hidden.values()]
        return [*names, "columns" if self.program.whole else "scratch"]

    def source(self) -> str:
        """Return the whole module."""
        out = self.out
        out.line(f"def run({', '.join(self.parameters())}):")
        with out.block():
            self.name_widths()
            self.single_numbers()
            for value in sorted(self.plan.vectors.values()):
                out.line(f"w{value} = scratch[thread, {value}]")
            self.before_rows()
            if self.plan.flat:
                self.nodes(self.plan.nodes)
            else:
                self.row_loop()
            for n, ending in enumerate(self.program.endings):
                if ending == "total":
                    out.line(f"o{n}[chunk, 0] = total{n}")
        made = "".join(f"{name} = {text}\n" for name, text in self.made.items())
        made += "".join(f"{name} = {text}\n" for text, name in self.constants.items())
        sums = self.reorders
        made = (VECTORS if self.made or self.fetches else "") + made
        dtype, sparse = self.program.dtype, self.patterns > 0
        return numba_header(dtype, made, self.sizes, sums=sums, sparse=sparse) + out.text()

    @property
    def reorders(self) -> bool:
        """Whether LLVM may change the order of sums."""
        sums = any(isinstance(i, Dot | Product | Reduce) for i in walk(self.program.body))
        return sums or self.program.endings == ("total",)

    def name_widths(self) -> None:
        """Print names for the lengths of long rows: arguments tell them, or the kernel's sizes."""
        for n, argument in enumerate(self.program.arguments):
            length = argument.columns if argument.form == "mat" else 0
            if length < SHORT or length in self.widths or self.program.whole:
                continue
            self.name_width(length, f"a{n}.shape[1]" if self.program.any_width else "")

    def name_width(self, length: int, text: str = "") -> None:
        """Print a name for a length, which is `text`, or one of the kernel's sizes."""
        if not text:
            text = f"size{len(self.sizes)}()"
            self.sizes.append(length)
        self.widths[length] = f"width{len(self.widths)}"
        self.out.line(f"{self.widths[length]} = {text}")

    def before_rows(self) -> None:
        """Print what the endings of expressions begin with."""
        out = self.out
        for n, ending in enumerate(self.program.endings):
            if ending == "total":
                out.line(f"total{n} = 0.0")
            elif ending != "assign":
                with out.block("for k in range(columns):"):
                    out.line(f"o{n}[chunk, k] = {'0.0' if ending == 'colsum' else '-np.inf'}")
        for n, result in self.program.in_place:
            out.line(f"a{n} = o{result}")  # one name for one array: LLVM makes vectors

    def row_loop(self) -> None:
        """Print the loop over the rows of a chunk."""
        out, row = self.out, "row" if self.program.transposed else "i"
        if self.first and self.rows_to_fetch(self.first):
            out.line("last = indptr[bounds[chunk + 1]] - 1")
        with out.block(f"for {row} in range(bounds[chunk], bounds[chunk + 1]):"):
            if self.program.transposed:
                out.line("i = place1(active, row)")
                self.fetch_ahead()
            if self.patterns:
                out.line(f"p = indptr[{row}]")
                out.line(f"q = indptr[{row} + 1]")
            self.nodes(self.plan.nodes)
            for result in self.program.returns:
                if result.kind is Kind.ROW and result.arg < 0:
                    self.set(f"o{self.outputs[result.id]}[i, 0]", self.scalar(result))

    def fetch_ahead(self) -> None:
        """Print prefetches of matrix rows that later rows of the loop will read."""
        every = all_values(self.program.body)
        by_row = [v for v in every if v.access is Access.ROWS and v.kind is Kind.VEC]
        by_row = [v for v in by_row if not self.program.arguments[v.arg].local]
        if not by_row:
            return
        self.fetches = True
        self.out.line(f"ahead = active[min(row + {AHEAD}, bounds[chunk + 1] - 1)]")
        step = LINE * 8 // int(self.program.dtype.removeprefix("float"))
        longest = max(v.length for v in by_row)
        length = f"min({self.length(longest)}, {MOST_LINES * step})"
        matrices = sorted({v.arg for v in by_row})
        with self.out.block(f"for k in range(0, {length}, {step}):"):
            for matrix in matrices:
                self.out.line(f"fetch(a{matrix}, ahead, k)")
        with self.out.block(f"if {length} % {step} > 1:"):  # its end may be in one more line
            for matrix in matrices:
                self.out.line(f"fetch(a{matrix}, ahead, {length} - 1)")

    def single_numbers(self) -> None:
        """Print locals for the arguments that are one number for all rows."""
        for n, argument in enumerate(self.program.arguments):
            if argument.form == "number":
                self.out.line(f"x{n} = F(n{n})")
            elif argument.form == "mat" and argument.rows_one and argument.columns == 1:
                self.set(f"x{n}", self.read(f"a{n}[0, 0]"))

    # -------------------------------------------------------------- names

    # -------------------------------------------------------------- loops and groups

    def repeat(self, count: Value | int) -> AbstractContextManager[None]:
        """Print a loop of `count` rounds."""
        rounds = str(count)
        if isinstance(count, Value):
            number = count.access is Access.NUMBER
            whole = number and self.program.arguments[count.arg].form == "number"
            rounds = f"np.int64({f'n{count.arg}' if whole else self.scalar(count)})"
        return self.out.block(f"for _ in range({rounds}):")

    def leave(self, condition: str) -> None:
        """Print the exit of a loop when the condition is not zero."""
        with self.out.block(f"if {condition} != F(0):"):
            self.out.line("break")

    def product(self, product: Product) -> None:
        """Print a vector times a small matrix."""
        out, element = self.out, self.element(product.out)
        short = product.out.length <= SHORT_MATRIX
        self.clear(product.out, whole=short)
        if short:
            self.short_product(product)
            return
        rows, full = self.length(product.vec.length), self.down(product.vec.length, TOGETHER)
        for start, end, count in (("0", full, TOGETHER), (full, rows, 1)):
            with out.block(f"for l in range({start}, {end}, {count}):"):
                every = [plus("l", n) for n in range(count)]
                for n, row in enumerate(every):
                    out.line(f"t{n} = {self.load(product.vec, row)}")
                with out.block(f"for k in range({self.length(product.out.length)}):"):
                    terms = [self.read(f"a{product.matrix}[{row}, k]") for row in every]
                    factors = [f"t{n}" for n in range(count)]
                    self.add(element, weighted(factors, terms))

    def short_product(self, product: Product) -> None:
        """Print a product with a matrix of short rows, several rows at a time."""
        rows, full = self.length(product.vec.length), self.down(product.vec.length, UNROLL)
        for start, end, count in (("0", full, UNROLL), (full, rows, 1)):
            add, array, at, last = self.adder(product.out, count)
            every = [plus("l", n) for n in range(count)]
            places = listed(f"({row}) * {self.length(product.out.length)}" for row in every)
            factors = listed(self.load(product.vec, row) for row in every)
            matrix = f"a{product.matrix}"
            with self.out.block(f"for l in range({start}, {end}, {count}):"):
                self.out.line(f"{add}({array}, {at}, {matrix}, ({places}), ({factors}){last})")

    def start_gather(self, out: Value) -> None:
        """Print a vector of zeros, to which rows of a table will be added."""
        if all(out is not gather.out for gather in self.at_once.values()):
            self.clear(out, whole=True)

    def vector(self, group: Group) -> None:
        """Print a loop over a vector."""
        rounds = "columns" if self.program.whole else self.length(group.length)
        if self.plan.flat:
            rounds = "bounds[chunk], bounds[chunk + 1]"
        with self.out.block(f"for k in range({rounds}):"):
            NumbaBody(self, group).run()

    def nonzeros(self, group: Group) -> None:
        """Print a loop over the non-zeros of the row."""
        first = "p"
        if group in self.at_once:
            self.sum_rows(self.at_once[group])
            return
        numbers = all(isinstance(i, Gather) and i.out.kind is Kind.ROW for i in group.instructions)
        rows = self.rows_to_fetch(group)
        if any(isinstance(i, Dot | Gather) for i in group.instructions):
            first = "full"
            self.out.line(f"full = p + (q - p) // {UNROLL} * {UNROLL}")
            with self.out.block(f"for j in range(p, full, {UNROLL}):"):
                if numbers:
                    self.fetch_nonzeros(group)
                self.fetch_rows(rows, UNROLL)
                NumbaBody(self, group, UNROLL).run()
        if numbers:
            self.last_nonzeros(group)
            return
        with self.out.block(f"for j in range({first}, q):"):
            self.fetch_rows(rows, 1)
            NumbaBody(self, group).run()

    @cached_property
    def at_once(self) -> dict[Group, Gather]:
        """The loops over non-zeros that do nothing but add long table rows, and these sums.

        They are added in registers, so the order of their terms must be as written.
        """
        found: dict[Group, Gather] = {}
        if self.reorders or self.program.any_width:
            return found
        for group in groups(self.plan.nodes):
            step, *more = group.instructions
            if more or not isinstance(step, Gather) or self.rows_to_fetch(group):
                continue
            stored = step.weight.arg >= 0 and step.weight.access is Access.VALUES
            if stored and step.out.length >= SHORT:
                found[group] = step
        return found

    def sum_rows(self, gather: Gather) -> None:
        """Print a sum over long table rows, in registers."""
        array, at = self.home(gather.out)
        turned = bool(self.program.transposed)
        bits = self.program.dtype.removeprefix("float")
        self.made["sum_rows"] = f"make_sum_rows({bits}, turned={turned})"
        columns = indices(gather.weight.pattern)
        places = "positions" if turned else columns
        values, width = self.array(gather.weight), self.length(gather.out.length)
        arrays = f"{array}, a{gather.table}, {columns}, {values}, {places}"
        self.out.line(f"sum_rows({arrays}, {at}, p, q, {width})")

    def rows_to_fetch(self, group: Group) -> list[tuple[int, int, int]]:
        """Return the long table rows that a loop over non-zeros is the first to read.

        Only programs that read them again in a `repeat` fetch them ahead: so much work on a row
        keeps the processor from reading those of the next one early enough.

        Returns the pattern of the non-zeros, the table and its length for each.
        """
        again = any(isinstance(node, Loop) for node in self.plan.nodes)
        if group is not self.first or not again or self.program.transposed:
            return []
        found = set()
        for step in group.instructions:
            if isinstance(step, Dot):
                found.add((step.out.pattern, step.table, step.vec.length))
            elif isinstance(step, Gather):
                found.add((step.weight.pattern, step.table, step.out.length))
        return sorted(rows for rows in found if rows[-1] >= SHORT)

    def fetch_rows(self, rows: list[tuple[int, int, int]], count: int) -> None:
        """Print prefetches of the table rows of non-zeros further on, also of later rows of X."""
        for pattern, table, length in rows:
            self.fetches = True
            for lane in range(count):
                ahead = f"place1({indices(pattern)}, min(j + {NEAR + lane}, last))"
                self.out.line(f"fetch_row(a{table}, np.intp({ahead}), {self.length(length)})")

    def fetch_nonzeros(self, group: Group) -> None:
        """Print prefetches of the columns and values of non-zeros further on.

        A sum of numbers does so little with each that the processor's own prefetching is late.
        """
        self.fetches = True
        streams = {array for _, array, _ in NumbaBody(self, group).columns()}
        if self.program.transposed:
            streams.add("positions")
        else:
            read = [value for step in group.instructions for value in reads(step)]
            streams |= {self.array(v) for v in read if v.access is Access.VALUES}
        for stream in sorted(streams):
            self.out.line(f"fetch1({stream}, j + {FAR})")

    def last_nonzeros(self, group: Group) -> None:
        """Print the sums over the last 0 to 3 non-zeros, without a branch for each.

        Processors guess the end of a loop wrong for most rows, which costs as much as 10 non-zeros.
        """
        with self.out.block("if q > p:"), self.out.block(f"for after in range({UNROLL - 1}):"):
            self.out.line("j = min(full + after, q - 1)")
            NumbaBody(self, group, guard="full + after < q").run()
