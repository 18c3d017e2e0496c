"""Vector instructions for rows of strips: see `emit/numba_wide_row_steps.py`."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types

from .long_rows import Long
from .vectors import instruction


@cache
def make_scale(bits: int) -> Any:
    """Make `scale(out, to, table, at, factor, length)`: write a multiple of a row into another row.

    out[to : to + length] = factor * table[at : at + length], with arrays as in `make_dots`.
    """

    @instruction
    def scale(typingctx, out, to, table, at, factor, length):
        number = getattr(types, f"float{bits}")
        signature = types.void(out, types.intp, table, types.intp, number, types.intp)

        def codegen(context, builder, sig, args):
            row = Long(context, builder, args[5], bits)
            target = row.pointer(sig.args[0], args[0], args[1])
            source = row.pointer(sig.args[2], args[2], args[3])
            by = row.splat(args[4])

            def scale_vector(v, whole):
                row.store_at(builder.fmul(by, row.load_at(source, v, whole)), target, v, whole)

            row.for_each(scale_vector)
            return context.get_dummy_value()

        return signature, codegen

    return scale


@cache
def make_multiply_add(count: int, bits: int) -> Any:
    """Make `multiply_add(out, table, at, factors, length)`: add multiples of neighbouring rows.

    out[n] += factors[n] * table[at + n length : at + (n + 1) length] for the first `count` rows of
    out [rows x length], as fused operations, with arrays as in `make_dots`.
    """

    @instruction
    def multiply_add(typingctx, out, table, at, factors, length):
        number = getattr(types, f"float{bits}")
        signature = types.void(out, table, types.intp, types.UniTuple(number, count), types.intp)

        def codegen(context, builder, sig, args):
            row = Long(context, builder, args[4], bits)
            for n, factor in enumerate(row.unpack(args[3], count)):
                skip = builder.mul(args[4], ir.IntType(64)(n))
                target = row.pointer(sig.args[0], args[0], skip)
                source = row.pointer(sig.args[1], args[1], builder.add(args[2], skip))
                by = row.splat(factor)

                def add_vector(v, whole, target=target, source=source, by=by):
                    x, y = row.load_at(source, v, whole), row.load_at(target, v, whole)
                    row.store_at(row.multiply_add(by, x, y), target, v, whole)

                row.for_each(add_vector)
            return context.get_dummy_value()

        return signature, codegen

    return multiply_add
