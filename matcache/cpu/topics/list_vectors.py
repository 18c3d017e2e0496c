"""Sum the topics of a word or of a document in vectors, and search in them."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vectors import LANES, Vectors, declare, instruction

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_ZERO = ir.Constant(_VF, [0.0] * LANES)

SCALES, ALPHA, PHI, SUMS, PARTS, ENDS = range(6)  # parts of a thread's scratch


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
