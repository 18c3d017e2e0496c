"""Print the kernel of `row_steps`, which moves entries row after row.

The entries that a row touches are gathered into strips: one for each table and column. Loops over
strips are loops over consecutive numbers, which LLVM vectorises. Sums over the non-zeros have a
fixed order and nothing is reassociated. So the arithmetic of a column does not depend on the number
of other columns. Locals: i row, j column of the tables, t non-zero of the row.
"""

from __future__ import annotations

from ..program.instructions import Kind
from ..program.row_steps_plan import LANES, EntryProgram, RowStepsPlan
from .entries import print_entry
from .numba_header import sized
from .numba_rows import NumbaPrinter

HEADER = """\
import numpy as np
from blocklearn.matcache.cpu.inline import math{bits} as m
from blocklearn.matcache.cpu.compiling.access import larger, make_reads, place1, put1, put2
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.inline.strip_vectors import make_multiply_add, make_scale
from blocklearn.matcache.cpu.inline.vectors import fetch

F = np.float{bits}
get1, get2 = make_reads({bits})
{made}{constants}

@kernel("contract", "nsz"{sizes})
"""


class RowStepsPrinter(NumbaPrinter):
    """Prints the residual as any row program, and the code around it."""

    def __init__(self, plan: RowStepsPlan) -> None:
        super().__init__(plan.residual)
        self.steps = plan

    def parameters(self) -> list[str]:
        """Return the names of the kernel's parameters."""
        steps = self.steps
        names = ["rows", "indptr", "indices", "values", "weights", "rate_", "pace", "clock_"]
        names += ["seen"] if steps.seen else []
        names += [
            {"mat": "a"}.get(argument.form, "n") + str(n)
            for n, argument in enumerate(self.program.arguments)
        ]
        names += ["o0", "scratch"]
        names += steps.step.arrays()
        names += [] if steps.bias is None else steps.bias.arrays()
        return [*names, "strips"]

    def source(self) -> str:
        """Return the whole module."""
        out, steps = self.out, self.steps
        out.line(f"def run({', '.join(self.parameters())}):")
        with out.block():
            self.name_widths()
            for value in sorted(self.plan.vectors.values()):
                out.line(f"w{value} = scratch[{value}]")
            out.line("rate = F(rate_[0, 0])")
            out.line("now = clock_[0, 0]")
            self.before_rows()
            out.line("for i in range(rows):")
            with out.block():
                out.line("weight = F(weights[i, 0])")
                out.line("if weight == F(0):  # as if the row was not there")
                with out.block():
                    out.line("continue")
                out.line("cs = indices[indptr[i] : indptr[i + 1]]")
                out.line("vs = values[indptr[i] : indptr[i + 1]]")
                out.line("n = cs.size")
                self.scores()
                self.residual()
                out.line("now += np.float64(weight) * pace[0, 0]")
                out.line("clock = F(now)")
                self.moves()
            out.line("clock_[0, 0] = now")
        made, sizes = sized(self.sizes, sparse=True)
        made += "".join(f"{name} = {text}\n" for name, text in self.made.items())
        constants = "".join(f"{name} = {text}\n" for text, name in self.constants.items())
        bits = steps.dtype.removeprefix("float")
        return HEADER.format(bits=bits, made=made, constants=constants, sizes=sizes) + out.text()

    def before_rows(self) -> None:
        """Print nothing: each column names its strips."""

    # -------------------------------------------------------------- scores and residuals

    def scores(self) -> None:
        """Print scores: gather the row's entries, wake them, multiply.

        a0[i, j] = row i times column j.
        """
        out, steps = self.out, self.steps
        if steps.wake is not None:
            out.line("clock = F(now)")
            if steps.seen:
                out.line("waits = strips[-1]")
                out.line("for t in range(n):")
                with out.block():
                    out.line("waits[t] = F(now - seen[np.uintp(cs[t]), 0])")
        out.line(f"for j in range({self.length(steps.columns)}):")
        with out.block():
            self.take_strips()
            out.line("for t in range(n):")
            with out.block():
                out.line("c = np.uintp(cs[t])")
                for n, place in enumerate(steps.step.kept):
                    column = self.column(steps.step.tables[place])
                    out.line(f"u{n}[t] = {steps.step.array(place)}[c, {column}]")
            if steps.wake is not None:
                self.numbers(steps.wake)
                out.line("for t in range(n):")
                with out.block():
                    if steps.seen:
                        out.line("elapsed = waits[t]")
                    self.entry(steps.wake, {place: f"u{n}[t]" for n, place in steps.step.strips})
            for lane in range(LANES):
                out.line(f"d{lane} = F(0)")
            out.line(f"full = n // {LANES} * {LANES}")
            out.line(f"for t in range(0, full, {LANES}):")
            with out.block():
                for lane in range(LANES):
                    at = f"t + {lane}" if lane else "t"
                    out.line(f"d{lane} += F(vs[{at}]) * u0[{at}]")
            out.line("for t in range(full, n):")
            with out.block():
                out.line("d0 += F(vs[t]) * u0[t]")
            out.line(f"a0[i, j] = {' + '.join(f'd{lane}' for lane in range(LANES))}")

    def residual(self) -> None:
        """Print o0[i, j] by the row program; tables of one row that it reads may change."""
        self.single_numbers()
        self.nodes(self.plan.nodes)
        (result,) = self.program.returns
        if result.kind is Kind.ROW:
            self.set("o0[i, 0]", self.scalar(result))

    # -------------------------------------------------------------- steps

    def moves(self) -> None:
        """Print the step of every gathered entry, and of the row of constants."""
        out, steps = self.out, self.steps
        out.line(f"for j in range({self.length(steps.columns)}):")
        with out.block():
            self.take_strips()
            out.line("r = o0[i, j]")
            self.numbers(steps.step)
            out.line("for t in range(n):")
            with out.block():
                out.line("gradient = F(vs[t]) * r")
                self.entry(steps.step, {place: f"u{n}[t]" for n, place in steps.step.strips})
            out.line("for t in range(n):")
            with out.block():
                out.line("c = np.uintp(cs[t])")
                for n, place in steps.step.strips:
                    if place in steps.moved:
                        column = self.column(steps.step.tables[place])
                        out.line(f"{steps.step.array(place)}[c, {column}] = u{n}[t]")
            if steps.bias is not None:
                self.bias(steps.bias)
        if steps.seen:
            out.line("for t in range(n):")
            with out.block():
                out.line("seen[np.uintp(cs[t]), 0] = now")

    def bias(self, bias: EntryProgram) -> None:
        """Print the step of the constants of column j, whose residual is r."""
        self.out.line("gradient = r")
        self.numbers(bias)
        columns = {place: self.column(bias.tables[place]) for place in bias.kept}
        self.entry(bias, {place: f"{bias.array(place)}[0, {c}]" for place, c in columns.items()})

    def take_strips(self) -> None:
        """Print names of the strips of column j."""
        count = len(self.steps.step.kept)
        for n in range(count):
            at = f"j * {count} + {n}" if self.steps.columns > 1 else str(n)
            self.out.line(f"u{n} = strips[{at}]")

    def column(self, columns: int) -> str:
        """Return the column, in a table or row of numbers, for the parameter's column j."""
        return "0" if columns == 1 else "j"

    def numbers(self, entry: EntryProgram) -> None:
        """Print locals with the numbers of column j."""
        for n, columns in enumerate(entry.shared):
            if columns:
                self.out.line(f"y{n} = F({entry.prefix}s{n}[0, {self.column(columns)}])")

    def entry(self, entry: EntryProgram, where: dict[int, str]) -> None:
        """Print the straight code of an entry's program.

        where: place of each table's entry.
        """
        out = self.out
        for place, at in where.items():
            out.line(f"e{place} = {at}")
        print_entry(self, entry, {place: f"e{place}" for place in where})
        for place in entry.written:
            if where[place].endswith("[0, 0]") and self.steps.columns > 1:
                last = f"{self.length(self.steps.columns)} - 1"
                out.line(f"if j == {last}:  # until then the others read it")
                with out.block():
                    out.line(f"{where[place]} = e{place}")
            else:
                out.line(f"{where[place]} = e{place}")
