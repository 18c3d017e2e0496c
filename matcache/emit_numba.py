"""Print a scheduled row-wise program, or a fused elementwise expression, as Numba source.

A kernel runs one chunk of rows: `run(chunk, thread, bounds, ...)`. Vector lengths are literals,
values inside a loop are scalars, and the loop over non-zeros takes four at a time so that row
vectors are loaded once for four table rows. `F(...)` around what is read converts other dtypes.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from .cpu_vectors import SHORT
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
    walk,
)
from .schedule import Group, Leave, Loop, Node, Schedule
from .writer import Writer

if TYPE_CHECKING:
    from .fused import Fused, Leaf

UNROLL = 4  # non-zeros at a time
TOGETHER = 8  # rows of a matrix that are added at a time, where they are long
SHORT_MATRIX = 128  # longest row of a matrix of which several are added at a time

HEADER = """\
import numpy as np
from numba import njit
from blocklearn.matcache import cpu_math{bits} as m
from blocklearn.matcache.cpu_random import random_bits

F = np.float{bits}
{made}

@njit(nogil=True, cache=True, error_model="numpy", fastmath={flags})
"""

# Only a sum along a row gains from another order of its terms. Without one nothing is reassociated,
# so that the arithmetic of a column does not depend on how many columns there are.
SUMS = '{"contract", "reassoc", "nsz", "arcp"}'
NO_SUMS = '{"contract", "nsz"}'

VECTORS = "from blocklearn.matcache.cpu_vectors import make_add, make_dots\n\n"

_START = {"sum": "F(0)", "max": "F(-np.inf)", "min": "F(np.inf)"}
_FOLD = {"sum": "{0} + {1}", "max": "m.maximum({0}, {1})", "min": "m.minimum({0}, {1})"}


def rowwise_source(plan: Schedule) -> str:
    """Source of the module that runs `plan`; its function is called `run`."""
    return NumbaPrinter(plan).source()


class NumbaPrinter(RowwisePrinter):
    """Prints Numba source."""

    def __init__(self, plan: Schedule) -> None:
        """Nothing is printed yet."""
        super().__init__(plan)
        self.made: dict[str, str] = {}  # operations on vectors of one length: name -> text

    # -------------------------------------------------------------- module

    def parameters(self) -> list[str]:
        """Names of the kernel's parameters."""
        names = ["chunk", "thread", "bounds"]
        if self.sparse:
            names += ["indptr", "indices"]
        if self.program.transposed:
            names += ["active", "positions"]
        for n, argument in enumerate(self.program.arguments):
            names.append({"sparse": "v", "mat": "a"}.get(argument.form, "n") + str(n))
        names += [f"o{n}" for n in self.outputs.values()]
        names += [f"h{n}" for n in self.hidden.values()]
        return [*names, "scratch"]

    def source(self) -> str:
        """The whole module."""
        out = self.out
        bits = "32" if self.program.dtype == "float32" else "64"
        out.line(f"def run({', '.join(self.parameters())}):")
        with out.block():
            for n, argument in enumerate(self.program.arguments):
                if argument.form == "number":
                    out.line(f"x{n} = F(n{n})")
                elif argument.form == "mat" and argument.rows_one and argument.columns == 1:
                    out.line(f"x{n} = F(a{n}[0, 0])")
            for value in sorted(self.plan.vectors.values()):
                out.line(f"w{value} = scratch[thread, {value}]")
            row = "row" if self.program.transposed else "i"
            out.line(f"for {row} in range(bounds[chunk], bounds[chunk + 1]):")
            with out.block():
                if self.program.transposed:
                    out.line("i = np.uintp(active[row])")
                if self.sparse:
                    out.line(f"p = indptr[{row}]")
                    out.line(f"q = indptr[{row} + 1]")
                self.nodes(self.plan.nodes)
                for result in self.program.returns:
                    if result.kind is Kind.ROW and result.arg < 0:
                        out.line(f"o{self.outputs[result.id]}[i, 0] = {self.scalar(result)}")
        made = "".join(f"{name} = {text}\n" for name, text in self.made.items())
        sums = any(isinstance(i, Dot | Product | Reduce) for i in walk(self.program.body))
        flags = SUMS if sums else NO_SUMS
        return HEADER.format(bits=bits, made=made and VECTORS + made, flags=flags) + out.text()

    def nodes(self, nodes: list[Node]) -> None:
        """Loops and groups, in order."""
        for node in nodes:
            if isinstance(node, Loop):
                count = str(node.count) if isinstance(node.count, int) else self.count(node.count)
                self.out.line(f"for _ in range({count}):")
                with self.out.block():
                    self.nodes(node.body)
            elif isinstance(node, Leave):
                self.out.line(f"if {self.scalar(node.condition)} != F(0):")
                with self.out.block():
                    self.out.line("break")
            else:
                self.group(node)

    def count(self, value: Value) -> str:
        """How often a loop runs, where an argument says so."""
        if self.program.arguments[value.arg].form == "number":
            return f"np.int64(n{value.arg})"
        return f"np.int64(x{value.arg})"

    # -------------------------------------------------------------- names

    def scalar(self, value: Value | float) -> str:
        """A per-row or global number."""
        if not isinstance(value, Value):
            return number(value)
        if value.access is Access.NUMBER:
            return f"x{value.arg}"
        if value.access is Access.ROWS:
            return f"F({self.place(value)})"
        return f"s{value.id}"

    def place(self, value: Value) -> str:
        """Where a per-row number is stored."""
        return f"a{value.arg}[i, 0]" if value.access is Access.ROWS else f"s{value.id}"

    def element(self, value: Value, index: str = "k") -> str:
        """One element of a stored vector."""
        if value.access is Access.ROWS:
            return f"a{value.arg}[i, {index}]"
        if value.access is Access.SHARED:
            return f"F(a{value.arg}[0, {index}])"
        if value.access is Access.ENTRY:
            return f"F(a{value.arg}[{index}, 0])"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}[i, {index}]"
        return f"w{self.plan.vectors[value.id]}[{index}]"

    def home(self, value: Value) -> tuple[str, str]:
        """The array that holds a stored vector, and where in it the vector begins."""
        if value.access is Access.ROWS:
            return f"a{value.arg}", f"np.intp(i) * {value.length}"
        if value.access in (Access.SHARED, Access.ENTRY):
            return f"a{value.arg}", "0"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}", f"np.intp(i) * {value.length}"
        return f"w{self.plan.vectors[value.id]}", "0"

    def short(self, make: str, length: int, lanes: int, options: str = "") -> str:
        """Name of an operation on short vectors, `lanes` rows at once."""
        bits = "32" if self.program.dtype == "float32" else "64"
        name = "_".join([make, str(length), str(lanes), *re.findall(r"\w+(?==)", options)])
        self.made[name] = f"make_{make}({length}, {lanes}, {bits}{options})"
        return name

    def nonzero(self, value: Value, lane: int) -> str:
        """Non-zero j + lane of a stored value."""
        j = f"j + {lane}" if lane else "j"
        if self.program.transposed:
            j = f"positions[{j}]"
        if value.access is Access.VALUES:
            return f"v{value.arg}[{j}]"
        if value.access is Access.COLUMN:
            return f"F(a{value.arg}[0, c{lane}])"
        if value.access is Access.ENTRY:
            return f"F(a{value.arg}[c{lane}, 0])"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}[{j}]"
        return f"h{self.hidden[value.id]}[{j}]"

    # -------------------------------------------------------------- groups

    def row_scalar(self, instruction: Instruction) -> None:
        """One number for the row."""
        match instruction:
            case Apply():
                text = self.apply(instruction, [self.scalar(a) for a in instruction.args])
                self.out.line(f"{self.place(instruction.out)} = {text}")
            case Store():
                target = self.place(instruction.target)
                self.out.line(f"{target} = {self.scalar(instruction.value)}")
            case Count():
                self.out.line(f"{self.scalar(instruction.out)} = F(q - p)")

    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """An elementwise operation on these texts."""
        return ELEMENTWISE[instruction.op].numba.format(*texts)

    def product(self, product: Product) -> None:
        """A vector times a small matrix."""
        out, element = self.out, self.element(product.out)
        short = product.out.length <= SHORT_MATRIX
        self.clear(product.out, whole=short)
        if short:
            self.short_product(product)
            return
        rows = product.vec.length
        full = rows // TOGETHER * TOGETHER
        for start, end, count in ((0, full, TOGETHER), (full, rows, 1)):
            if start == end:
                continue
            out.line(f"for l in range({start}, {end}, {count}):")
            with out.block():
                every = [f"l + {n}" if n else "l" for n in range(count)]
                for n, row in enumerate(every):
                    out.line(f"t{n} = F({self.element(product.vec, row)})")
                out.line(f"for k in range({product.out.length}):")
                with out.block():
                    terms = [f"F(a{product.matrix}[{row}, k])" for row in every]
                    factors = [f"t{n}" for n in range(count)]
                    out.line(f"{element} += {weighted(factors, terms)}")

    def clear(self, value: Value, *, whole: bool) -> None:
        """Set a vector to zero. whole: if it is scratch, up to where its last vector ends."""
        length = value.length
        if whole and self.home(value)[0].startswith("w"):
            length = -(-length // 16) * 16
        self.out.line(f"for k in range({length}):")
        with self.out.block():
            self.out.line(f"{self.element(value)} = F(0)")

    def short_product(self, product: Product) -> None:
        """The same of a matrix whose rows are a few vectors: several rows of it at a time."""
        length, rows = product.out.length, product.vec.length
        array, at = self.home(product.out)
        padded = ", padded=True" if array.startswith("w") else ""
        full = rows // UNROLL * UNROLL
        for start, end, count in ((0, full, UNROLL), (full, rows, 1)):
            if start == end:
                continue
            add = self.short("add", length, count, padded)
            every = [f"l + {n}" if n else "l" for n in range(count)]
            places = "".join(f"({row}) * {length}, " for row in every)
            factors = "".join(f"F({self.element(product.vec, row)}), " for row in every)
            self.out.line(f"for l in range({start}, {end}, {count}):")
            with self.out.block():
                matrix = f"a{product.matrix}"
                self.out.line(f"{add}({array}, {at}, {matrix}, ({places}), ({factors}))")

    def starts(self, group: Group) -> None:
        """What sums begin with."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                self.out.line(f"s{instruction.out.id} = {_START[instruction.op]}")
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                self.out.line(f"s{instruction.out.id} = F(0)")
            elif isinstance(instruction, Gather):
                self.clear(instruction.out, whole=instruction.out.length < SHORT)

    def vector(self, group: Group) -> None:
        """A loop over a vector."""
        out = self.out
        self.starts(group)
        out.line(f"for k in range({group.length}):")
        with out.block():
            local: dict[int, str] = {}

            def read(value: Value | float) -> str:
                if not isinstance(value, Value) or value.kind is not Kind.VEC:
                    return self.scalar(value)
                if value.id not in local:
                    local[value.id] = f"e{value.id}"
                    out.line(f"e{value.id} = F({self.element(value)})")
                return local[value.id]

            def keep(value: Value, text: str) -> None:
                out.line(f"e{value.id} = {text}")
                local[value.id] = f"e{value.id}"
                if value.id in self.plan.stored:
                    out.line(f"{self.element(value)} = e{value.id}")

            for instruction in group.instructions:
                match instruction:
                    case Apply():
                        texts = [read(a) for a in instruction.args]
                        keep(instruction.out, self.apply(instruction, texts))
                    case Store():
                        keep(instruction.target, read(instruction.value))
                    case Reduce():
                        name = f"s{instruction.out.id}"
                        fold = _FOLD[instruction.op].format(name, read(instruction.source))
                        out.line(f"{name} = {fold}")

    def nonzeros(self, group: Group) -> None:
        """A loop over the non-zeros of the row."""
        self.starts(group)
        wide = any(isinstance(i, Dot | Gather) for i in group.instructions)
        if wide:
            self.out.line(f"full = p + (q - p) // {UNROLL} * {UNROLL}")
            self.out.line(f"for j in range(p, full, {UNROLL}):")
            with self.out.block():
                self.lanes(group, UNROLL)
            self.out.line("for j in range(full, q):")
        else:
            self.out.line("for j in range(p, q):")
        with self.out.block():
            self.lanes(group, 1)

    def lanes(self, group: Group, lanes: int) -> None:
        """The body of the loop over non-zeros, for `lanes` of them at once."""
        out = self.out
        if self.needs_column(group):
            for lane in range(lanes):
                out.line(f"c{lane} = np.uintp(indices[{f'j + {lane}' if lane else 'j'}])")
        local: set[int] = set()

        def read(value: Value | float, lane: int) -> str:
            if not isinstance(value, Value) or value.kind is not Kind.NNZ:
                return self.scalar(value)
            if value.id not in local:
                for each in range(lanes):
                    out.line(f"z{value.id}_{each} = F({self.nonzero(value, each)})")
                local.add(value.id)
            return f"z{value.id}_{lane}"

        def keep(value: Value, texts: list[str]) -> None:
            for lane, text in enumerate(texts):
                out.line(f"z{value.id}_{lane} = {text}")
            local.add(value.id)
            if value.id in self.plan.stored:
                for lane in range(lanes):
                    out.line(f"{self.nonzero(value, lane)} = z{value.id}_{lane}")

        def offsets(length: int) -> str:
            return "".join(f"np.intp(c{lane}) * {length}, " for lane in every)

        every = range(lanes)
        for instruction in group.instructions:
            match instruction:
                case Apply():
                    columns = [[read(a, lane) for a in instruction.args] for lane in every]
                    keep(instruction.out, [self.apply(instruction, c) for c in columns])
                case Store():
                    keep(instruction.target, [read(instruction.value, lane) for lane in every])
                case Dot() if instruction.vec.length < SHORT:
                    length = instruction.vec.length
                    array, at = self.home(instruction.vec)
                    dots = self.short("dots", length, lanes)
                    found = "".join(f"d{lane}, " for lane in every)
                    places = offsets(length)
                    out.line(f"{found}= {dots}({array}, {at}, a{instruction.table}, ({places}))")
                    keep(instruction.out, [f"d{lane}" for lane in every])
                case Gather() if instruction.out.kind is Kind.ROW:
                    factors = [read(instruction.weight, lane) for lane in every]
                    rows = [f"F(a{instruction.table}[c{lane}, 0])" for lane in every]
                    out.line(f"{self.scalar(instruction.out)} += {weighted(factors, rows)}")
                case Gather() if instruction.out.length < SHORT:
                    length = instruction.out.length
                    array, at = self.home(instruction.out)
                    padded = ", padded=True" if array.startswith("w") else ""
                    add = self.short("add", length, lanes, padded)
                    given = "".join(f"{read(instruction.weight, lane)}, " for lane in every)
                    places = offsets(length)
                    table = f"a{instruction.table}"
                    out.line(f"{add}({array}, {at}, {table}, ({places}), ({given}))")
                case Dot():
                    for lane in every:
                        out.line(f"d{lane} = F(0)")
                    out.line(f"for k in range({instruction.vec.length}):")
                    with out.block():
                        out.line(f"t = F({self.element(instruction.vec)})")
                        for lane in every:
                            out.line(f"d{lane} += t * F(a{instruction.table}[c{lane}, k])")
                    keep(instruction.out, [f"d{lane}" for lane in every])
                case Gather():
                    weights = [read(instruction.weight, lane) for lane in every]
                    element = self.element(instruction.out)
                    rows = [f"F(a{instruction.table}[c{lane}, k])" for lane in every]
                    out.line(f"for k in range({instruction.out.length}):")
                    with out.block():
                        out.line(f"{element} += {weighted(weights, rows)}")
                case Reduce():
                    name = f"s{instruction.out.id}"
                    for lane in every:
                        fold = _FOLD[instruction.op].format(name, read(instruction.source, lane))
                        out.line(f"{name} = {fold}")


def weighted(factors: list[str], numbers: list[str]) -> str:
    """Sum of products. Its order is that of `cpu_vectors.make_add`: the same bits for a column,
    whatever the number of columns.
    """
    return " + ".join(f"{factor} * {x}" for factor, x in zip(factors, numbers, strict=True))


def number(value: float) -> str:
    """A constant as source text."""
    if math.isfinite(value):
        return f"F({float(value)!r})"
    return "F(np.nan)" if math.isnan(value) else f"F({'-' if value < 0 else ''}np.inf)"


def fused_source(fused: Fused) -> str:
    """Source of the module that runs a fused dense expression; its function is called `run`.

    run(chunk, thread, bounds, leaf arrays..., numbers..., columns, out): flat expressions take
    one-dimensional arrays and loop over elements, the others loop over rows i and columns k.
    """
    out = Writer()
    flags = SUMS if fused.ending == "total" else NO_SUMS
    out.raw(HEADER.format(bits="32" if fused.dtype == "float32" else "64", made="", flags=flags))
    names = [f"a{n}" for n in range(len(fused.leaves))] + [f"n{n}" for n in range(fused.numbers)]
    out.line(f"def run({', '.join(['chunk', 'thread', 'bounds', *names, 'columns', 'out'])}):")

    def element() -> str:
        """Print the steps for one element; returns the name of its value."""
        for n, leaf in enumerate(fused.leaves):
            if leaf.kind != "one":
                out.line(f"x{n} = {_leaf_text(n, leaf, fused.flat)}")
        for n, (op, references) in enumerate(fused.steps):
            texts = [_PREFIX[kind] + str(place) for kind, place in references]
            out.line(f"t{n} = {ELEMENTWISE[op].numba.format(*texts)}")
        kind, place = fused.result
        return _PREFIX[kind] + str(place)

    with out.block():
        for n in range(fused.numbers):
            out.line(f"c{n} = F(n{n})")
        for n, leaf in enumerate(fused.leaves):
            if leaf.kind == "one":
                out.line(f"x{n} = F(a{n}[0, 0])")
        if fused.ending == "total":
            out.line("s = 0.0")
        if fused.ending == "colsum":
            out.line("for k in range(columns):")
            with out.block():
                out.line("out[chunk, k] = 0.0")
        if fused.flat:
            # slices: an index that starts at 0 is known not to be negative, and LLVM makes vectors
            out.line("first, last = bounds[chunk], bounds[chunk + 1]")
            for n, leaf in enumerate(fused.leaves):
                if leaf.kind == "full":
                    out.line(f"a{n} = a{n}[first:last]")
            if fused.ending == "assign":
                out.line("out = out[first:last]")
            out.line("for k in range(last - first):")
            with out.block():
                value = element()
                out.line(
                    f"out[k] = {value}" if fused.ending == "assign" else f"s += np.float64({value})"
                )
        else:
            out.line("for i in range(bounds[chunk], bounds[chunk + 1]):")
            with out.block():
                out.line("for k in range(columns):")
                with out.block():
                    value = element()
                    out.line(
                        {
                            "assign": f"out[i, k] = {value}",
                            "total": f"s += np.float64({value})",
                            "colsum": f"out[chunk, k] += np.float64({value})",
                        }[fused.ending]
                    )
        if fused.ending == "total":
            out.line("out[chunk, 0] = s")
    return out.text()


_PREFIX = {"leaf": "x", "number": "c", "step": "t"}


def _leaf_text(n: int, leaf: Leaf, flat: bool) -> str:
    if leaf.kind == "random":
        return f"m.uniform(random_bits(a{n}, i, k, {leaf.stream}))"
    index = "k" if flat else {"full": "i, k", "row": "0, k", "column": "i, 0"}[leaf.kind]
    return f"F(a{n}[{index}])"
