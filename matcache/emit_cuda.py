"""Print a scheduled row-wise program, or a fused elementwise expression, as CUDA C++.

The same schedule as for the CPU. A warp owns a row; a vector of k numbers is spread over its lanes,
ceil(k / 32) registers each, k a literal. Per-row numbers are the same on every lane. Sums across
lanes run in a fixed order. Loops over lanes are stride loops, so the text also runs on the host
with one lane (tests/cuda_host.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from .elementwise import ELEMENTWISE
from .printer import RowwisePrinter
from .program import (
    Access,
    Apply,
    Count,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Reduce,
    Store,
    Value,
    reads,
)
from .schedule import Group, Leave, Loop, Node, Schedule
from .writer import Writer

if TYPE_CHECKING:
    from .fused import Fused

UNROLL = 4  # non-zeros in flight per warp

_START = {"sum": "F(0)", "max": "-BL_INF(F)", "min": "BL_INF(F)"}
_FOLD = {"sum": "{0} + {1}", "max": "bl_maximum({0}, {1})", "min": "bl_minimum({0}, {1})"}
_ACROSS = {"sum": "BL_SUM_ACROSS", "max": "BL_MAX_ACROSS", "min": "BL_MIN_ACROSS"}


def device_header() -> str:
    """The text that every module starts with."""
    return (Path(__file__).parent / "device.cuh").read_text()


def library_source() -> str:
    """The kernels written by hand, as one module."""
    return device_header() + (Path(__file__).parent / "kernels.cu").read_text()


def rowwise_source(plan: Schedule, types: Sequence[str] | None = None) -> str:
    """Module with one kernel.

    `run(rows, [indptr, indices, [active, positions,]] arguments..., outputs..., hidden...)`; over
    columns, rows is the address of their number. types: of the arguments in C, where they are not
    all of the program's dtype.
    """
    return _Printer(plan, types).source()


class _Printer(RowwisePrinter):
    """Prints CUDA C++. One more local: r, the register of a spread vector."""

    def __init__(self, plan: Schedule, types: Sequence[str] | None = None) -> None:
        super().__init__(plan)
        self.types = types
        self.float = "float" if self.program.dtype == "float32" else "double"
        self.vectors = self.spread_vectors()

    def spread_vectors(self) -> list[Value]:
        """Vectors held in registers for the whole row: rows of arguments, scratch, results."""
        found: dict[int, Value] = {}

        def note(value: Value | None) -> None:
            if value is not None and value.kind is Kind.VEC and value.id in self.plan.stored:
                if value.access not in (Access.SHARED, Access.ENTRY):
                    found.setdefault(value.id, value)

        def visit(nodes: list[Node]) -> None:
            for node in nodes:
                if isinstance(node, Loop):
                    visit(node.body)
                elif isinstance(node, Group):
                    for instruction in node.instructions:
                        for value in reads(instruction):
                            note(value)
                        note(
                            getattr(instruction, "out", None)
                            or getattr(instruction, "target", None)
                        )

        visit(self.plan.nodes)
        return list(found.values())

    # -------------------------------------------------------------- module

    def parameters(self) -> list[str]:
        f = self.float
        names = ["const i64* count" if self.program.transposed else "i64 rows"]
        if self.sparse:
            names += ["const i64* indptr", "const int* indices"]
        if self.program.transposed:
            position = "int" if self.program.transposed == 4 else "i64"
            names += ["const int* active", f"const {position}* positions"]
        for n, argument in enumerate(self.program.arguments):
            own = self.type_of(n)
            names.append(
                {"sparse": f"{own}* v{n}", "mat": f"{own}* a{n}"}.get(argument.form, f"{f} n{n}")
            )
        names += [f"{f}* o{n}" for n in self.outputs.values()]
        return names + [f"{f}* h{n}" for n in self.hidden.values()]

    def source(self) -> str:
        out = self.out
        out.raw(device_header())
        out.line(f"typedef {self.float} F;")
        out.line(f'extern "C" __global__ void run({", ".join(self.parameters())}) {{')
        with out.block():
            out.line("const int lane = BL_LANE;")
            if self.program.transposed:
                out.line("const i64 rows = *count;")
            for n, argument in enumerate(self.program.arguments):
                if argument.form == "number":
                    out.line(f"const F x{n} = n{n};")
                elif argument.form == "mat" and argument.rows_one and argument.columns == 1:
                    out.line(f"const F x{n} = (F)a{n}[0];")
            with out.block("for (i64 row = BL_WARP; row < rows; row += BL_WARPS) {", "}"):
                out.line(f"const i64 i = {'active[row]' if self.program.transposed else 'row'};")
                self.row()
        out.line("}")
        return out.text()

    def row(self) -> None:
        out = self.out
        if self.sparse:
            out.line("const i64 p = indptr[row], q = indptr[row + 1];")
        for name in sorted(self.row_names()):
            out.line(f"F {name} = F(0);")
        for value in self.vectors:
            out.line(f"F {self.register(value)}[BL_PER({value.length})];")
            if value.access is Access.ROWS:
                with self.over(value.length):
                    place = f"a{value.arg}[i * {value.length} + k]"
                    out.line(f"{self.register(value)}[r] = {self.as_float(value.arg, place)};")
        self.nodes(self.plan.nodes)
        for value in self.vectors:
            place = self.home(value)
            if place:
                with self.over(value.length):
                    out.line(f"{place}[i * {value.length} + k] = {self.register(value)}[r];")
        for value in self.program.returns:
            if value.kind is Kind.ROW and value.arg < 0:
                out.line(f"if (lane == 0) o{self.outputs[value.id]}[i] = {self.scalar(value)};")

    def home(self, value: Value) -> str:
        """The array that a register vector is written back to, if any."""
        if value.access is Access.ROWS:
            return f"a{value.arg}" if value.mutable else ""
        return f"o{self.outputs[value.id]}" if value.id in self.outputs else ""

    def type_of(self, argument: int) -> str:
        """C type of the numbers of an argument."""
        return self.float if self.types is None else self.types[argument]

    def as_float(self, argument: int, text: str) -> str:
        """A number of an argument, read as the program's dtype."""
        return text if self.type_of(argument) == self.float else f"F({text})"

    def row_names(self) -> set[str]:
        """Names of the per-row numbers."""
        names: set[str] = set()

        def visit(nodes: list[Node]) -> None:
            for node in nodes:
                if isinstance(node, Loop):
                    visit(node.body)
                elif isinstance(node, Group):
                    for instruction in node.instructions:
                        made = getattr(instruction, "out", None)
                        if made is not None and made.kind is Kind.ROW:
                            names.add(f"s{made.id}")

        visit(self.plan.nodes)
        return names

    def over(self, length: int) -> AbstractContextManager[None]:
        """A loop over this lane's part of a vector: `r` its registers, `k` the place."""
        self.out.line("#pragma unroll")
        head = f"for (int r = 0, k = lane; r < BL_PER({length}); ++r, k += BL_LANES)"
        return self.out.block(f"{head} if (k < {length}) {{", "}")

    def nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                count = (
                    str(node.count) if isinstance(node.count, int) else f"(i64)x{node.count.arg}"
                )
                with self.out.block(f"for (i64 round = 0; round < {count}; ++round) {{", "}"):
                    self.nodes(node.body)
            elif isinstance(node, Leave):
                self.out.line(f"if ({self.scalar(node.condition)} != F(0)) break;")
            else:
                self.group(node)

    # -------------------------------------------------------------- names

    def scalar(self, value: Value | float) -> str:
        if not isinstance(value, Value):
            return number(value)
        if value.access is Access.NUMBER:
            return f"x{value.arg}"
        if value.access is Access.ROWS:
            return self.as_float(value.arg, f"a{value.arg}[i]")
        return f"s{value.id}"

    def register(self, value: Value) -> str:
        return f"w{value.id}"

    def element(self, value: Value) -> str:
        """This lane's element k of a vector."""
        if value.access in (Access.SHARED, Access.ENTRY):
            return self.as_float(value.arg, f"a{value.arg}[k]")
        return f"{self.register(value)}[r]"

    def nonzero(self, value: Value, lane: int) -> str:
        j = f"j + {lane}" if lane else "j"
        if self.program.transposed:
            j = f"positions[{j}]"
        if value.access is Access.VALUES:
            return f"v{value.arg}[{j}]"
        if value.access in (Access.COLUMN, Access.ENTRY):
            return self.as_float(value.arg, f"a{value.arg}[c{lane}]")
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}[{j}]"
        return f"h{self.hidden[value.id]}[{j}]"

    def apply(self, instruction: Apply, texts: list[str]) -> str:
        return ELEMENTWISE[instruction.op].c.format(*texts)

    # -------------------------------------------------------------- groups

    def row_scalar(self, instruction: Instruction) -> None:
        match instruction:
            case Apply():
                text = self.apply(instruction, [self.scalar(a) for a in instruction.args])
                self.out.line(f"{self.scalar(instruction.out)} = {text};")
            case Store():
                target = self.scalar(instruction.target)
                if instruction.target.access is Access.ROWS:
                    target = f"a{instruction.target.arg}[i]"
                if instruction.target.access is Access.ROWS:
                    self.out.line(f"if (lane == 0) {target} = {self.scalar(instruction.value)};")
                    self.out.line("__syncwarp();")
                else:
                    self.out.line(f"{target} = {self.scalar(instruction.value)};")
            case Count():
                self.out.line(f"{self.scalar(instruction.out)} = F(q - p);")

    def product(self, product: Product) -> None:
        out, length = self.out, product.vec.length
        with self.over(product.out.length):
            out.line(f"{self.element(product.out)} = F(0);")
        out.line("#pragma unroll")
        with out.block(f"for (int block = 0; block < BL_PER({length}); ++block) {{", "}"):
            with out.block("for (int s = 0; s < BL_LANES; ++s) {", "}"):
                out.line("const int l = block * BL_LANES + s;")
                out.line(f"if (l >= {length}) break;")
                if product.vec.access is Access.SHARED:
                    out.line(f"const F t = a{product.vec.arg}[l];")
                else:
                    out.line(f"const F t = BL_FROM_LANE({self.register(product.vec)}[block], s);")
                with self.over(product.out.length):
                    table = f"a{product.matrix}[(i64)l * {product.out.length} + k]"
                    out.line(f"{self.element(product.out)} += t * {table};")

    def starts(self, group: Group) -> None:
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                self.out.line(f"s{instruction.out.id} = {_START[instruction.op]};")
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                self.out.line(f"s{instruction.out.id} = F(0);")
            elif isinstance(instruction, Gather):
                with self.over(instruction.out.length):
                    self.out.line(f"{self.element(instruction.out)} = F(0);")

    def finish(self, group: Group) -> None:
        """Combine the lanes' parts of sums, and let every lane see what was stored."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                name = f"s{instruction.out.id}"
                self.out.line(f"{name} = {_ACROSS[instruction.op]}({name});")
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                name = f"s{instruction.out.id}"
                self.out.line(f"{name} = {_ACROSS['sum']}({name});")

    def vector(self, group: Group) -> None:
        out = self.out
        self.starts(group)
        with self.over(group.length):
            local: set[int] = set()

            def read(value: Value | float) -> str:
                if not isinstance(value, Value) or value.kind is not Kind.VEC:
                    return self.scalar(value)
                return f"e{value.id}" if value.id in local else self.element(value)

            def keep(value: Value, text: str) -> None:
                out.line(f"{'' if value.id in local else 'F '}e{value.id} = {text};")
                local.add(value.id)
                if value.id in self.plan.stored:
                    out.line(f"{self.element(value)} = e{value.id};")

            for instruction in group.instructions:
                match instruction:
                    case Apply():
                        keep(
                            instruction.out,
                            self.apply(instruction, [read(a) for a in instruction.args]),
                        )
                    case Store():
                        keep(instruction.target, read(instruction.value))
                    case Reduce():
                        name = f"s{instruction.out.id}"
                        text = _FOLD[instruction.op].format(name, read(instruction.source))
                        out.line(f"{name} = {text};")
        self.finish(group)

    def nonzeros(self, group: Group) -> None:
        out = self.out
        self.starts(group)
        wide = any(
            isinstance(i, Dot) or (isinstance(i, Gather) and i.out.kind is Kind.VEC)
            for i in group.instructions
        )
        if wide:  # all lanes work on the vectors of the same non-zeros
            full = f"(p + (q - p) / {UNROLL} * {UNROLL})"
            with out.block(f"for (i64 j = p; j < {full}; j += {UNROLL}) {{", "}"):
                self.lanes(group, UNROLL, wide=True)
            with out.block(f"for (i64 j = {full}; j < q; ++j) {{", "}"):
                self.lanes(group, 1, wide=True)
        else:  # each lane has non-zeros of its own
            with out.block("for (i64 j = p + lane; j < q; j += BL_LANES) {", "}"):
                self.lanes(group, 1, wide=False)
            self.finish(group)
        out.line("__syncwarp();")

    def lanes(self, group: Group, lanes: int, *, wide: bool) -> None:
        """The body of the loop over non-zeros, for `lanes` of them at once."""
        out = self.out
        every = range(lanes)
        if self.needs_column(group):
            for lane in every:
                out.line(f"const i64 c{lane} = indices[{f'j + {lane}' if lane else 'j'}];")
        local: set[int] = set()

        def read(value: Value | float, lane: int) -> str:
            if not isinstance(value, Value) or value.kind is not Kind.NNZ:
                return self.scalar(value)
            if value.id not in local:
                for each in every:
                    out.line(f"F z{value.id}_{each} = {self.nonzero(value, each)};")
                local.add(value.id)
            return f"z{value.id}_{lane}"

        def keep(value: Value, texts: list[str]) -> None:
            kind = "" if value.id in local else "F "
            for lane, text in enumerate(texts):
                out.line(f"{kind}z{value.id}_{lane} = {text};")
            local.add(value.id)
            if value.id in self.plan.stored:
                guard = "if (lane == 0) " if wide else ""
                for lane in every:
                    out.line(f"{guard}{self.nonzero(value, lane)} = z{value.id}_{lane};")

        for n, instruction in enumerate(group.instructions):
            match instruction:
                case Apply():
                    columns = [[read(a, lane) for a in instruction.args] for lane in every]
                    keep(instruction.out, [self.apply(instruction, c) for c in columns])
                case Store():
                    keep(instruction.target, [read(instruction.value, lane) for lane in every])
                case Dot():
                    names = [f"d{n}_{lane}" for lane in every]
                    out.line(f"F {', '.join(f'{name} = F(0)' for name in names)};")
                    length = instruction.vec.length
                    with self.over(length):
                        out.line(f"const F t = {self.element(instruction.vec)};")
                        for lane, name in enumerate(names):
                            table = f"a{instruction.table}[c{lane} * {length} + k]"
                            out.line(f"{name} += t * {table};")
                    keep(instruction.out, [f"BL_SUM_ACROSS({name})" for name in names])
                case Gather() if instruction.out.kind is Kind.ROW:
                    name = f"s{instruction.out.id}"
                    for lane in every:
                        table = f"a{instruction.table}[c{lane}]"
                        out.line(f"{name} += {read(instruction.weight, lane)} * {table};")
                case Gather():
                    length = instruction.out.length
                    weights = [read(instruction.weight, lane) for lane in every]
                    with self.over(length):
                        for lane in every:
                            table = f"a{instruction.table}[c{lane} * {length} + k]"
                            out.line(
                                f"{self.element(instruction.out)} += {weights[lane]} * {table};"
                            )
                case Reduce():
                    name = f"s{instruction.out.id}"
                    for lane in every:
                        text = _FOLD[instruction.op].format(name, read(instruction.source, lane))
                        out.line(f"{name} = {text};")


def number(value: float) -> str:
    """A constant as source text."""
    if math.isfinite(value):
        return f"F({float(value)!r})"
    return "BL_NAN(F)" if math.isnan(value) else f"({'-' if value < 0 else ''}BL_INF(F))"


C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "i64"}
"""Types of numbers in C, by dtype."""


def fused_source(
    fused: Fused, types: Sequence[str] | None = None, result_type: str | None = None
) -> str:
    """Module with one kernel, `run(rows, columns, leaves..., numbers..., out)`.

    types, result_type: of the leaves and of an assigned result in C, where they are not all of the
    expression's dtype.

    "assign" runs over the elements with any grid. "total" and "colsum" need one block per chunk of
    rows (of elements, if flat) and write the chunk's sums in float64 to out[chunk, :];
    `add_partials` adds them up.
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
                out.line("const i64 i = e / columns, k = e - i * columns; (void)i; (void)k;")
                out.line(f"out[e] = {element()};")
        elif fused.ending == "total":
            units = "rows * columns" if fused.flat else "rows"
            width = "1" if fused.flat else "columns"
            out.line("double sum = 0.0;")
            out.line(f"const i64 first = {units} * blockIdx.x / gridDim.x * {width};")
            out.line(f"const i64 last = {units} * (blockIdx.x + 1) / gridDim.x * {width};")
            with out.block("for (i64 e = first + threadIdx.x; e < last; e += blockDim.x) {", "}"):
                out.line("const i64 i = e / columns, k = e - i * columns; (void)i; (void)k;")
                out.line(f"sum += (double){element()};")
            out.line(
                "// lanes by butterfly, then warp by warp: a fixed order for a fixed block size"
            )
            out.line("sum = BL_SUM_ACROSS(sum);")
            out.line("__shared__ double parts[32];")
            out.line("if (BL_LANE == 0) parts[threadIdx.x / BL_LANES] = sum;")
            out.line("__syncthreads();")
            with out.block("if (threadIdx.x == 0) {", "}"):
                out.line("double all = 0.0;")
                out.line("for (int w = 0; w < (int)(blockDim.x / BL_LANES); ++w) all += parts[w];")
                out.line("out[blockIdx.x] = all;")
        else:
            out.line("const i64 first = rows * blockIdx.x / gridDim.x;")
            out.line("const i64 last = rows * (blockIdx.x + 1) / gridDim.x;")
            with out.block("for (i64 k = threadIdx.x; k < columns; k += blockDim.x) {", "}"):
                out.line("double sum = 0.0;")
                with out.block("for (i64 i = first; i < last; ++i) {", "}"):
                    out.line("const i64 e = i * columns + k; (void)e;")
                    out.line(f"sum += (double){element()};")
                out.line("out[(i64)blockIdx.x * columns + k] = sum;")
    return out.text()
