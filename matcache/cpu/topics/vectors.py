"""Print vector instructions, which the samplers of topics share.

Vectors have 16 numbers; LLVM splits them if the machine's are shorter. So the order of sums, and
with it the bits, are the same on each machine.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

instruction: Any = intrinsic  # callers do not pass the first parameter

LANES = 16

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_ZERO = ir.Constant(_VF, [0.0] * LANES)


def padded(k: int) -> int:
    """Return k rounded up to whole vectors."""
    return -(-k // LANES) * LANES


@cache
def has_wide_vectors() -> bool:
    """Return whether a register of the processor that code is made for holds 16 numbers."""
    return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2]


def declare(module, name, result, args):
    """Return the declaration of an LLVM function in a module."""
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, args), name)


class Places(ir.Instruction):  # type: ignore[misc]
    """The addresses of 16 elements behind a pointer: LLVM's getelementptr of a vector."""

    def __init__(self, parent, pointer, columns):
        self.element = pointer.type.pointee
        kind = ir.VectorType(pointer.type, LANES)
        super().__init__(parent, kind, "getelementptr", [pointer, columns])

    def descr(self, buf):
        """Write the instruction."""
        listed = ", ".join(f"{x.type} {x.get_reference()}" for x in self.operands)
        buf.append(f"getelementptr {self.element}, {listed}\n")


class Vectors:
    """Instructions on vectors of 16 numbers, of a function with these arguments."""

    def __init__(self, context, builder, sig, args):
        self.context, self.b, self.sig, self.args = context, builder, sig, args
        self.wide, self.zeros = has_wide_vectors(), _ZERO
        if self.wide:
            # LLVM must not know these zeros: it would shift lanes by an instruction twice as slow.
            same = ir.InlineAsm(ir.FunctionType(_I32, [_I32]), "", "=r,0")
            self.zeros = self.splat(builder.bitcast(builder.call(same, [_I32(0)]), _F))

    def pointer(self, number, offset):
        """Return the address of an element of an argument that is an array."""
        array = self.context.make_array(self.sig.args[number])
        return self.b.gep(array(self.context, self.b, self.args[number]).data, [offset])

    def place(self, pointer, v, ty=_VF):
        """Return the address of vector v of those that begin at `pointer`."""
        return self.b.bitcast(self.b.gep(pointer, [self.b.shl(v, _I64(4))]), ty.as_pointer())

    def load(self, pointer, v, ty=_VF):
        """Return vector v of those that begin at `pointer`."""
        return self.b.load(self.place(pointer, v, ty), align=4)

    def store(self, x, pointer, v):
        """Store vector v of those that begin at `pointer`."""
        self.b.store(x, self.place(pointer, v), align=4)

    def splat(self, x, ty=_VF):
        """Return a vector that repeats a number."""
        undefined = ir.Constant(ty, ir.Undefined)
        first = self.b.insert_element(undefined, x, _I32(0))
        return self.b.shuffle_vector(first, undefined, ir.Constant(_VI, [0] * LANES))

    def gather(self, pointer, columns):
        """Return the numbers at these places behind `pointer`."""
        gather = declare(
            self.b.module,
            "llvm.masked.gather.v16f32.v16p0",
            _VF,
            [ir.VectorType(pointer.type, LANES), _I32, _VB, _VF],
        )
        places = Places(self.b.block, pointer, columns)
        self.b._insert(places)
        every = ir.Constant(_VB, [True] * LANES)
        return self.b.call(gather, [places, _I32(4), every, _ZERO])

    def shifted(self, x, by):
        """Return x with each lane moved up by so many, behind zeros."""
        order = [i - by if i >= by else LANES + i for i in range(LANES)]
        return self.b.shuffle_vector(x, self.zeros, ir.Constant(_VI, order))

    def prefix(self, x):
        """Return sums of lanes, each of all up to it."""
        for by in (1, 2, 4, 8):
            x = self.b.fadd(x, self.shifted(x, by))
        return x

    def bits(self, flags):
        """Return a vector of flags as the bits of a number."""
        return self.b.zext(self.b.bitcast(flags, ir.IntType(LANES)), _I32)

    def first(self, flags, v, otherwise):
        """Return the number of the first lane of vector v whose flag is set, if there is one."""
        cttz = declare(self.b.module, "llvm.cttz.i32", _I32, [_I32, ir.IntType(1)])
        bits = self.bits(flags)
        lane = self.b.zext(self.b.call(cttz, [bits, ir.IntType(1)(0)]), _I64)
        none = self.b.icmp_signed("==", bits, _I32(0))
        return self.b.select(none, otherwise, self.b.add(self.b.shl(v, _I64(4)), lane))

    def count(self, flags):
        """Return how many flags of a vector are set."""
        ctpop = declare(self.b.module, "llvm.ctpop.i32", _I32, [_I32])
        return self.b.zext(self.b.call(ctpop, [self.bits(flags)]), _I64)


def prefetch(b, place, cache):
    """Fetch the line at an address into a cache: 3 is the first one, 2 the second."""
    kind = ir.IntType(8).as_pointer()
    call = declare(b.module, "llvm.prefetch.p0", ir.VoidType(), [kind, _I32, _I32, _I32])
    b.call(call, [b.bitcast(place, kind), _I32(0), _I32(cache), _I32(1)])


def _make_fetch(cache):
    """Make the instruction that fetches table[w : w + k] into a cache: see `prefetch`."""

    @instruction
    def fetch(typingctx, table, w, k):
        signature = types.void(table, types.intp, types.intp)

        def codegen(context, b, sig, args):
            row = Vectors(context, b, sig, args).pointer(0, args[1])
            with cgutils.for_range(b, b.lshr(b.add(args[2], _I64(LANES - 1)), _I64(4))) as loop:
                prefetch(b, b.gep(row, [b.shl(loop.index, _I64(4))]), cache)
            return context.get_dummy_value()

        return signature, codegen

    return fetch


fetch_first, fetch_second = _make_fetch(3), _make_fetch(2)


@instruction
def fetch_line(typingctx, array, at):
    """Fetch the line of array[at] into the first cache; any place is allowed."""
    signature = types.void(array, types.intp)

    def codegen(context, b, sig, args):
        prefetch(b, Vectors(context, b, sig, args).pointer(0, args[1]), 3)
        return context.get_dummy_value()

    return signature, codegen


@instruction
def address_of(typingctx, array, at):
    """Return the address of array[at]."""

    def codegen(context, b, sig, args):
        data = context.make_array(sig.args[0])(context, b, args[0]).data
        return b.ptrtoint(b.gep(data, [args[1]]), _I64)

    return types.int64(array, types.int64), codegen
