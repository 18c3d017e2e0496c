"""Vector instructions for rows whose length is known when a kernel runs.

One compilation serves all lengths; `vectors.py` has those for rows of known length. Numbers are
float32.
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
def make_add_rows(count: int, vectors: int = 0) -> Any:
    """Make `add(out, at, table, rows, weights, length)`: `make_add` for rows of any length.

    vectors: how many the rows have, the last one included that may be shorter; 0: any number.

    out has room for whole vectors, whose last numbers do not matter. Numbers are float32. The bits
    are those of `make_add`.
    """

    @instruction
    def add(typingctx, out, at, table, rows, weights, length):
        signature = types.void(
            out,
            types.intp,
            table,
            types.UniTuple(types.intp, count),
            types.UniTuple(types.float32, count),
            types.intp,
        )

        def codegen(context, builder, sig, args):
            row = _Long(context, builder, args[5])
            target = row.pointer(sig.args[0], args[0], args[1])
            sources = [row.pointer(sig.args[2], args[2], r) for r in row.unpack(args[3], count)]
            factors = [row.splat(w) for w in row.unpack(args[4], count)]

            def add_vector(v, load):
                total: Any = None
                for pointer, factor in zip(sources, factors, strict=True):
                    term = builder.fmul(factor, load(pointer, v))
                    total = term if total is None else builder.fadd(total, term)
                row.put(builder.fadd(row.whole(target, v), total), target, v)

            for v in range(vectors - 1):
                add_vector(_I64(v * row.lanes), row.whole)
            if vectors:
                add_vector(_I64((vectors - 1) * row.lanes), row.partly)
                return context.get_dummy_value()
            with row.each(row.last) as at:
                add_vector(at, row.whole)
            add_vector(row.last, row.partly)
            return context.get_dummy_value()

        return signature, codegen

    return add


@instruction
def add_whole(typingctx, out, at, row, weight, length):
    """Add out[at : at + length] += weight * out[row : row + length], for whole float32 vectors."""
    signature = types.void(out, types.intp, types.intp, types.float32, types.intp)

    def codegen(context, builder, sig, args):
        rows = _Long(context, builder, args[4])
        target, source = (rows.pointer(sig.args[0], args[0], place) for place in args[1:3])
        factor = rows.splat(args[3])
        with rows.each(args[4]) as at:
            term = builder.fmul(factor, rows.whole(source, at))
            rows.put(builder.fadd(rows.whole(target, at), term), target, at)
        return context.get_dummy_value()

    return signature, codegen


@instruction
def dot_whole(typingctx, vector, at, table, row, length):
    """Return vector[at : at + length] . table[row : row + length], for whole float32 vectors.

    The bits are those of `make_dots`.
    """
    signature = types.float32(vector, types.intp, table, types.intp, types.intp)

    def codegen(context, builder, sig, args):
        rows = _Long(context, builder, args[4])
        left = rows.pointer(sig.args[0], args[0], args[1])
        right = rows.pointer(sig.args[2], args[2], args[3])
        sums = cgutils.alloca_once_value(builder, ir.Constant(rows.vector, [0.0] * rows.lanes))
        with rows.each(args[4]) as at:
            x, y = rows.whole(left, at), rows.whole(right, at)
            builder.store(rows.multiply_add(x, y, builder.load(sums)), sums)
        (total,) = rows.totals([builder.load(sums)])
        return total

    return signature, codegen


class _Long(Row):
    """Instructions on a row of float32 numbers whose length is known when it runs."""

    def __init__(self, context, builder, length):
        super().__init__(context, builder, lanes(32), 32)
        self.last = builder.and_(builder.sub(length, _I64(1)), _I64(-self.lanes))  # its vector
        tail = builder.sub(length, self.last)
        numbers = ir.Constant(ir.VectorType(_I32, self.lanes), list(range(self.lanes)))
        undefined = ir.Constant(numbers.type, ir.Undefined)
        tails = builder.insert_element(undefined, builder.trunc(tail, _I32), _I32(0))
        tails = self.shuffle(tails, undefined, [0] * self.lanes)
        self.mask = builder.icmp_signed("<", numbers, tails)

    @contextmanager
    def each(self, end):
        """Print a loop over whole vectors; yield where each begins."""
        with cgutils.for_range_slice(self.builder, _I64(0), end, _I64(self.lanes)) as (at, _):
            yield at

    def whole(self, place, v):
        """Return the whole vector of a row that begins at v."""
        return self.builder.load(self._at(place[0], v, self.vector), align=4)

    def partly(self, place, v):
        """Return the numbers of the vector at v that belong to the row, and zeros."""
        arguments = [self.vector.as_pointer(), _I32, self.mask.type, self.vector]
        function = self._declare(f"llvm.masked.load.v{self.lanes}f32.p0", self.vector, arguments)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        at = self._at(place[0], v, self.vector)
        return self.builder.call(function, [at, _I32(4), self.mask, zero])

    def put(self, x, place, v):
        """Store the whole vector of a row that begins at v."""
        self.builder.store(x, self._at(place[0], v, self.vector), align=4)

    def _at(self, pointer, v, vector):
        moved = self.builder.gep(pointer, [v])
        return self.builder.bitcast(moved, vector.as_pointer())
