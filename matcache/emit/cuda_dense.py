"""Print a fused elementwise expression as a CUDA kernel, with an optional sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..notation.elementwise import ELEMENTWISE
from .cuda_header import device_header
from .source import Writer

if TYPE_CHECKING:
    from ..program.dense import Fused


def fused_source(
    fused: Fused, types: Sequence[str] | None = None, result_type: str | None = None
) -> str:
    """Return a module with one kernel, which evaluates a fused dense expression.

    types: C types of the leaves; None: the expression's dtype.
    result_type: C type of an assigned result; None: the expression's dtype.

    `run` takes: rows, columns, leaves..., numbers..., out. "assign" runs over the elements with any
    grid. "total" and "colsum" need one block per chunk of rows (of elements, if flat) and write the
    chunk's sums in float64 to out[chunk, :]; `add_partials` adds them.
    """
    out = Writer()
    f = "float" if fused.dtype == "float32" else "double"
    out.raw(device_header())
    out.line(f"typedef {f} F;")
    own = [
        "i64" if leaf.kind == "random" else types[n] if types is not None else f
        for n, leaf in enumerate(fused.leaves)
    ]
    leaves = [f"const {own[n]}* a{n}" for n in range(len(own))]
    numbers = [f"{f} n{n}" for n in range(fused.numbers)]
    result = f"{result_type or 'F'}* out" if fused.ending == "assign" else "double* out"
    parameters = ", ".join(["i64 rows", "i64 columns", *leaves, *numbers, result])

    def element() -> str:
        """Print the steps for element e (row i, column k); returns the name of its value."""
        prefix = {"leaf": "x", "number": "n", "step": "t"}
        for n, leaf in enumerate(fused.leaves):
            index = {"full": "e", "row": "k", "column": "i", "one": "0", "random": ""}[leaf.kind]
            text = f"a{n}[{index}]" if own[n] == f else f"F(a{n}[{index}])"
            if leaf.kind == "random":
                text = f"bl_uniform<F>(bl_random_bits(a{n}, (u32)i, (u32)k, {leaf.stream}u))"
            out.line(f"const F x{n} = {text};")
        for n, (op, references) in enumerate(fused.steps):
            texts = [prefix[kind] + str(place) for kind, place in references]
            out.line(f"const F t{n} = {ELEMENTWISE[op].c.format(*texts)};")
        kind, place = fused.result
        return prefix[kind] + str(place)

    with out.block(f'extern "C" __global__ void run({parameters}) {{', "}"):
        if fused.ending == "assign":
            with out.block("for (i64 e = BL_THREAD; e < rows * columns; e += BL_THREADS) {", "}"):
                out.line(
                    "const i64 i = bl_divide(e, columns), k = e - i * columns; (void)i; (void)k;"
                )
                out.line(f"out[e] = {element()};")
        elif fused.ending == "total":
            units = "rows * columns" if fused.flat else "rows"
            width = "1" if fused.flat else "columns"
            out.line("double sum = 0.0;")
            out.line(f"const i64 first = {units} * blockIdx.x / gridDim.x * {width};")
            out.line(f"const i64 last = {units} * (blockIdx.x + 1) / gridDim.x * {width};")
            with out.block("for (i64 e = first + threadIdx.x; e < last; e += blockDim.x) {", "}"):
                out.line(
                    "const i64 i = bl_divide(e, columns), k = e - i * columns; (void)i; (void)k;"
                )
                out.line(f"sum += (double){element()};")
            out.line(
                "// lanes by butterfly, then warp by warp: a fixed order for a fixed block size"
            )
            out.line("sum = BL_SUM_ACROSS(sum);")
            out.line("sum = bl_across_groups<bl_plus>(sum);")
            out.line("if (threadIdx.x == 0) out[blockIdx.x] = sum;")
        else:
            # few columns: several threads share one, each sums its own rows; then add in order
            out.line("__shared__ double parts[BL_BLOCK];")
            out.line("const i64 first = rows * blockIdx.x / gridDim.x;")
            out.line("const i64 last = rows * (blockIdx.x + 1) / gridDim.x;")
            out.line("const int wide = columns < BL_BLOCK ? (int)columns : BL_BLOCK;")
            out.line("const int groups = BL_BLOCK / wide, group = threadIdx.x / wide;")
            with out.block("for (i64 start = 0; start < columns; start += wide) {", "}"):
                out.line("const i64 k = start + threadIdx.x % wide;")
                out.line("double sum = 0.0;")
                out.line("if (group < groups && k < columns)")
                with out.block("for (i64 i = first + group; i < last; i += groups) {", "}"):
                    out.line("const i64 e = i * columns + k; (void)e;")
                    out.line(f"sum += (double){element()};")
                out.line("parts[threadIdx.x] = sum;")
                out.line("__syncthreads();")
                with out.block("if (group == 0 && k < columns) {", "}"):
                    out.line(
                        "for (int g = 1; g < groups; ++g) sum += parts[g * wide + threadIdx.x];"
                    )
                    out.line("out[(i64)blockIdx.x * columns + k] = sum;")
                out.line("__syncthreads();")
    return out.text()
