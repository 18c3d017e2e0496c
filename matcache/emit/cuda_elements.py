"""Print the program of a dense expression as CUDA C++: a thread has elements, not a row."""

from __future__ import annotations

from collections.abc import Sequence

from ..program.instructions import Access, Ending, Kind, Value
from ..program.schedule import Group, Schedule
from .cuda_header import device_header
from .cuda_loops import CudaLoops

# START and FOLD: what the fold of a column begins with, and how it takes another number.
_BY_COLUMN = """
    // few columns: several threads share one, each sums its own rows; then fold in order
    __shared__ double parts[BL_BLOCK];
    const i64 first = rows * blockIdx.x / gridDim.x;
    const i64 last = rows * (blockIdx.x + 1) / gridDim.x;
    const int wide = columns < BL_BLOCK ? (int)columns : BL_BLOCK;
    const int groups = BL_BLOCK / wide, group = threadIdx.x / wide;
    for (i64 start = 0; start < columns; start += wide) {
        const i64 k = start + threadIdx.x % wide;
        double sum = START;
        if (group < groups && k < columns)
            for (i64 i = first + group; i < last; i += groups) {
                const i64 e = i * columns + k; (void)e;
                ELEMENT
            }
        parts[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && k < columns) {
            for (int g = 1; g < groups; ++g) sum = FOLD(sum, parts[g * wide + threadIdx.x]);
            o0[(i64)blockIdx.x * columns + k] = sum;
        }
        __syncthreads();
    }
"""

# How each ending visits elements: e, of row i and column k. ELEMENT stands for their computation.
# FLAT is whether chunks are of elements, not of rows.
_KERNELS: dict[Ending, str] = {
    "assign": """
    for (i64 e = BL_THREAD; e < rows * columns; e += BL_THREADS) {
        const i64 i = bl_divide(e, columns), k = e - i * columns; (void)i; (void)k;
        ELEMENT
    }
""",
    "total": """
    const i64 units = FLAT ? rows * columns : rows, width = FLAT ? 1 : columns;
    const i64 first = units * blockIdx.x / gridDim.x * width;
    const i64 last = units * (blockIdx.x + 1) / gridDim.x * width;
    double sum = 0.0;
    for (i64 e = first + threadIdx.x; e < last; e += blockDim.x) {
        const i64 i = bl_divide(e, columns), k = e - i * columns; (void)i; (void)k;
        ELEMENT
    }
    // lanes by butterfly, then warp by warp: a fixed order for a fixed block size
    sum = BL_SUM_ACROSS(sum);
    sum = bl_across_groups<bl_plus>(sum);
    if (threadIdx.x == 0) o0[blockIdx.x] = sum;
""",
    "colsum": _BY_COLUMN.replace("START", "0.0").replace("FOLD", "bl_plus::of"),
    "colmax": _BY_COLUMN.replace("START", "-BL_INF(double)").replace("FOLD", "bl_maximum"),
}


def elements_source(
    plan: Schedule, types: Sequence[str] | None = None, result_type: str = "F"
) -> str:
    """Return a module with one kernel, which evaluates an expression.

    types: C types of the arguments; None: the program's dtype.
    result_type: C type of an assigned result.

    `run` takes: rows, columns, arguments..., result. "assign" runs over the elements with any grid.
    "total", "colsum" and "colmax" need one block per chunk of rows (of elements, if flat) and write
    the chunk's part in float64 to result[chunk, :]; `end_sum` or `end_max` joins the parts.
    """
    return _Printer(plan, types).source(result_type)


class _Printer(CudaLoops):
    """Prints the kernel of an expression."""

    def source(self, result_type: str) -> str:
        """Return the module."""
        out, ending, (group,) = self.out, self.program.ending, self.plan.nodes
        assert isinstance(group, Group)
        out.raw(f"// {self.program.name}, {ending}")  # for profiles
        out.raw(device_header())
        out.line(f"typedef {self.float} F;")
        parameters = ["i64 rows", "i64 columns"]
        for n, argument in enumerate(self.program.arguments):
            number = argument.form == "number"
            parameters.append(f"F n{n}" if number else f"const {self.type_of(n)}* a{n}")
        parameters.append(f"{result_type if ending == 'assign' else 'double'}* o0")
        head = f'extern "C" __global__ void run({", ".join(parameters)}) {{'
        with out.block(head, "}"):
            self.single_numbers()
            kernel = _KERNELS[ending].replace("FLAT", str(self.plan.flat).lower())
            before, after = kernel.strip("\n").split("ELEMENT\n")
            out.raw(before.rstrip(" "))
            with out.block():
                self.body(group)
            out.raw(after)
        return out.text()

    def element(self, value: Value) -> str:
        """Return an element of a matrix, or of the result."""
        if value.arg < 0:
            return "o0[e]"
        if value.access is Access.RANDOM:
            stream = self.program.arguments[value.arg].stream
            return f"bl_uniform<F>(bl_random_bits(a{value.arg}, (u32)i, (u32)k, {stream}u))"
        index = "i" if value.kind is Kind.ROW else "k" if value.access is Access.SHARED else "e"
        text = f"a{value.arg}[{index}]"
        return text if self.type_of(value.arg) == self.float else f"F({text})"

    def put(self, value: Value, text: str) -> None:
        """Print what becomes of an element of the result."""
        match self.program.ending:
            case "assign":
                super().put(value, text)
            case "colmax":
                self.out.line(f"sum = bl_maximum(sum, (double){text});")
            case _:
                self.out.line(f"sum += (double){text};")
