"""Print the kernel of `row_steps` as CUDA C++; `numba_row_steps.py` describes it.

Rows are sequential, so one block of threads processes all of them: 32 lanes, or 256 if there are
many columns. The lanes share the entries that a row touches; sums have a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..program.row_steps_plan import EntryProgram, RowStepsPlan
from .cuda_rows import CudaPrinter
from .entries import print_entry

MANY = 8  # least columns of the parameter that justify a whole block


def row_steps_source(plan: RowStepsPlan, types: Mapping[str, str] | None = None) -> str:
    """Return a module with one kernel, for one block of 256 threads.

    types: C types of arrays by parameter name, if not the plan's dtype; clock, pace and seen are
    double.

    Its `run` takes: rows, indptr, indices, values, weights, rate, pace, clock, [seen,] arguments of
    the residual..., residuals, tables..., numbers..., [those of the bias...,] room, strips. The
    first argument of the residual is the scores. strips has `1 + columns * tables` numbers for each
    of `room` entries, the most in a row.
    """
    return _Printer(plan, types or {}).module()


class _Printer(CudaPrinter):
    """Prints the residual as any row program, and the code around it."""

    restrict = ""  # pointers may alias: the residual reads scores and tables that change

    def __init__(self, plan: RowStepsPlan, types: Mapping[str, str]) -> None:
        own = "float" if plan.dtype == "float32" else "double"
        arguments = plan.residual.program.arguments
        super().__init__(plan.residual, [types.get(f"a{n}", own) for n in range(len(arguments))])
        self.steps = plan
        self.named_types = types
        self.lanes_of_row = 256 if max(plan.columns, self.lanes_of_row) > 32 else 32
        if plan.columns >= MANY:
            self.lanes_of_row = 256

    def pointer(self, name: str, default: str = "F") -> str:
        """Return an array parameter."""
        return f"{self.named_types.get(name, default)}* {name}"

    def module(self) -> str:
        """Return the whole text."""
        out, steps = self.out, self.steps
        self.head()
        every = ["i64 rows", "const i64* indptr", "const int* indices", self.pointer("values")]
        every += [self.pointer("weights"), self.pointer("rate_")]
        every += [self.pointer(name, "double") for name in ("pace", "clock_")]
        every += [self.pointer("seen", "double")] if steps.seen else []
        every += self.parameters()
        every += map(self.pointer, steps.step.arrays())
        every += [] if steps.bias is None else map(self.pointer, steps.bias.arrays())
        head = ", ".join([*every, "i64 room", "F* strips"])
        with out.block(
            f'extern "C" __global__ void __launch_bounds__(BL_BLOCK, 1) run({head}) {{', "}"
        ):
            out.line("const int lane = threadIdx.x;")
            out.line("if (lane >= BL_LANES || blockIdx.x != 0) return;")
            out.line(f"const int K = {steps.columns};")
            out.line("const F rate = (F)rate_[0];")
            out.line("double now = clock_[0];")
            out.line(f"F* waits = strips + room * {len(steps.step.kept)} * K;")
            with out.block("for (i64 i = 0; i < rows; ++i) {", "}"):
                out.line("const F weight = (F)weights[i];")
                out.line("if (weight == F(0)) continue;  // as if the row was not there")
                out.line("const i64 p = indptr[i], n = indptr[i + 1] - p;")
                self.scores()
                out.line(f"one_row(false, i, {', '.join(self.names())});")
                out.line("BL_SYNC();")
                out.line("now += (double)weight * (double)pace[0];")
                self.moves()
                out.line("BL_SYNC();")
            out.line("BL_SYNC();")
            out.line("if (lane == 0) clock_[0] = now;")
        return out.text()

    def scores(self) -> None:
        """Print scores: gather the row's entries, wake them, multiply.

        a0[i, j] = row i times column j.
        """
        out, steps = self.out, self.steps
        if steps.wake is not None and steps.seen:
            with out.block("for (i64 t = lane; t < n; t += BL_LANES) {", "}"):
                out.line("waits[t] = (F)(now - (double)seen[indices[p + t]]);")
            out.line("BL_SYNC();")
        with out.block("for (i64 e = lane; e < n * K; e += BL_LANES) {", "}"):
            out.line("const i64 t = e / K, j = e - t * K, c = indices[p + t]; (void)j;")
            for n, place in enumerate(steps.step.kept):
                source = f"{steps.step.array(place)}{self.at('c', steps.step.tables[place])}"
                out.line(f"F u{n} = (F){source};")
            if steps.wake is not None:
                out.line("const F clock = (F)now; (void)clock;")
                if steps.seen:
                    out.line("const F elapsed = waits[t]; (void)elapsed;")
                self.entry(steps.wake, {place: f"u{n}" for n, place in steps.step.strips})
            for n, _ in steps.step.strips:
                out.line(f"strips[{n} * room * K + e] = u{n};")
        out.line("BL_SYNC();")
        product = "(F)values[p + t] * strips[t * K + j]"
        if steps.columns < MANY:
            with out.block("for (i64 j = 0; j < K; ++j) {", "}"):
                out.line("F sum = F(0);")
                out.line(f"for (i64 t = lane; t < n; t += BL_LANES) sum += {product};")
                out.line("sum = BL_SUM_ACROSS(sum);")
                out.line("if (lane == 0) a0[i * K + j] = sum;")
        else:
            with out.block("for (i64 j = lane; j < K; j += BL_LANES) {", "}"):
                out.line("F sum = F(0);")
                out.line(f"for (i64 t = 0; t < n; ++t) sum += {product};")
                out.line("a0[i * K + j] = sum;")
        out.line("BL_SYNC();")

    def moves(self) -> None:
        """Print the step of every gathered entry, and of the row of constants."""
        out, steps = self.out, self.steps
        out.line("const F clock = (F)now; (void)clock;")
        with out.block("for (i64 e = lane; e < n * K; e += BL_LANES) {", "}"):
            out.line("const i64 t = e / K, j = e - t * K, c = indices[p + t]; (void)c;")
            for n, _ in steps.step.strips:
                out.line(f"F u{n} = strips[{n} * room * K + e];")
            out.line("const F gradient = (F)values[p + t] * o0[i * K + j];")
            self.entry(steps.step, {place: f"u{n}" for n, place in steps.step.strips})
            for n, place in steps.step.strips:
                if place in steps.moved:
                    columns = steps.step.tables[place]
                    target = f"{steps.step.array(place)}{self.at('c', columns)}"
                    out.line(f"{self.last(columns)}{target} = u{n};")
        if steps.bias is not None:
            bias = steps.bias
            with out.block("for (i64 j0 = 0; j0 < K; j0 += BL_LANES) {", "}"):
                out.line("const i64 j = j0 + lane < K ? j0 + lane : K - 1;")
                for place in bias.kept:
                    source = f"{bias.array(place)}{self.at('0', bias.tables[place])}"
                    out.line(f"F u{place} = (F){source};")
                out.line("BL_SYNC();  // all have read a number that columns share")
                out.line("const F gradient = o0[i * K + j];")
                self.entry(bias, {place: f"u{place}" for place in bias.kept})
                with out.block("if (j0 + lane < K) {", "}"):
                    for place in bias.written:
                        columns = bias.tables[place]
                        target = f"{bias.array(place)}{self.at('0', columns)}"
                        out.line(f"{self.last(columns)}{target} = u{place};")
        if steps.seen:
            out.line("for (i64 t = lane; t < n; t += BL_LANES) seen[indices[p + t]] = now;")

    def at(self, row: str, columns: int) -> str:
        """Return the index of column j in a row of a table with this many columns."""
        return f"[{row}]" if columns == 1 else f"[{row} * K + j]"

    def last(self, columns: int) -> str:
        """Return a condition: only the last column stores a number shared by columns."""
        return "if (j == K - 1) " if columns == 1 and self.steps.columns > 1 else ""

    def entry(self, entry: EntryProgram, where: dict[int, str]) -> None:
        """Print the straight code of an entry's program.

        where: name of each table's entry.
        """
        out = self.out
        with out.block("{", "}"):
            for n, columns in enumerate(entry.shared):
                if columns:
                    out.line(f"const F y{n} = (F){entry.prefix}s{n}{self.at('0', columns)};")
            print_entry(self, entry, where)
