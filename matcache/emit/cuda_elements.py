"""Print the program of dense expressions as CUDA C++: a thread has elements, not a row."""

from __future__ import annotations

from collections.abc import Sequence

from ..program.instructions import Access, Ending, Kind, Value
from ..program.schedule import Group, Schedule
from .cuda_header import device_header
from .cuda_loops import CudaLoops

SPAN = 32  # columns of a block of threads that makes their sums
PACK = 4  # elements that a thread assigns at once

# How endings visit elements: e, of row i and column k. ELEMENTS stands for their computation.
# FLAT: whether chunks are of elements, not of rows.
_TOTAL = """
    const i64 units = FLAT ? rows * columns : rows, width = FLAT ? 1 : columns;
    const i64 first = units * blockIdx.x / gridDim.x * width;
    const i64 last = units * (blockIdx.x + 1) / gridDim.x * width;
    for (i64 e = first + threadIdx.x; e < last; e += blockDim.x) {
        const i64 i = bl_divide(e, columns), k = e - i * columns; (void)i; (void)k;
        ELEMENTS
    }
"""

# STARTS: what the folds of a column begin with. ENDS: how the parts of threads are folded.
_BY_COLUMN = """
    // A block has SPAN columns of a chunk. Several threads share a column, each folds its own rows;
    // then fold in order.
    __shared__ double parts[BL_BLOCK];
    const int spans = columns > SPAN ? (int)((columns + SPAN - 1) / SPAN) : 1;
    const int chunks = (int)gridDim.x / spans, chunk = (int)blockIdx.x / spans;
    const i64 begin = (i64)((int)blockIdx.x % spans) * SPAN;
    const i64 end = begin + SPAN < columns ? begin + SPAN : columns;
    const i64 first = bl_divide(rows * chunk, chunks), last = bl_divide(rows * (chunk + 1), chunks);
    const int wide = end - begin < BL_BLOCK ? (int)(end - begin) : BL_BLOCK;
    const int groups = BL_BLOCK / wide, group = threadIdx.x / wide;
    for (i64 start = begin; start < end; start += wide) {
        const i64 k = start + threadIdx.x % wide;
        STARTS
        if (group < groups && k < end)
#pragma unroll 4
            for (i64 i = first + group; i < last; i += groups) {
                const i64 e = i * columns + k; (void)e;
                ELEMENTS
            }
        ENDS
    }
"""

_FOLDS: dict[Ending, tuple[str, str]] = {
    "colsum": ("0.0", "bl_plus::of"),
    "colmax": ("-BL_INF(double)", "bl_maximum"),
}

_FOLDED = """
        parts[threadIdx.x] = sum{n};
        __syncthreads();
        if (group == 0 && k < end) {{
            for (int g = 1; g < groups; ++g) sum{n} = {fold}(sum{n}, parts[g * wide + threadIdx.x]);
            o{n}[(i64)chunk * columns + k] = sum{n};
        }}
        __syncthreads();
"""

# lanes by butterfly, then warp by warp: a fixed order for a fixed block size
_TOTALLED = """
    total{n} = BL_SUM_ACROSS(total{n});
    total{n} = bl_across_groups<bl_plus>(total{n});
    if (threadIdx.x == 0) o{n}[blockIdx.x] = total{n};
"""


def elements_source(
    plan: Schedule, types: Sequence[str] | None = None, assigned: Sequence[str] | None = None
) -> str:
    """Return a module with one kernel, which evaluates expressions.

    types: C types of the arguments; None: the program's dtype.
    assigned: C types of the results, where they are assigned; None: the program's dtype.

    `run` takes: rows, columns, arguments..., results... If all are assigned, any grid will do.
    "total" needs one block per chunk of rows (of elements, if flat), "colsum" and "colmax" one for
    each `SPAN` columns of it. They write the chunk's part in float64 to result[chunk, :]; `end_sum`
    or `end_max` joins the parts.
    """
    return _Printer(plan, types).source(assigned or ["F"] * len(plan.program.returns))


