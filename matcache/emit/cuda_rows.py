"""Print a scheduled row-wise program as CUDA C++.

The schedule is that of the CPU. A group of lanes owns a row: 8 to 32, enough for a vector of k
numbers, or a whole block of 256 for vectors longer than 1,024. Each lane holds every (lanes)th pack
of 16 bytes of a vector, in registers; k is a literal. Per-row numbers are the same on every lane.
Sums across lanes run in a fixed order. Loops over lanes are stride loops, so the text also runs on
the host with one lane (tests/support/cuda_host.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..program.instructions import Access, Kind, Store, Value, walk, writes
from ..program.schedule import Schedule, all_values
from .cuda_header import TEAMS, device_header
from .cuda_layout import layout
from .cuda_loops import CudaLoops
from .rows import indices

SHARING = (8, 3), (96, 2)
"""Blocks of threads that share a processor, by the most registers that vectors take: NVRTC then
spills nothing, or a few numbers; see `tests/cuda/test_cuda_text.py`.
"""


def rowwise_source(
    plan: Schedule,
    types: Sequence[str] | None = None,
    *,
    ordered: bool = False,
    teams: bool = False,
) -> str:
    """Return the module of a program.

    types: C types of the arguments; None: the program's dtype. A table may be "bfloat16".
    ordered: whether rows come in an order; for a program with a sparse argument.
    teams: the module for the longest rows in that order, of which each has a team of blocks.

    Its `run` takes: rows, [order, split, apart,] [indptr, indices, [active, positions,]]
    arguments..., outputs..., hidden... Arrays start at multiples of 16 bytes. Over columns, rows is
    the address of their number. order, int [rows], lists the rows from the longest to the shortest.
    The first split[0] of them are long: a block of threads shares a row. At most `apart` blocks
    have long rows, and begin them beside the short rows of the others; there are more blocks than
    that. The first split[1] are left to the module for teams; its blocks are a multiple of `TEAM`.
    """
    return CudaPrinter(plan, types, ordered=ordered, teams=teams).source()


class CudaPrinter(CudaLoops):
    """Prints the module around the work of lanes on a row."""

    restrict = " __restrict__"  # for pointers without aliases

    def __init__(
        self,
        plan: Schedule,
        types: Sequence[str] | None = None,
        *,
        ordered: bool = False,
        teams: bool = False,
    ) -> None:
        """Prepare to print the plan; for the other arguments see `rowwise_source`."""
        super().__init__(plan, types)
        self.layout = layout(plan, types)
        self.teams = teams
        self.ordered = ordered and bool(self.patterns)
        self.lanes_of_row = self.layout.lanes
        every = all_values(self.program.body)
        self.written = {v.arg for v in every if v.arg >= 0 and v.mutable}
        self.row_arguments = sorted(
            {v.arg for v in every if v.kind is Kind.ROW and v.access is Access.ROWS}
        )

    # -------------------------------------------------------------- module

    def parameters(self) -> list[str]:
        """Return parameters of a row's function; kernels take them after the row count."""
        f, restrict = self.float, self.restrict
        names = []
        if self.patterns:
            names.append(f"const i64*{restrict} indptr")
            names += [f"const int*{restrict} {indices(n)}" for n in range(self.patterns)]
        if self.program.transposed:
            position = "int" if self.program.transposed == 4 else "i64"
            names += [
                f"const int*{restrict} active",
                f"const {position}*{restrict} positions",
            ]
        for n, argument in enumerate(self.program.arguments):
            own = self.type_of(n)
            if argument.form in ("sparse", "mat"):
                const = "" if n in self.written or not restrict else "const "
                letter = "v" if argument.form == "sparse" else "a"
                names.append(f"{const}{own}*{restrict} {letter}{n}")
            else:
                names.append(f"{f} n{n}")
        names += [f"{f}*{restrict} o{n}" for n in self.outputs.values()]
        return names + [f"{f}*{restrict} h{n}" for n in self.hidden.values()]

    def source(self) -> str:
        """Return the module."""
        out = self.out
        self.head()
        parameters = self.parameters()
        names = ", ".join(self.names())
        first = ["const i64* count" if self.program.transposed else "i64 rows"]
        first += ["const int* order", "const i64* split", "i64 apart"] if self.ordered else []
        head = f"({', '.join(first + parameters)}) {{"
        bounds = f"__launch_bounds__(BL_BLOCK, {self.blocks()})"
        teamed = "BL_TEAMED " if self.teams else ""
        with out.block(f'extern "C" __global__ void {teamed}{bounds} run{head}', "}"):
            if self.program.transposed:
                out.line("const i64 rows = *count;")
            if self.teams:
                out.line("const i64 teams = gridDim.x / BL_TEAM;")
                out.line("for (i64 n = blockIdx.x / BL_TEAM; n < split[1]; n += teams)")
                out.line(f"  one_row(true, order[n], {names});")
            elif self.ordered:
                out.line("const bl_turns turns(split[0], apart, rows, split[1]);")
                out.line("for (i64 n = turns.first; n < turns.end; n += turns.step)")
                out.line(f"  one_row(turns.together, order[n], {names});")
            else:
                out.line("for (i64 n = BL_WARP; n < rows; n += BL_WARPS)")
                out.line(f"  one_row(false, n, {names});")
        return out.text()

    def blocks(self) -> int:
        """Return the blocks of threads that should share a processor, as registers allow."""
        if not self.ordered:
            return 1
        held, words = 0, 2 if self.float == "double" else 1  # registers of a lane, of a number
        for vector in self.layout.vectors:
            pack = self.pack(vector.length)
            held += -(-vector.length // (self.lanes_of_row * pack)) * pack * words
        return next((blocks for most, blocks in SHARING if held <= most), 1)

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [parameter.split()[-1] for parameter in self.parameters()]

    def head(self) -> None:
        """Print the text before the kernels, up to `one_row(LONG, row, parameters...)`."""
        out = self.out
        out.raw(f"// {self.program.name}")  # for profiles
        out.raw(f"#ifndef BL_LANES\n#define BL_LANES {self.lanes_of_row}\n#endif")
        if self.teams:
            out.raw(TEAMS)
        out.raw(device_header())
        out.line(f"typedef {self.float} F;")
        out.line("// One row. Of a long one every group of lanes, of the block or of the team, has")
        out.line("// a part of the non-zeros, and all of the vectors; parts are added one by one.")
        parameters = ", ".join(["const bool LONG", "i64 row", *self.parameters()])
        with out.block(f"__device__ __forceinline__ void one_row({parameters}) {{", "}"):
            out.line("const int lane = BL_LANE, group = LONG ? BL_SHARER : 0;")
            out.line(f"const i64 i = {'active[row]' if self.program.transposed else 'row'};")
            self.single_numbers()
            self.row()

    def row(self) -> None:
        """Print the body of `one_row`."""
        out = self.out
        if self.patterns:
            out.line("const i64 begin = indptr[row], length = indptr[row + 1] - begin;")
            out.line("const i64 p = LONG ? begin + length * group / BL_SHARERS : begin;")
            out.line("const i64 q = begin + (LONG ? length * (group + 1) / BL_SHARERS : length);")
        for n in self.row_arguments:
            out.line(f"F m{n} = (F)a{n}[{self.row_of(n)}];")
        made = (None if isinstance(i, Store) else writes(i) for i in walk(self.program.body))
        for name in sorted({f"s{v.id}" for v in made if v is not None and v.kind is Kind.ROW}):
            out.line(f"F {name} = F(0);")
        for value in self.layout.vectors:
            pack, register = self.pack(value.length), self.register(value)
            out.line(f"F {register}[BL_PER({value.length}, {pack})];")
            if value.access is Access.ROWS:
                with self.packs(value.length):
                    place = f"{self.row_of(value.arg)} * {value.length} + k"
                    out.line(f"bl_load<{pack}>({register} + s, a{value.arg} + {place});")
        self.nodes(self.plan.nodes)
        if self.written:  # waits until all lanes, and groups of a long row, have read
            out.line("if (LONG) bl_meet(); else BL_SYNC();")
        for value in self.layout.vectors:
            place = self.home(value)
            if place:
                pack = self.pack(value.length)
                with out.block("if (group == 0) {", "}"), self.packs(value.length):
                    target = f"{place} + {self.row_of(value.arg)} * {value.length} + k"
                    out.line(f"bl_store<{pack}>({target}, {self.register(value)} + s);")
        with out.block("if (lane == 0 && group == 0) {", "}"):
            for n in self.row_arguments:
                if n in self.written:
                    out.line(f"a{n}[{self.row_of(n)}] = m{n};")
            for value in self.program.returns:
                if value.kind is Kind.ROW and value.arg < 0:
                    out.line(f"o{self.outputs[value.id]}[i] = {self.scalar(value)};")

    def home(self, value: Value) -> str:
        """Return the array that a register vector is written back to, or "" if none."""
        if value.access is Access.ROWS:
            return f"a{value.arg}" if value.mutable else ""
        return f"o{self.outputs[value.id]}" if value.id in self.outputs else ""
