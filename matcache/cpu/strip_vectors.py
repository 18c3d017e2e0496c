"""Vector instructions for rows of strips: see `emit/numba_wide_row_steps.py`."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types

from .vectors import Row, instruction


@cache
def make_scale(length: int, bits: int) -> Any:
    """Make `scale(out, to, table, at, factor)`: write a multiple of a row into another row.

    out[to : to + length] = factor * table[at : at + length], with arrays as in `make_dots`.
    """

    @instruction
    def scale(typingctx, out, to, table, at, factor):
        number = getattr(types, f"float{bits}")
        signature = types.void(out, types.intp, table, types.intp, number)

        def codegen(context, builder, sig, args):
            row = Row(context, builder, length, bits)
            target = row.pointer(sig.args[0], args[0], args[1])
            source = row.pointer(sig.args[2], args[2], args[3])
            by = row.splat(args[4])
            for v in range(row.vectors):
                row.store(builder.fmul(by, row.load(source, v)), target, v)
            return context.get_dummy_value()

        return signature, codegen

    return scale


@cache
def make_multiply_add(length: int, count: int, bits: int) -> Any:
    """Make `multiply_add(out, table, at, factors)`: add multiples of neighbouring rows to rows.

    out[n] += factors[n] * table[at + n length : at + (n + 1) length] for the first `count` rows of
    out [rows x length], as fused operations, with arrays as in `make_dots`.
    """

    @instruction
    def multiply_add(typingctx, out, table, at, factors):
        number = getattr(types, f"float{bits}")
        signature = types.void(out, table, types.intp, types.UniTuple(number, count))

        def codegen(context, builder, sig, args):
            row = Row(context, builder, length, bits)
            for n, factor in enumerate(row.unpack(args[3], count)):
                skip = ir.IntType(64)(n * length)
                target = row.pointer(sig.args[0], args[0], skip)
                source = row.pointer(sig.args[1], args[1], builder.add(args[2], skip))
                by = row.splat(factor)
                for v in range(row.vectors):
                    total = row.multiply_add(by, row.load(source, v), row.load(target, v))
                    row.store(total, target, v)
            return context.get_dummy_value()

        return signature, codegen

    return multiply_add