class _Printer(CudaLoops):
    """Prints the kernel of expressions."""

    def source(self, assigned: Sequence[str]) -> str:
        """Return the module."""
        out, endings, (group,) = self.out, self.program.endings, self.plan.nodes
        assert isinstance(group, Group)
        out.raw(f"// {self.program.name}, {', '.join(endings)}")  # for profiles
        out.raw(device_header())
        out.line(f"typedef {self.float} F;")
        parameters = ["i64 rows", "i64 columns"]
        for n, argument in enumerate(self.program.arguments):
            number = argument.form == "number"
            parameters.append(f"F n{n}" if number else f"const {self.type_of(n)}* a{n}")
        for n, (ending, own) in enumerate(zip(endings, assigned, strict=True)):
            parameters.append(f"{own if ending == 'assign' else 'double'}* o{n}")
        head = f'extern "C" __global__ void run({", ".join(parameters)}) {{'
        with out.block(head, "}"):
            self.single_numbers()
            (self.assign if self.assigns else self.fold_all)(group)
        return out.text()

    @property
    def assigns(self) -> bool:
        """Whether all results are assigned."""
        return set(self.program.endings) == {"assign"}

    def assign(self, group: Group) -> None:
        """Print the loops of a kernel whose results are all assigned.

        A thread reads and writes `PACK` elements at once, where addresses permit it: with one at a
        time, too few are on their way to fill the memory's bandwidth.
        """
        out, e = self.out, f"{PACK} * n"
        read = [value.arg for value in self.plan.inputs if _by_element(value)]
        ins, outs = [f"in{n}" for n in read], [f"out{n}" for n in range(len(self.endings))]
        arrays = [f"a{n}" for n in read] + [f"o{n}" for n in range(len(outs))]
        values = ", ".join([*(f"F {name}" for name in ins), *(f"F& {name}" for name in outs)])
        with out.block(f"const auto element = [&](i64 i, i64 k, {values}) {{", "};"):
            out.line("(void)i; (void)k;")
            self.body(group)
        together = " | ".join(f"(u64){array}" for array in arrays)
        out.line("const i64 size = rows * columns;")
        out.line(f"const i64 packs = ({together}) % (8 * {PACK}) == 0 ? size / {PACK} : 0;")
        with out.block("for (i64 n = BL_THREAD; n < packs; n += BL_THREADS) {", "}"):
            out.line(f"i64 i = bl_divide({e}, columns), k = {e} - i * columns;")
            for name in (*ins, *outs):
                out.line(f"F {name}[{PACK}];")
            for name, array in zip(ins, arrays, strict=False):
                out.line(f"bl_load<{PACK}>({name}, {array} + {e});")
            out.line("#pragma unroll")
            with out.block(f"for (int v = 0; v < {PACK}; ++v) {{", "}"):
                out.line(f"element(i, k, {', '.join(f'{name}[v]' for name in (*ins, *outs))});")
                out.line("if (++k == columns) { k = 0; ++i; }")
            for name, array in zip(outs, arrays[len(ins) :], strict=True):
                out.line(f"bl_store<{PACK}>({array} + {e}, {name});")
        with out.block(
            f"for (i64 e = {PACK} * packs + BL_THREAD; e < size; e += BL_THREADS) {{", "}"
        ):
            out.line("const i64 i = bl_divide(e, columns), k = e - i * columns;")
            for name in outs:
                out.line(f"F {name};")
            read_here = [f"F({array}[e])" for array in arrays[: len(ins)]]
            out.line(f"element(i, k, {', '.join([*read_here, *outs])});")
            for name, array in zip(outs, arrays[len(ins) :], strict=True):
                out.line(f"{array}[e] = {name};")

    def fold_all(self, group: Group) -> None:
        """Print the loops of a kernel with sums."""
        out, totals = self.out, [n for n, e in enumerate(self.program.endings) if e == "total"]
        for n in totals:
            out.line(f"double total{n} = 0.0;")
        before, after = self.loop().strip("\n").split("ELEMENTS\n")
        out.raw(before.rstrip(" "))
        with out.block():
            self.body(group)
        out.raw(after)
        for n in totals:
            out.raw(_TOTALLED.format(n=n).strip("\n"))

    def loop(self) -> str:
        """Return the text around the computation of an element."""
        if not self.program.by_column:
            return _TOTAL.replace("FLAT", str(self.plan.flat).lower())
        starts = ends = ""
        for n, ending in enumerate(self.program.endings):
            if ending in _FOLDS:
                start, fold = _FOLDS[ending]
                starts += f"double sum{n} = {start}; "
                ends += _FOLDED.format(n=n, fold=fold).strip("\n").strip(" ")
        text = _BY_COLUMN.replace("SPAN", str(SPAN))
        return text.replace("STARTS", starts).replace("ENDS", ends)

    def element(self, value: Value) -> str:
        """Return an element of a matrix, or of a result."""
        if value.arg < 0:
            n = self.outputs[value.id]
            return f"out{n}" if self.assigns else f"o{n}[e]"
        if self.assigns and _by_element(value):
            return f"in{value.arg}"
        if value.access is Access.RANDOM:
            stream = self.program.arguments[value.arg].stream
            return f"bl_uniform<F>(bl_random_bits(a{value.arg}, (u32)i, (u32)k, {stream}u))"
        index = "i" if value.kind is Kind.ROW else "k" if value.access is Access.SHARED else "e"
        text = f"a{value.arg}[{index}]"
        return text if self.type_of(value.arg) == self.float else f"F({text})"

    def put(self, value: Value, text: str) -> None:
        """Print what becomes of an element of a result."""
        n = self.outputs[value.id]
        match self.endings[value.id]:
            case "assign":
                super().put(value, text)
            case "total":
                self.out.line(f"total{n} += (double){text};")
            case "colsum":
                self.out.line(f"sum{n} += (double){text};")
            case "colmax":
                self.out.line(f"sum{n} = bl_maximum(sum{n}, (double){text});")


def _by_element(value: Value) -> bool:
    """Return whether an argument has a number for each element."""
    return value.kind is Kind.VEC and value.access is Access.ROWS
