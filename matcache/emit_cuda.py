"""Print a scheduled row-wise program as CUDA C++.

The same schedule as for the CPU. A group of lanes owns a row: 8 to 32, so that a vector of k
numbers fills them, or, for vectors of more than 1,024, a whole block of 256. Each lane holds every
(lanes)th pack of 16 bytes of a vector, in registers; k is a literal. Per-row numbers are the same
on every lane. Sums across lanes run in a fixed order. Loops over lanes are stride loops, so the
text also runs on the host with one lane (tests/cuda_host.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .cuda_header import device_header, lanes_for, number, pack_for
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
from .schedule import Group, Leave, Loop, Node, Schedule, all_values

IN_FLIGHT = 32  # registers of a lane that hold table rows on their way
MOST_IN_FLIGHT = 4  # rows

_START = {"sum": "F(0)", "max": "-BL_INF(F)", "min": "BL_INF(F)"}
_FOLD = {"sum": "{0} + {1}", "max": "bl_maximum({0}, {1})", "min": "bl_minimum({0}, {1})"}
_ACROSS = {"sum": "bl_plus", "max": "bl_larger", "min": "bl_smaller"}


def rowwise_source(
    plan: Schedule, types: Sequence[str] | None = None, *, ordered: bool = False
) -> str:
    """Module of a program: `run(rows, [order, split,] [indptr, indices, [active, positions,]]
    arguments..., outputs..., hidden...)`.

    Over columns, rows is the address of their number. types: of the arguments in C, where they are
    not all of the program's dtype; a table may be "bfloat16". ordered, for a program with a sparse
    argument: order, int [rows], names the rows from the longest to the shortest, and the first
    *split of them, which are long, are left to a second kernel, `run_long` with the same arguments:
    there a block of threads shares a row. Arrays start at multiples of 16 bytes.
    """
    return CudaPrinter(plan, types, ordered=ordered).source()


class CudaPrinter(RowwisePrinter):
    """Prints CUDA C++. More locals: r, the register of a spread vector; group, of lanes."""

    restrict = " __restrict__"  # of pointers: nobody else writes to what they point at

    def __init__(
        self, plan: Schedule, types: Sequence[str] | None = None, *, ordered: bool = False
    ) -> None:
        """types, ordered: see `rowwise_source`."""
        super().__init__(plan)
        self.types = types
        self.ordered = ordered and self.sparse
        self.float = "float" if self.program.dtype == "float32" else "double"
        self.vectors = self.spread_vectors()
        every = all_values(self.program.body)
        self.written = {v.arg for v in every if v.arg >= 0 and v.mutable}
        self.row_arguments = sorted(
            {v.arg for v in every if v.kind is Kind.ROW and v.access is Access.ROWS}
        )
        longest = max((v.length for v in every if v.kind is Kind.VEC), default=1)
        packs = -(-longest // self.pack(longest))
        self.lanes_of_row = lanes_for(longest, self.pack(longest))
        registers = -(-packs // self.lanes_of_row) * self.pack(longest)
        self.unroll = MOST_IN_FLIGHT
        while self.unroll > 1 and self.unroll * registers > IN_FLIGHT:
            self.unroll //= 2

    def pack(self, length: int) -> int:
        """Numbers of a vector that are side by side in a lane: 16 bytes where that fits."""
        half = self.types is not None and "bfloat16" in self.types
        return pack_for(length, "bfloat16" if half and self.float == "float" else self.float)

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
        """Of the function of a row, and (after the number of rows) of the kernels."""
        f, restrict = self.float, self.restrict
        names = []
        if self.sparse:
            names += [f"const i64*{restrict} indptr", f"const int*{restrict} indices"]
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
        """The module."""
        out = self.out
        self.head()
        parameters = self.parameters()
        names = ", ".join(self.names())
        first = ["const i64* count" if self.program.transposed else "i64 rows"]
        first += ["const int* order", "const i64* split"] if self.ordered else []
        head = f"({', '.join(first + parameters)}) {{"
        with out.block(f'extern "C" __global__ void __launch_bounds__(BL_BLOCK, 1) run{head}', "}"):
            if self.program.transposed:
                out.line("const i64 rows = *count;")
            start, row = ("*split + BL_WARP", "order[n]") if self.ordered else ("BL_WARP", "n")
            out.line(f"for (i64 n = {start}; n < rows; n += BL_WARPS)")
            out.line(f"  one_row<false>({row}, {names});")
        if self.ordered:
            name = f"run_long{head}"
            with out.block(
                f'extern "C" __global__ void __launch_bounds__(BL_BLOCK, 1) {name}', "}"
            ):
                out.line("for (i64 n = blockIdx.x; n < *split; n += gridDim.x)")
                out.line(f"  one_row<true>(order[n], {names});")
        return out.text()

    def names(self) -> list[str]:
        """Of the parameters."""
        return [parameter.split()[-1] for parameter in self.parameters()]

    def head(self) -> None:
        """What comes before the kernels; ends with `one_row<LONG>(row, parameters...)`."""
        out = self.out
        out.raw(f"#ifndef BL_LANES\n#define BL_LANES {self.lanes_of_row}\n#endif")
        out.raw(device_header())
        out.line(f"typedef {self.float} F;")
        out.line("// One row. Of a long one every group of lanes of the block has a part of the")
        out.line("// non-zeros, and all of the vectors: the parts are added up group by group.")
        out.line("template <bool LONG>")
        parameters = ", ".join(["i64 row", *self.parameters()])
        with out.block(f"__device__ __forceinline__ void one_row({parameters}) {{", "}"):
            out.line("const int lane = BL_LANE, group = LONG ? threadIdx.x / BL_LANES : 0;")
            out.line(f"const i64 i = {'active[row]' if self.program.transposed else 'row'};")
            for n, argument in enumerate(self.program.arguments):
                if argument.form == "number":
                    out.line(f"const F x{n} = n{n};")
                elif argument.form == "mat" and argument.rows_one and argument.columns == 1:
                    out.line(f"const F x{n} = (F)a{n}[0];")
            self.row()

    def row(self) -> None:
        """The body of `one_row`."""
        out = self.out
        if self.sparse:
            out.line("const i64 begin = indptr[row], length = indptr[row + 1] - begin;")
            out.line("const i64 p = LONG ? begin + length * group / BL_GROUPS : begin;")
            out.line("const i64 q = begin + (LONG ? length * (group + 1) / BL_GROUPS : length);")
        for n in self.row_arguments:
            out.line(f"F m{n} = (F)a{n}[i];")
        for name in sorted(self.row_names()):
            out.line(f"F {name} = F(0);")
        for value in self.vectors:
            pack, register = self.pack(value.length), self.register(value)
            out.line(f"F {register}[BL_PER({value.length}, {pack})];")
            if value.access is Access.ROWS:
                with self.packs(value.length):
                    out.line(
                        f"bl_load<{pack}>({register} + s, a{value.arg} + i * {value.length} + k);"
                    )
        self.nodes(self.plan.nodes)
        for value in self.vectors:
            place = self.home(value)
            if place:
                pack = self.pack(value.length)
                with out.block("if (group == 0) {", "}"), self.packs(value.length):
                    target = f"{place} + i * {value.length} + k"
                    out.line(f"bl_store<{pack}>({target}, {self.register(value)} + s);")
        with out.block("if (lane == 0 && group == 0) {", "}"):
            for n in self.row_arguments:
                if n in self.written:
                    out.line(f"a{n}[i] = m{n};")
            for value in self.program.returns:
                if value.kind is Kind.ROW and value.arg < 0:
                    out.line(f"o{self.outputs[value.id]}[i] = {self.scalar(value)};")

    def home(self, value: Value) -> str:
        """The array that a register vector is written back to, if any."""
        if value.access is Access.ROWS:
            return f"a{value.arg}" if value.mutable else ""
        return f"o{self.outputs[value.id]}" if value.id in self.outputs else ""

    def type_of(self, argument: int) -> str:
        """C type of the numbers of an argument."""
        return self.float if self.types is None else self.types[argument]

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

    @contextmanager
    def packs(self, length: int) -> Iterator[None]:
        """A loop over this lane's packs of a vector: `s` the first register, `k` the place."""
        pack = self.pack(length)
        per, step = f"BL_PER({length}, {pack})", f"BL_LANES * {pack}"
        self.out.line("#pragma unroll")
        head = f"for (int s = 0, k = lane * {pack}; s < {per}; s += {pack}, k += {step})"
        with self.out.block(f"{head} if (k < {length}) {{", "}"):
            yield

    @contextmanager
    def each(self, length: int) -> Iterator[None]:
        """Within `packs`, a loop over a pack: `v` the number in it, `r` its register."""
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int v = 0; v < {self.pack(length)}; ++v) {{", "}"):
            self.out.line("const int r = s + v; (void)r;")
            yield

    def clear(self, value: Value) -> None:
        """A vector of zeros."""
        with self.packs(value.length), self.each(value.length):
            self.out.line(f"{self.register(value)}[r] = F(0);")

    def nodes(self, nodes: list[Node]) -> None:
        """Loops and groups, in order."""
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
        """A per-row or global number."""
        if not isinstance(value, Value):
            return number(value)
        if value.access is Access.NUMBER:
            return f"x{value.arg}"
        return f"m{value.arg}" if value.access is Access.ROWS else f"s{value.id}"

    def register(self, value: Value) -> str:
        """The registers of a spread vector."""
        return f"w{value.id}"

    def element(self, value: Value) -> str:
        """This lane's element of a vector."""
        if value.access in (Access.SHARED, Access.ENTRY):
            return f"b{value.arg}[v]"
        return f"{self.register(value)}[r]"

    def nonzero(self, value: Value, lane: int) -> str:
        """Non-zero j + lane of a stored value."""
        j = f"j + {lane}" if lane else "j"
        if self.program.transposed:
            j = f"positions[{j}]"
        if value.access is Access.VALUES:
            text = f"v{value.arg}[{j}]"
            return text if self.type_of(value.arg) == self.float else f"F({text})"
        if value.access in (Access.COLUMN, Access.ENTRY):
            return f"F(a{value.arg}[c{lane}])"
        return f"{self.nonzero_array(value)}[{j}]"

    def nonzero_array(self, value: Value) -> str:
        """Where values of non-zeros are stored."""
        if value.access is Access.VALUES:
            return f"v{value.arg}"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}"
        return f"h{self.hidden[value.id]}"

    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """An elementwise operation on these texts."""
        return ELEMENTWISE[instruction.op].c.format(*texts)

    # -------------------------------------------------------------- groups

    def row_scalar(self, instruction: Instruction) -> None:
        """One number for the row."""
        match instruction:
            case Apply():
                text = self.apply(instruction, [self.scalar(a) for a in instruction.args])
                self.out.line(f"{self.scalar(instruction.out)} = {text};")
            case Store():
                target = self.scalar(instruction.target)
                self.out.line(f"{target} = {self.scalar(instruction.value)};")
            case Count():
                self.out.line(f"{self.scalar(instruction.out)} = F(length);")

    def product(self, product: Product) -> None:
        """A vector times a small matrix: its numbers go from lane to lane."""
        out, length, width = self.out, product.vec.length, product.out.length
        pack = self.pack(length)
        shared = product.vec.access in (Access.SHARED, Access.ENTRY)
        self.clear(product.out)
        out.line("#pragma unroll")
        with out.block(f"for (int b = 0; b < BL_PER({length}, {pack}); b += {pack}) {{", "}"):
            with out.block("for (int from = 0; from < BL_LANES; ++from) {", "}"):
                out.line(f"const int first = b * BL_LANES + from * {pack};")
                out.line(f"if (first >= {length}) break;")
                out.line("#pragma unroll")
                with out.block(f"for (int u = 0; u < {pack}; ++u) {{", "}"):
                    if shared:
                        out.line(f"const F t = (F)a{product.vec.arg}[first + u];")
                    else:
                        register = self.register(product.vec)
                        out.line(f"const F t = BL_FROM_LANE({register}[b + u], from);")
                    with self.packs(width):
                        row = f"a{product.matrix} + (i64)(first + u) * {width} + k"
                        out.line(f"F g[{self.pack(width)}];")
                        out.line(f"bl_load<{self.pack(width)}>(g, {row});")
                        with self.each(width):
                            out.line(f"{self.element(product.out)} += t * g[v];")

    def starts(self, group: Group) -> None:
        """What sums begin with."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                self.out.line(f"s{instruction.out.id} = {_START[instruction.op]};")
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                self.out.line(f"s{instruction.out.id} = F(0);")
            elif isinstance(instruction, Gather):
                self.clear(instruction.out)

    def finish(self, group: Group) -> None:
        """Combine the lanes' parts of sums."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce | Gather) and instruction.out.kind is Kind.ROW:
                op = _ACROSS[instruction.op] if isinstance(instruction, Reduce) else "bl_plus"
                name = f"s{instruction.out.id}"
                self.out.line(f"{name} = bl_across<{op}>({name});")

    def join(self, group: Group) -> None:
        """Of a long row, combine the parts of sums over the non-zeros."""
        sums = [i for i in group.instructions if isinstance(i, Reduce | Gather)]
        if not sums:
            return
        with self.out.block("if (LONG) {", "}"):
            for instruction in sums:
                if instruction.out.kind is Kind.ROW:
                    op = _ACROSS[instruction.op] if isinstance(instruction, Reduce) else "bl_plus"
                    name = f"s{instruction.out.id}"
                    self.out.line(f"{name} = bl_across_groups<{op}>({name});")
                else:
                    pack, name = self.pack(instruction.out.length), self.register(instruction.out)
                    per = f"BL_PER({instruction.out.length}, {pack})"
                    self.out.line(f"bl_add_groups<{per}, {pack}>({name});")

    def vector(self, group: Group) -> None:
        """A loop over a vector."""
        out = self.out
        self.starts(group)
        tables: dict[int, Value] = {}
        for instruction in group.instructions:
            for value in reads(instruction):
                if value.kind is Kind.VEC and value.access in (Access.SHARED, Access.ENTRY):
                    tables[value.arg] = value
        with self.packs(group.length):
            pack = self.pack(group.length)
            for n in tables:
                out.line(f"F b{n}[{pack}];")
                out.line(f"bl_load<{pack}>(b{n}, a{n} + k);")
            with self.each(group.length):
                self.elements(group)
        self.finish(group)

    def elements(self, group: Group) -> None:
        """The body of the loop over a vector."""
        out = self.out
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
                    texts = [read(a) for a in instruction.args]
                    keep(instruction.out, self.apply(instruction, texts))
                case Store():
                    keep(instruction.target, read(instruction.value))
                case Reduce():
                    name = f"s{instruction.out.id}"
                    text = _FOLD[instruction.op].format(name, read(instruction.source))
                    out.line(f"{name} = {text};")

    def nonzeros(self, group: Group) -> None:
        """A loop over the non-zeros of the row."""
        out = self.out
        self.starts(group)
        wide = any(
            isinstance(i, Dot) or (isinstance(i, Gather) and i.out.kind is Kind.VEC)
            for i in group.instructions
        )
        if wide:  # all lanes work on the vectors of the same non-zeros
            unroll = self.unroll
            if unroll > 1:
                with out.block("{", "}"):
                    out.line(f"const i64 full = p + (q - p) / {unroll} * {unroll};")
                    with out.block(f"for (i64 j = p; j < full; j += {unroll}) {{", "}"):
                        self.lanes(group, unroll, wide=True)
                    with out.block("for (i64 j = full; j < q; ++j) {", "}"):
                        self.lanes(group, 1, wide=True)
            else:
                with out.block("for (i64 j = p; j < q; ++j) {", "}"):
                    self.lanes(group, 1, wide=True)
        else:  # each lane has non-zeros of its own
            with out.block("for (i64 j = p + lane; j < q; j += BL_LANES) {", "}"):
                self.lanes(group, 1, wide=False)
            self.finish(group)
        self.join(group)
        out.line("BL_SYNC();")  # what was stored is there for every lane

    def lanes(self, group: Group, lanes: int, *, wide: bool) -> None:
        """The body of the loop over non-zeros, for `lanes` of them at once."""
        out = self.out
        every = range(lanes)
        if self.needs_column(group):
            for lane in every:
                out.line(f"const i64 c{lane} = indices[{f'j + {lane}' if lane else 'j'}];")
        local: set[int] = set()
        held, loaded = self.held(group), set[int]()
        for table, length in held.items():
            pack = self.pack(length)
            for lane in every:
                out.line(f"F g{table}_{lane}[BL_PER({length}, {pack})];")

        def read(value: Value | float, lane: int) -> str:
            if not isinstance(value, Value) or value.kind is not Kind.NNZ:
                return self.scalar(value)
            if value.id not in local:
                for each in every:
                    out.line(f"F z{value.id}_{each} = {self.nonzero(value, each)};")
                local.add(value.id)
            return f"z{value.id}_{lane}"

        def keep(value: Value, texts: list[str]) -> None:
            known = value.id in local
            for lane, text in enumerate(texts):
                out.line(f"{'' if known else 'F '}z{value.id}_{lane} = {text};")
            local.add(value.id)
            if value.id in self.plan.stored:
                if wide and known:
                    out.line("BL_SYNC();")  # every lane has read what was there before
                guard = "if (lane == 0) " if wide else ""
                for lane in every:
                    out.line(f"{guard}{self.nonzero_place(value, lane)} = z{value.id}_{lane};")

        def rows(table: int, length: int) -> list[str]:
            """The lane's packs of the table's rows, loaded unless they are there; their names."""
            for lane in every if table not in loaded else ():
                name = f"g{table}_{lane} + s" if table in held else f"g{lane}"
                if table not in held:
                    out.line(f"F g{lane}[{self.pack(length)}];")
                source = f"a{table} + c{lane} * {length} + k"
                out.line(f"bl_load<{self.pack(length)}>({name}, {source});")
            if table in held:
                loaded.add(table)
            return [f"g{table}_{each}[r]" if table in held else f"g{each}[v]" for each in every]

        for n, instruction in enumerate(group.instructions):
            match instruction:
                case Apply():
                    columns = [[read(a, lane) for a in instruction.args] for lane in every]
                    keep(instruction.out, [self.apply(instruction, c) for c in columns])
                case Store():
                    keep(instruction.target, [read(instruction.value, lane) for lane in every])
                case Dot():
                    out.line(f"F d{n}[{lanes}] = {{}};")
                    length, vector = instruction.vec.length, instruction.vec
                    with self.packs(length):
                        self.shared_pack(vector)
                        names = rows(instruction.table, length)
                        with self.each(length):
                            out.line(f"const F t = {self.element(vector)};")
                            for lane, name in enumerate(names):
                                out.line(f"d{n}[{lane}] += t * {name};")
                    out.line(f"bl_sums<{lanes}>(d{n});")
                    keep(instruction.out, [f"d{n}[{lane}]" for lane in every])
                case Gather() if instruction.out.kind is Kind.ROW:
                    name = f"s{instruction.out.id}"
                    # a lane that has the same non-zeros as the others adds them once for all
                    for lane in every:
                        entry = f"F(a{instruction.table}[c{lane}])"
                        out.line(f"{name} += {read(instruction.weight, lane)} * {entry};")
                case Gather():
                    length = instruction.out.length
                    weights = [read(instruction.weight, lane) for lane in every]
                    with self.packs(length):
                        names = rows(instruction.table, length)
                        with self.each(length):
                            for lane, name in enumerate(names):
                                target = self.element(instruction.out)
                                out.line(f"{target} += {weights[lane]} * {name};")
                case Reduce():
                    name = f"s{instruction.out.id}"
                    for lane in every:
                        text = _FOLD[instruction.op].format(name, read(instruction.source, lane))
                        out.line(f"{name} = {text};")

    def held(self, group: Group) -> dict[int, int]:
        """Tables whose rows are read by a dot product and by a sum of rows: argument -> length."""
        dots = {i.table: i.vec.length for i in group.instructions if isinstance(i, Dot)}
        gathers = {i.table for i in group.instructions if isinstance(i, Gather)}
        return {table: length for table, length in dots.items() if table in gathers}

    def shared_pack(self, value: Value) -> None:
        """Load this lane's pack of a vector that is the same for all rows."""
        if value.access in (Access.SHARED, Access.ENTRY):
            pack = self.pack(value.length)
            self.out.line(f"F b{value.arg}[{pack}];")
            self.out.line(f"bl_load<{pack}>(b{value.arg}, a{value.arg} + k);")

    def nonzero_place(self, value: Value, lane: int) -> str:
        """Where a value of non-zero j + lane is stored."""
        j = f"j + {lane}" if lane else "j"
        if self.program.transposed:
            j = f"positions[{j}]"
        return f"{self.nonzero_array(value)}[{j}]"
