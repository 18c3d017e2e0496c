"""Print the kernel of `row_steps` for several columns, which reads a row of a table at once.

The entries that a row of X touches are gathered into strips: one for each table, [non-zeros of the
row x width] in one piece. The width is a multiple of `WIDTH`, so the numbers of all non-zeros and
columns are one loop, without a rest that would be scalar code. What columns beyond the last hold
does not matter. The arithmetic of a column is that of a kernel for one column, in the same order.
"""

from __future__ import annotations

from ..program.row_steps_plan import LANES, WIDTH, EntryProgram, RowStepsPlan
from .numba_row_steps import RowStepsPrinter
from .numba_rows import LINE


def row_steps_source(plan: RowStepsPlan) -> str:
    """Return the source of a module whose `run` executes `plan`."""
    printer = WideRowStepsPrinter if plan.wide else RowStepsPrinter
    return printer(plan).source()


class WideRowStepsPrinter(RowStepsPrinter):
    """Prints single loops over the numbers of a strip.

    Locals: u0, u1, ... strips of the tables; signal: strip of values of X, or of times; residuals:
    strip of residuals; numbers0, ... strips of numbers that differ by column; sums [LANES x width];
    residual, ones [width]. A gradient is multiplied in the loop that uses it, as for one column:
    so both fuse it with the same operations.
    """

    def __init__(self, plan: RowStepsPlan) -> None:
        super().__init__(plan)
        bits = plan.dtype.removeprefix("float")
        self.made |= {
            "scale": f"make_scale({bits})",
            "add_one": f"make_multiply_add(1, {bits})",
            "add_all": f"make_multiply_add({LANES}, {bits})",
        }
        self.by_column = [n for n, count in enumerate(plan.step.shared) if count > 1]

    def name_widths(self) -> None:
        """Print names for the number of columns, and of numbers in a row of a strip."""
        self.name_width(self.steps.columns)
        self.out.line(f"columns = {self.length(self.steps.columns)}")
        self.out.line(f"width = {self.up(self.steps.columns, WIDTH)}")

    def before_rows(self) -> None:
        """Print names of the parts of `strips`."""
        out, steps = self.out, self.steps
        out.line("every = strips.reshape(strips.size)")
        out.line("length = strips.shape[1] * width")
        names = [f"u{n}" for n, _ in steps.step.strips] + ["signal", "residuals"]
        names += [f"numbers{n}" for n in self.by_column]
        for place, name in enumerate(names):
            out.line(f"{name} = every[{place} * length : {place + 1} * length]")
        out.line(f"rest = every[{len(names)} * length :]")
        out.line(f"sums = rest[: {LANES} * width].reshape({LANES}, width)")
        out.line(f"residual = rest[{LANES} * width : {LANES + 1} * width]")
        out.line(f"ones = rest[{LANES + 1} * width : {LANES + 2} * width]")
        out.line("ones[:] = F(1)")
        if self.by_column:
            out.line("repeated = 0")

    def scores(self) -> None:
        """Print scores: gather the row's entries, wake them, multiply."""
        out, steps = self.out, self.steps
        self.fetch_ahead()
        self.repeat_numbers()
        with out.block("for t in range(n):"):
            out.line("c = np.intp(cs[t]) * columns")
            for n, place in steps.step.strips:
                out.line(f"scale(u{n}, t * width, {steps.step.array(place)}, c, F(1), columns)")
            if steps.wake is not None and steps.seen:
                out.line("elapsed = F(now - seen[np.uintp(cs[t]), 0])")
                out.line("scale(signal, t * width, ones, 0, elapsed, width)")
        if steps.wake is not None:
            out.line("clock = F(now)")
            self.entries(steps.wake, "elapsed = signal[e]")
        out.line("sums[:] = F(0)")
        out.line(f"full = n // {LANES} * {LANES}")
        with out.block(f"for t in range(0, full, {LANES}):"):
            values = ", ".join(f"F(vs[t + {lane}])" for lane in range(LANES))
            out.line(f"add_all(sums, u0, t * width, ({values}), width)")
        with out.block("for t in range(full, n):"):
            out.line("add_one(sums, u0, t * width, (F(vs[t]),), width)")
        with out.block("for j in range(columns):"):
            out.line(f"a0[i, j] = {' + '.join(f'sums[{lane}, j]' for lane in range(LANES))}")

    def fetch_ahead(self) -> None:
        """Print prefetches of the rows of tables that the next row of X will read."""
        steps = self.steps
        numbers = LINE * 8 // int(steps.dtype.removeprefix("float"))
        with self.out.block("for t in range(indptr[i + 1], indptr[min(i + 2, rows)]):"):
            with self.out.block(f"for j in range(0, columns, {numbers}):"):
                for place in steps.step.kept:
                    self.out.line(f"fetch({steps.step.array(place)}, indices[t], j)")

    def repeat_numbers(self) -> None:
        """Print copies of the numbers by column, for as many non-zeros as a row ever has."""
        if not self.by_column:
            return
        out, steps = self.out, self.steps
        with out.block("while repeated < n:"):
            for n in self.by_column:
                row = f"{steps.step.prefix}s{n}"
                out.line(f"scale(numbers{n}, repeated * width, {row}, 0, F(1), columns)")
            out.line("repeated += 1")

    def moves(self) -> None:
        """Print the step of every gathered entry, and of the row of constants."""
        out, steps = self.out, self.steps
        with out.block("for j in range(columns):"):
            out.line("residual[j] = o0[i, j]")
        with out.block("for t in range(n):"):
            out.line("scale(signal, t * width, ones, 0, F(vs[t]), width)")
            out.line("scale(residuals, t * width, residual, 0, F(1), width)")
        self.entries(steps.step, "gradient = signal[e] * residuals[e]")
        with out.block("for t in range(n):"):
            out.line("c = np.intp(cs[t]) * columns")
            for n, place in steps.step.strips:
                if place in steps.moved:
                    out.line(f"scale({steps.step.array(place)}, c, u{n}, t * width, F(1), columns)")
            if steps.seen:
                out.line("seen[np.uintp(cs[t]), 0] = now")
        if steps.bias is not None:
            with out.block("for j in range(columns):"):
                out.line("r = o0[i, j]")
                self.bias(steps.bias)

    def entries(self, entry: EntryProgram, first: str) -> None:
        """Print the program of all numbers of the strips.

        first: assignment to the name of a signal, from number e of the strips.
        """
        out = self.out
        for n, columns in enumerate(entry.shared):
            if columns == 1:
                out.line(f"y{n} = F({entry.prefix}s{n}[0, 0])")
        with out.block("for e in range(n * width):"):
            out.line(first)
            for n in self.by_column:
                out.line(f"y{n} = numbers{n}[e]")
            self.entry(entry, {place: f"u{n}[e]" for n, place in self.steps.step.strips})
