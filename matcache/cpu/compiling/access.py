"""Read and write elements of arrays in kernels, in few instructions.

Numba's own subscripts are general: it tries 8 kinds of containers for each, and lets an index count
from the end. In generated kernels an index is a place, and what is read has the kernel's float
type: one instruction for Numba instead of four. All kernels take an element's address from parts of
the array's record; Numba stores the record in memory for each element, and reads its parts again.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import load_item, store_item

instruction: Any = intrinsic  # callers do not pass the first parameter


@cache
def make_reads(bits: int) -> tuple[Any, Any]:
    """Make `get1(array, i)` and `get2(array, i, k)`, which return floats of `bits` bits.

    The arrays have any dtype.
    """
    number = getattr(types, f"float{bits}")

    @instruction
    def get1(typingctx, array, i):
        def codegen(context, builder, sig, args):
            return _read(context, builder, sig, args, number)

        return number(array, types.intp), codegen

    @instruction
    def get2(typingctx, array, i, k):
        def codegen(context, builder, sig, args):
            return _read(context, builder, sig, args, number)

        return number(array, types.intp, types.intp), codegen

    return get1, get2


@instruction
def place1(typingctx, array, i):
    """Return array[i], an index, as a whole number that is known not to be negative."""

    def codegen(context, builder, sig, args):
        return _read(context, builder, sig, args, types.uintp)

    return types.uintp(array, types.intp), codegen


@instruction
def put1(typingctx, array, i, x):
    """Write x to array[i]."""

    def codegen(context, builder, sig, args):
        return _write(context, builder, sig, args)

    return types.void(array, types.intp, x), codegen


@instruction
def put2(typingctx, array, i, k, x):
    """Write x to array[i, k]."""

    def codegen(context, builder, sig, args):
        return _write(context, builder, sig, args)

    return types.void(array, types.intp, types.intp, x), codegen


@instruction
def larger(typingctx, a, b):
    """Return the larger of two floats; NaN wins. LLVM makes vectors of a loop over it."""

    def codegen(context, builder, sig, args):
        kind = args[0].type
        name = f"llvm.maximum.{'f32' if isinstance(kind, ir.FloatType) else 'f64'}"
        call = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind]), name
        )
        return builder.call(call, args, fastmath=("nsz",))

    return a(a, a), codegen


@instruction
def plus(typingctx, total, number):
    """Return total + number, whose order LLVM may change in a loop."""

    def codegen(context, builder, sig, args):
        return builder.fadd(*args, flags=("contract", "reassoc", "nsz"))

    return total(total, total), codegen


def address(context, builder, kind, array, index):
    """Return a pointer to an element of an array.

    kind: the type of the array.
    array: its record, an LLVM value.
    index: places in its axes, 64-bit LLVM values.
    """
    data = part(context, builder, kind, array, "data")
    if kind.layout != "C":
        steps = cgutils.unpack_tuple(builder, part(context, builder, kind, array, "strides"))
        return cgutils.get_item_pointer2(context, builder, data, (), steps, "A", index)
    shape = part(context, builder, kind, array, "shape")
    place = index[0]
    for axis in range(1, kind.ndim):
        place = builder.add(builder.mul(place, builder.extract_value(shape, axis)), index[axis])
    return builder.gep(data, [place])


def part(context, builder, kind, array, name):
    """Return a part of an array's record: data, shape or strides."""
    model = context.data_model_manager[kind]
    return builder.extract_value(array, model.get_field_position(name))


def _read(context, builder, sig, args, number):
    array = sig.args[0]
    found = load_item(context, builder, array, address(context, builder, array, args[0], args[1:]))
    return context.cast(builder, found, array.dtype, number)


def _write(context, builder, sig, args):
    array = sig.args[0]
    at = address(context, builder, array, args[0], args[1:-1])
    number = context.cast(builder, args[-1], sig.args[-1], array.dtype)
    store_item(context, builder, array, number, at)
    return context.get_dummy_value()
