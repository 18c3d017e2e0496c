"""Vector instructions for the sampler of lists: sums of topics, and searches in them.

Vectors have 16 numbers; LLVM splits them if the machine's are shorter. So the order of sums, and
with it the bits, are the same on each machine.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .gibbs import LANES, declare

instruction: Any = intrinsic  # callers do not pass the first parameter

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_ZERO = ir.Constant(_VF, [0.0] * LANES)


class Vectors:
    """Instructions on vectors of 16 numbers, of a function with these arguments."""

    def __init__(self, context, builder, sig, args):
        self.context, self.b, self.sig, self.args = context, builder, sig, args

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

    def prefix(self, x):
        """Return sums of lanes, each of all up to it."""
        for s in (1, 2, 4, 8):
            shift = ir.Constant(_VI, [i - s if i >= s else LANES + i for i in range(LANES)])
            x = self.b.fadd(x, self.b.shuffle_vector(x, _ZERO, shift))
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


@instruction
def sum_word(typingctx, table, w, k, extra, own, weights, sums, lanes):
    """Sum alpha phi over all topics of a word; return the total.

    Topic 16 v + l is in lane l of vector v; four vectors are a group.

    table, w: table[w : w + k] is the word's row, of which phi is made by adding `extra`.
    own: scratch. own[weights : weights + k] are alpha times the scales of topics, then zeros up to
        whole groups. own[sums + 16 g + l] becomes the sum of lane l up to group g, and
        own[lanes + l] the sum of all lanes up to l.
    """
    number = types.float32
    signature = number(table, *[types.intp] * 2, number, own, *[types.intp] * 3)

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        _, w, k, extra, _, weights, sums, lanes = args
        masked = declare(
            b.module, "llvm.masked.load.v16f32.p0", _VF, [_VF.as_pointer(), _I32, _VB, _VF]
        )
        fma = declare(b.module, "llvm.fma.v16f32", _VF, [_VF] * 3)
        order = ir.Constant(_VI, list(range(LANES)))
        row, at, out = vectors.pointer(0, w), vectors.pointer(4, weights), vectors.pointer(4, sums)
        more, running = vectors.splat(extra), cgutils.alloca_once_value(b, _ZERO)
        last = b.lshr(b.sub(k, _I64(1)), _I64(6))  # the last group, which may not be full

        def within(v):
            """Return vector v of the row, zero behind its end."""
            left = b.trunc(b.sub(k, b.shl(v, _I64(4))), _I32)
            valid = b.icmp_signed("<", order, vectors.splat(left, _VI))
            return b.call(masked, [vectors.place(row, v), _I32(4), valid, _ZERO])

        def add(group, load):
            found = []
            for n in range(4):
                v = b.add(b.shl(group, _I64(2)), _I64(n))
                found.append((b.fadd(load(v), more), vectors.load(at, v)))
            halves = [b.call(fma, [*found[n], b.fmul(*found[n + 1])]) for n in (0, 2)]
            total = b.fadd(b.load(running), b.fadd(*halves))
            b.store(total, running)
            vectors.store(total, out, group)
            return total

        with cgutils.for_range(b, last) as loop:
            add(loop.index, lambda v: vectors.load(row, v))
        prefix = vectors.prefix(add(last, within))
        vectors.store(prefix, vectors.pointer(4, lanes), _I64(0))
        return b.extract_element(prefix, _I32(LANES - 1))

    return signature, codegen


@instruction
def weigh(typingctx, held, counts, factors, at, length, table, w, extra, z, share, own, parts):
    """Set own[parts + i] to the sum of n phi over the topics up to i of a list.

    Returns the whole sum, and the place of z in the list; -1: it is not there.

    held, counts, factors: a document's list begins at `at`; where a count is 0, the topic is valid.
    table, w, extra: as for `sum_word`.
    z: the token's topic, of which its own count is left out and phi is multiplied by `share`;
        negative: none.
    """
    number, index = types.float32, types.intp
    signature = types.Tuple((number, index))(
        held, counts, factors, index, index, table, index, number, types.int32, number, own, index
    )

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        at, length, w, extra, z, share, parts = (args[n] for n in (3, 4, 6, 7, 8, 9, 11))
        lists = [vectors.pointer(n, at) for n in range(3)]
        row, out = vectors.pointer(5, w), vectors.pointer(10, parts)
        more, shares, topic = vectors.splat(extra), vectors.splat(share), vectors.splat(z, _VI)
        ones = ir.Constant(_VF, [1.0] * LANES)
        mass = cgutils.alloca_once_value(b, _F(0.0))
        mine = cgutils.alloca_once_value(b, _I64(-1))
        with cgutils.for_range(b, b.lshr(b.add(length, _I64(15)), _I64(4))) as loop:
            v = loop.index
            topics = vectors.load(lists[0], v, _VI)
            n, scales = (vectors.load(pointer, v) for pointer in lists[1:])
            f = ir.Constant(_VF, ir.Undefined)
            for lane in map(_I32, range(LANES)):
                column = b.zext(b.extract_element(topics, lane), _I64)
                f = b.insert_element(f, b.load(b.gep(row, [column])), lane)
            here = b.and_(b.icmp_signed("==", topics, topic), b.fcmp_ordered(">", n, _ZERO))
            b.store(vectors.first(here, v, b.load(mine)), mine)
            n = b.select(here, b.fmul(b.fsub(n, ones), shares), n)
            part = vectors.prefix(b.fmul(b.fmul(n, scales), b.fadd(f, more)))
            part = b.fadd(part, vectors.splat(b.load(mass)))
            vectors.store(part, out, v)
            b.store(b.extract_element(part, _I32(LANES - 1)), mass)
        return context.make_tuple(b, sig.return_type, [b.load(mass), b.load(mine)])

    return signature, codegen


@instruction
def count_up_to(typingctx, own, at, length, t):
    """Return how many of own[at : at + length] are t or less; numbers ascend, also behind them."""
    signature = types.intp(own, types.intp, types.intp, types.float32)

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        _, at, length, t = args
        found = cgutils.alloca_once_value(b, _I64(0))
        first, most = vectors.pointer(0, at), vectors.splat(t)
        with cgutils.for_range(b, b.lshr(b.add(length, _I64(15)), _I64(4))) as loop:
            flags = b.fcmp_ordered("<=", vectors.load(first, loop.index), most)
            b.store(b.add(b.load(found), vectors.count(flags)), found)
        return b.load(found)

    return signature, codegen


@instruction
def find(typingctx, held, counts, at, length, topic):
    """Return the place of a topic in the list that begins at `at`, or `length`."""
    signature = types.intp(held, counts, types.intp, types.intp, types.int32)

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        _, _, at, length, topic = args
        found = cgutils.alloca_once_value(b, length)
        topics, counts = vectors.pointer(0, at), vectors.pointer(1, at)
        wanted = vectors.splat(topic, _VI)
        with cgutils.for_range(b, b.lshr(b.add(length, _I64(15)), _I64(4))) as loop:
            same = b.icmp_signed("==", vectors.load(topics, loop.index, _VI), wanted)
            flags = b.and_(same, b.fcmp_ordered(">", vectors.load(counts, loop.index), _ZERO))
            b.store(vectors.first(flags, loop.index, b.load(found)), found)
        return b.load(found)

    return signature, codegen
