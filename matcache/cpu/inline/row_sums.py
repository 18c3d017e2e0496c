"""Sums over the long table rows of a sparse row, which stay in registers.

The functions of `long_rows.py` add four table rows at a time, and each time read and write the
sums. Here a strip of the sums stays in registers until all table rows are added.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .long_rows import Long
from .vectors import LINE, fetch_at, instruction

STRIP = 20  # vectors; with four weights and two products they fit into 32 registers
TOGETHER = 4  # table rows whose products are added up before the sums
AHEAD = 8  # distance in non-zeros from the table row that is read to the prefetched one
ARRAYS = "out", "table", "columns", "values", "places"
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@cache
def make_sum_rows(bits: int, *, turned: bool) -> Any:
    """Make `sums(out, table, columns, values, places, at, p, q, length)`: add weighted table rows.

    out[at : at + length] = sum over j from p to q of x[j] * table[columns[j], :length].

    turned: whether x[j] is values[places[j]]; else it is values[j], and table rows are prefetched.
    length: of table rows. The code is good if LLVM knows it.

    The arrays are C-contiguous. The bits are those of `make_add_rows`, where it adds four rows at a
    time to zeros, and then the others one by one.
    """
    number = getattr(types, f"float{bits}")

    @instruction
    def sums(typingctx, out, table, columns, values, places, at, p, q, length):
        kinds = out, table, columns, values, places
        signature = types.void(*kinds, *(types.intp for _ in range(4)))

        def codegen(context, builder, sig, args):
            arrays = dict(zip(ARRAYS, zip(kinds, args[:5], strict=True), strict=True))
            Strips(context, builder, arrays, args[5:], number, turned=turned).run()
            return context.get_dummy_value()

        return signature, codegen

    return sums


class Strips:
    """Prints the sums of one sparse row, strip by strip."""

    def __init__(self, context, builder, arrays, numbers, number, *, turned):
        self.context, self.builder, self.arrays = context, builder, arrays
        self.number, self.turned = number, turned
        at, self.first, self.end, self.length = numbers
        self.row = Long(context, builder, self.length, number.bitwidth)
        self.out = self.pointer("out", at)
        count = builder.sub(self.end, self.first)
        self.full = builder.add(self.first, builder.and_(count, _I64(-TOGETHER)))

    def run(self):
        """Print whole strips, and then the last one, which may be shorter."""
        builder, step = self.builder, _I64(STRIP * self.row.lanes)
        last = builder.sub(self.length, _I64(1))
        last = builder.sub(last, builder.urem(last, step))
        with cgutils.for_range_slice(builder, _I64(0), last, step) as (start, _):
            self.strip(start, builder.add(start, step), [None] * STRIP)
        ends = [builder.add(last, _I64(v * self.row.lanes)) for v in range(STRIP)]
        self.strip(last, self.length, [self.row.mask_at(end) for end in ends])

    def strip(self, start, end, masks):
        """Print the sums from number `start` to `end` of the table rows.

        masks: which numbers of each vector belong to them; None: all.
        """
        builder, row = self.builder, self.row
        sums = [cgutils.alloca_once(builder, row.vector) for _ in masks]
        for total in sums:
            builder.store(ir.Constant(row.vector, [0.0] * row.lanes), total)
        vectors = [
            (total, builder.add(start, _I64(v * row.lanes)), mask)
            for v, (total, mask) in enumerate(zip(sums, masks, strict=True))
        ]
        for begin, stop, count in (self.first, self.full, TOGETHER), (self.full, self.end, 1):
            with cgutils.for_range_slice(builder, begin, stop, _I64(count)) as (j, _):
                every = [builder.add(j, _I64(lane)) for lane in range(count)]
                if count == TOGETHER and not self.turned:
                    for each in every:
                        self.fetch(builder.add(each, _I64(AHEAD)), start, end)
                self.add([self.nonzero(each) for each in every], vectors)
        for total, at, mask in vectors:
            row.mask = mask
            row.store_at(builder.load(total), self.out, at, mask is None)

    def add(self, nonzeros, vectors):
        """Print how a few table rows are added."""
        builder, row = self.builder, self.row
        for total, at, mask in vectors:
            row.mask = mask
            added: Any = None
            for table, weight in nonzeros:
                term = builder.fmul(weight, row.load_at(table, at, mask is None))
                added = term if added is None else builder.fadd(added, term)
            builder.store(builder.fadd(builder.load(total), added), total)

    def nonzero(self, j):
        """Return the table row of non-zero j, and its weight as a vector."""
        place = self.element("places", j, types.intp) if self.turned else j
        weight = self.row.splat(self.element("values", place, self.number))
        return self.table_row(j), weight

    def table_row(self, j):
        """Return where the table row of non-zero j begins, and the type of its numbers."""
        column = self.element("columns", j, types.intp)
        return self.pointer("table", self.builder.mul(column, self.length))

    def fetch(self, j, start, end):
        """Print prefetches of a part of the table row of non-zero j, or of the last one."""
        builder = self.builder
        kind, columns = self.arrays["columns"]
        size = self.context.make_array(kind)(self.context, builder, columns).nitems
        last = builder.sub(size, _I64(1))
        table, dtype = self.table_row(builder.select(builder.icmp_signed("<", j, last), j, last))
        line = _I64(LINE * 8 // dtype.bitwidth)
        with cgutils.for_range_slice(builder, start, end, line) as (at, _):
            fetch_at(builder, builder.gep(table, [at]), for_writing=False)

    def element(self, name, place, wanted):
        """Return an element of an array as a number of the type `wanted`."""
        pointer, dtype = self.pointer(name, place)
        return self.context.cast(self.builder, self.builder.load(pointer), dtype, wanted)

    def pointer(self, name, place):
        """Return the address of an element of an array, and its type."""
        kind, array = self.arrays[name]
        return self.row.pointer(kind, array, place)
