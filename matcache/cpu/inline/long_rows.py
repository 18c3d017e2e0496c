"""Vector instructions for rows whose length is known when a kernel runs.

One compilation serves all lengths; `vectors.py` has those for rows of known length.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vectors import Row, instruction, lanes

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@cache
def make_add_rows(count: int, vectors: int = 0, bits: int = 32, *, padded: bool = True) -> Any:
    """Make `add(out, at, table, rows, weights, length)`: `make_add` for rows of any length.

    vectors: how many the rows have, the last one included that may be shorter; 0: any number.
    padded: whether out has room for whole vectors, whose last numbers do not matter.

    The bits are those of `make_add`.
    """
    number = getattr(types, f"float{bits}")

    @instruction
    def add(typingctx, out, at, table, rows, weights, length):
        signature = types.void(
            out,
            types.intp,
            table,
            types.UniTuple(types.intp, count),
            types.UniTuple(number, count),
            types.intp,
        )

        def codegen(context, builder, sig, args):
            row = Long(context, builder, args[5], bits)
            target = row.pointer(sig.args[0], args[0], args[1])
            sources = [row.pointer(sig.args[2], args[2], r) for r in row.unpack(args[3], count)]
            factors = [row.splat(w) for w in row.unpack(args[4], count)]

            def add_vector(at, whole):
                total: Any = None
                for pointer, factor in zip(sources, factors, strict=True):
                    term = builder.fmul(factor, row.load_at(pointer, at, whole))
                    total = term if total is None else builder.fadd(total, term)
                before = row.load_at(target, at, whole or padded)
                row.store_at(builder.fadd(before, total), target, at, whole or padded)

            for v in range(vectors - 1):
                add_vector(_I64(v * row.lanes), True)
            if vectors:
                add_vector(_I64((vectors - 1) * row.lanes), False)
                return context.get_dummy_value()
            row.for_each(add_vector)
            return context.get_dummy_value()

        return signature, codegen

    return add


@cache
def make_dot_rows(count: int, bits: int = 32) -> Any:
    """Make `dots(vector, at, table, rows, length)`: `make_dots` for rows of any length.

    The bits are those of `make_dots`.
    """
    number = getattr(types, f"float{bits}")

    @instruction
    def dots(typingctx, vector, at, table, rows, length):
        signature = types.UniTuple(number, count)(
            vector, types.intp, table, types.UniTuple(types.intp, count), types.intp
        )

        def codegen(context, builder, sig, args):
            row = Long(context, builder, args[4], bits)
            left = row.pointer(sig.args[0], args[0], args[1])
            right = [row.pointer(sig.args[2], args[2], r) for r in row.unpack(args[3], count)]
            zero = ir.Constant(row.vector, [0.0] * row.lanes)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in right]

            def add_vector(at, whole):
                x = row.load_at(left, at, whole)
                for pointer, total in zip(right, sums, strict=True):
                    y = row.load_at(pointer, at, whole)
                    builder.store(row.multiply_add(x, y, builder.load(total)), total)

            row.for_each(add_vector)
            totals = row.totals([builder.load(total) for total in sums])
            return context.make_tuple(builder, sig.return_type, totals)

        return signature, codegen

    return dots


@instruction
def add_whole(typingctx, out, at, row, weight, length):
    """Add out[at : at + length] += weight * out[row : row + length], for whole float32 vectors."""
    signature = types.void(out, types.intp, types.intp, types.float32, types.intp)

    def codegen(context, builder, sig, args):
        rows = Long(context, builder, args[4])
        target, source = (rows.pointer(sig.args[0], args[0], place) for place in args[1:3])
        factor = rows.splat(args[3])
        with rows.each(args[4]) as at:
            term = builder.fmul(factor, rows.load_at(source, at, True))
            rows.store_at(builder.fadd(rows.load_at(target, at, True), term), target, at, True)
        return context.get_dummy_value()

    return signature, codegen


@instruction
def dot_whole(typingctx, vector, at, table, row, length):
    """Return vector[at : at + length] . table[row : row + length], for whole float32 vectors.

    The bits are those of `make_dots`.
    """
    signature = types.float32(vector, types.intp, table, types.intp, types.intp)

    def codegen(context, builder, sig, args):
        rows = Long(context, builder, args[4])
        left = rows.pointer(sig.args[0], args[0], args[1])
        right = rows.pointer(sig.args[2], args[2], args[3])
        sums = cgutils.alloca_once_value(builder, ir.Constant(rows.vector, [0.0] * rows.lanes))
        with rows.each(args[4]) as at:
            x, y = rows.load_at(left, at, True), rows.load_at(right, at, True)
            builder.store(rows.multiply_add(x, y, builder.load(sums)), sums)
        (total,) = rows.totals([builder.load(sums)])
        return total

    return signature, codegen


class Long(Row):
    """Instructions on a row whose length is known when it runs."""

    def __init__(self, context, builder, length, bits=32):
        super().__init__(context, builder, lanes(bits), bits)
        self.length = length
        self.last = builder.and_(builder.sub(length, _I64(1)), _I64(-self.lanes))  # its vector
        self.mask = self.mask_at(self.last)

    def mask_at(self, at):
        """Return which numbers the row has of the vector that begins at number `at`."""
        left = self.builder.sub(self.length, at)
        numbers = ir.Constant(ir.VectorType(_I32, self.lanes), list(range(self.lanes)))
        undefined = ir.Constant(numbers.type, ir.Undefined)
        tails = self.builder.insert_element(undefined, self.builder.trunc(left, _I32), _I32(0))
        tails = self.shuffle(tails, undefined, [0] * self.lanes)
        return self.builder.icmp_signed("<", numbers, tails)

    @contextmanager
    def each(self, end):
        """Print a loop over whole vectors; yield where each begins."""
        with cgutils.for_range_slice(self.builder, _I64(0), end, _I64(self.lanes)) as (at, _):
            yield at

    def for_each(self, vector):
        """Print `vector(at, whole)` in a loop over whole vectors, and for the last one."""
        with self.each(self.last) as at:
            vector(at, True)
        vector(self.last, False)
