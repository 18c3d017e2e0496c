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

SCALES, ALPHA, PHI, SUMS, PARTS, ENDS = range(6)  # parts of a thread's scratch


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


def prefetch(b, place, cache):
    """Fetch the line at an address into a cache: 3 is the first one, 2 the second."""
    kind = ir.IntType(8).as_pointer()
    call = declare(b.module, "llvm.prefetch.p0", ir.VoidType(), [kind, _I32, _I32, _I32])
    b.call(call, [b.bitcast(place, kind), _I32(0), _I32(cache), _I32(1)])


@instruction
def fetch(typingctx, table, w, k):
    """Fetch table[w : w + k] into the second cache."""
    signature = types.void(table, types.intp, types.intp)

    def codegen(context, b, sig, args):
        row = Vectors(context, b, sig, args).pointer(0, args[1])
        with cgutils.for_range(b, b.lshr(b.add(args[2], _I64(LANES - 1)), _I64(4))) as loop:
            prefetch(b, b.gep(row, [b.shl(loop.index, _I64(4))]), 2)
        return context.get_dummy_value()

    return signature, codegen


@instruction
def fetch_line(typingctx, array, at):
    """Fetch the line of array[at] into the first cache; any place is allowed."""
    signature = types.void(array, types.intp)

    def codegen(context, b, sig, args):
        prefetch(b, Vectors(context, b, sig, args).pointer(0, args[1]), 3)
        return context.get_dummy_value()

    return signature, codegen


@instruction
def sum_word(typingctx, table, w, k, extra, own, width):
    """Make phi of a word, and sum alpha phi over all topics; return the total.

    Topic 16 v + l is in lane l of vector v; four vectors are a group.

    table, w: table[w : w + k] is the word's row; phi is (table + extra) times the scales of topics.
    own: scratch, parts of `width` numbers: see `redraw_lists`.
    """
    number = types.float32
    signature = number(table, *[types.intp] * 2, number, own, types.intp)

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        _, w, k, extra, _, width = args
        masked = declare(
            b.module, "llvm.masked.load.v16f32.p0", _VF, [_VF.as_pointer(), _I32, _VB, _VF]
        )
        fma = declare(b.module, "llvm.fma.v16f32", _VF, [_VF] * 3)
        order = ir.Constant(_VI, list(range(LANES)))
        row = vectors.pointer(0, w)
        scales, alpha, phi, out, lanes = (
            vectors.pointer(4, b.mul(width, _I64(n))) for n in (SCALES, ALPHA, PHI, SUMS, ENDS)
        )
        more, running = vectors.splat(extra), cgutils.alloca_once_value(b, _ZERO)
        last = b.lshr(b.sub(k, _I64(1)), _I64(6))  # the last group, which may not be full

        def within(v):
            """Return vector v of the row, zero behind its end."""
            left = b.trunc(b.sub(k, b.shl(v, _I64(4))), _I32)
            valid = b.icmp_signed("<", order, vectors.splat(left, _VI))
            return b.call(masked, [vectors.place(row, v), _I32(4), valid, _ZERO])

        def add(group, load):
            total = b.load(running)
            for n in range(4):
                v = b.add(b.shl(group, _I64(2)), _I64(n))
                f = b.fmul(b.fadd(load(v), more), vectors.load(scales, v))
                vectors.store(f, phi, v)
                total = b.call(fma, [f, vectors.load(alpha, v), total])
            b.store(total, running)
            vectors.store(total, out, group)
            return total

        with cgutils.for_range(b, last) as loop:
            add(loop.index, lambda v: vectors.load(row, v))
        prefix = vectors.prefix(add(last, within))
        vectors.store(prefix, lanes, _I64(0))
        return b.extract_element(prefix, _I32(LANES - 1))

    return signature, codegen


@instruction
def choose(typingctx, held, counts, at, length, z, share, rest, u, own, width):
    """Draw a topic of a list by n phi, or none by `rest`.

    Returns its place in the list or -1, what is left of the threshold, and the place of z or -1.

    held, counts: a document's list begins at `at`; behind its end, counts are 0.
    z: the token's topic, of which its own count is left out and phi is multiplied by `share`;
        negative: none.
    rest: the weight of everything else.
    u: a uniform number.
    own, width: as for `sum_word`.
    """
    number, index = types.float32, types.intp
    signature = types.Tuple((index, number, index))(
        held, counts, index, index, types.int32, number, number, number, own, index
    )

    def codegen(context, b, sig, args):
        vectors = Vectors(context, b, sig, args)
        _, _, at, length, z, share, rest, u, _, width = args
        fma = declare(b.module, "llvm.fma.v16f32", _VF, [_VF] * 3)
        topics_at, counts_at = (vectors.pointer(n, at) for n in range(2))
        phi, out = (vectors.pointer(8, b.mul(width, _I64(n))) for n in (PHI, PARTS))
        shares, topic = vectors.splat(share), vectors.splat(z, _VI)
        ones = ir.Constant(_VF, [1.0] * LANES)
        running = cgutils.alloca_once_value(b, _ZERO)
        mine = cgutils.alloca_once_value(b, _I64(-1))
        full = b.lshr(b.add(length, _I64(15)), _I64(4))
        with cgutils.for_range(b, full) as loop:
            v = loop.index
            topics = vectors.load(topics_at, v, _VI)
            n = vectors.load(counts_at, v)
            f = vectors.gather(phi, topics)
            here = b.and_(b.icmp_signed("==", topics, topic), b.fcmp_ordered(">", n, _ZERO))
            b.store(vectors.first(here, v, b.load(mine)), mine)
            n = b.select(here, b.fmul(b.fsub(n, ones), shares), n)
            total = b.call(fma, [n, f, b.load(running)])
            vectors.store(total, out, v)
            b.store(total, running)
        whole = b.load(running)
        prefix = vectors.prefix(whole)
        mass = b.extract_element(prefix, _I32(LANES - 1))
        t = b.fmul(u, b.fadd(mass, rest))
        inside = b.fcmp_ordered("<", t, mass)
        lane = vectors.count(b.fcmp_ordered("<=", prefix, vectors.splat(t)))
        lane = b.select(inside, lane, _I64(LANES - 1))
        before = b.fsub(prefix, whole)
        narrow = b.trunc(lane, _I32)
        left = b.fsub(t, b.extract_element(before, narrow))
        most = b.extract_element(whole, narrow)
        passed = cgutils.alloca_once_value(b, _I64(0))
        with cgutils.for_range(b, b.sub(full, _I64(1))) as loop:
            found = b.load(b.gep(out, [b.add(b.shl(loop.index, _I64(4)), lane)]))
            smaller = b.and_(b.fcmp_ordered("<=", found, left), b.fcmp_ordered("<", found, most))
            b.store(b.add(b.load(passed), b.zext(smaller, _I64)), passed)
        place = b.add(b.shl(b.load(passed), _I64(4)), lane)
        end = b.sub(length, _I64(1))
        place = b.select(b.icmp_signed("<", place, end), place, end)
        place = b.select(inside, place, _I64(-1))
        return context.make_tuple(b, sig.return_type, [place, b.fsub(t, mass), b.load(mine)])

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
