"""Draw a topic of a token in vectors: all topics are weighed."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vectors import LANES, declare, instruction

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))


@instruction
def sample(typingctx, n, at, phi, w, u, old, weight, sums, k):
    """Draw the topic of a token anew, and return it.

    n: n[at : at + padded(k)] are the row's topic counts plus alpha, zero in the padding.
    phi: the table of k topics.
    w: offset of the word's row in phi.
    u: a uniform random number.
    old: present topic, from which `weight` is removed; negative: none.
    sums: n[sums : sums + padded(k)] is scratch.

    It draws a topic with probability proportional to n[topic] * phi[w + topic], adds `weight` to it
    and returns it. The topic is in [0, k) for any input, NaN included.

    Topic 16 v + l lies in lane l of vector v. Each lane keeps running sums over v. A prefix sum
    over the 16 lane totals finds the lane. Then the running sums of all lanes are compared with the
    rest of the threshold; the lane's count of smaller sums is v. Sampling does not depend on the
    order of topics, so nothing is transposed. Counts are updated as whole vectors: a 4-byte store
    followed by a 64-byte load would wait for the store buffer.
    """
    signature = types.int32(
        n,
        types.intp,
        phi,
        types.intp,
        types.float32,
        types.int32,
        types.float32,
        types.intp,
        types.intp,
    )

    def codegen(context, b, sig, args):
        n, at, phi, w, u, old, weight, sums, k = args
        const = ir.Constant
        zero, izero = const(_VF, [0.0] * LANES), const(_VI, [0] * LANES)
        lanes = const(_VI, list(range(LANES)))

        def pointer(arg, array, offset):
            return b.gep(context.make_array(sig.args[arg])(context, b, array).data, [offset])

        def vector(p, v):
            return b.bitcast(b.gep(p, [b.shl(v, _I64(4))]), _VF.as_pointer())

        def splat(x, ty):
            undef = const(ty, ir.Undefined)
            return b.shuffle_vector(b.insert_element(undef, x, _I32(0)), undef, izero)

        def changed(x, topics, topic, change):
            """Return counts x, where that of one topic has changed by the weight."""
            here = b.icmp_signed("==", topics, splat(topic, _VI))
            return b.select(here, change(x, splat(weight, _VF)), x)

        def numbers(v):
            """Return the topics in vector v."""
            return b.add(splat(b.shl(b.trunc(v, _I32), _I32(4)), _VI), lanes)

        def change(topic, v, operation):
            """Change the count of a topic, which is in vector v."""
            place = vector(pn, v)
            x = changed(b.load(place, align=4), numbers(v), topic, operation)
            b.store(x, place, align=4)

        fma = declare(b.module, "llvm.fma.v16f32", _VF, [_VF] * 3)
        ctpop = declare(b.module, "llvm.ctpop.i32", _I32, [_I32])
        masked = declare(
            b.module, "llvm.masked.load.v16f32.p0", _VF, [_VF.as_pointer(), _I32, _VB, _VF]
        )
        pn, pf, ps = pointer(0, n, at), pointer(2, phi, w), pointer(0, n, sums)
        last = b.lshr(b.sub(k, _I64(1)), _I64(4))
        tail = b.trunc(b.sub(k, b.shl(last, _I64(4))), _I32)  # topics in the last vector
        valid = b.icmp_signed("<", lanes, splat(tail, _VI))
        total = cgutils.alloca_once_value(b, zero)
        with cgutils.for_range(b, last) as loop:
            x, f = (b.load(vector(p, loop.index), align=4) for p in (pn, pf))
            x = changed(x, numbers(loop.index), old, b.fsub)
            running = b.call(fma, [x, f, b.load(total)])
            b.store(running, total)
            b.store(running, vector(ps, loop.index), align=4)
        f = b.call(masked, [vector(pf, last), _I32(4), valid, zero])
        x = changed(b.load(vector(pn, last), align=4), numbers(last), old, b.fsub)
        prefix = b.call(fma, [x, f, b.load(total)])
        none = b.icmp_signed("<", old, _I32(0))
        change(old, b.zext(b.lshr(b.select(none, _I32(0), old), _I32(4)), _I64), b.fsub)
        for s in (1, 2, 4, 8):
            shift = const(_VI, [i - s if i >= s else LANES + i for i in range(LANES)])
            prefix = b.fadd(prefix, b.shuffle_vector(prefix, zero, shift))
        before = b.shuffle_vector(prefix, zero, const(_VI, [LANES, *range(LANES - 1)]))
        t = splat(b.fmul(u, b.extract_element(prefix, _I32(LANES - 1))), _VF)
        bits = b.zext(b.bitcast(b.fcmp_ordered("<=", prefix, t), ir.IntType(LANES)), _I32)
        few = b.icmp_signed("<", k, _I64(LANES))
        lanes_before = b.sub(b.select(few, b.trunc(k, _I32), _I32(LANES)), _I32(1))
        allowed = b.sub(b.shl(_I32(1), lanes_before), _I32(1))
        lane = b.call(ctpop, [b.and_(bits, allowed)])
        left = b.fsub(t, before)
        passed = cgutils.alloca_once_value(b, izero)
        with cgutils.for_range(b, last) as loop:
            smaller = b.fcmp_ordered("<=", b.load(vector(ps, loop.index), align=4), left)
            b.store(b.sub(b.load(passed), b.sext(smaller, _VI)), passed)
        v = b.extract_element(b.load(passed), lane)
        most = b.trunc(last, _I32)  # never into the padding
        most = b.sub(most, b.zext(b.icmp_signed(">=", lane, tail), _I32))
        v = b.select(b.icmp_signed(">", v, most), most, v)
        topic = b.add(b.shl(v, _I32(4)), lane)
        change(topic, b.zext(v, _I64), b.fadd)
        return topic

    return signature, codegen
