"""Print vector instructions that make uniform numbers: eight counters of Philox at a time.

The numbers of a document are few. A loop that LLVM turns into vectors leaves most of them to a loop
of single ones.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..inline.random import M0, M1, ROUNDS, W0, W1
from .vectors import declare, instruction

COUNTERS = 8  # at a time; each gives four numbers

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VL, _VB = (ir.VectorType(t, COUNTERS) for t in (_F, _I32, _I64, ir.IntType(1)))


def _every(number, kind=_VL):
    """Return a vector that repeats a constant."""
    return ir.Constant(kind, [number] * COUNTERS)


_LOW, _HALF, _ORDER = _every(2**32 - 1), _every(32), ir.Constant(_VL, list(range(COUNTERS)))


def _splat(b, x, kind=_VL):
    """Return a vector that repeats a number."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = b.insert_element(undefined, x, _I32(0))
    return b.shuffle_vector(first, undefined, ir.Constant(_VI, [0] * COUNTERS))


def _philox(b, words, keys):
    """Return the four random words of each counter, in the lower halves of 64 bits.

    Upper halves hold anything: a product reads the lower ones.
    """
    c0, c1, c2, c3 = words
    k0, k1 = keys
    for _ in range(ROUNDS):
        p0 = b.mul(b.and_(c0, _LOW), _every(int(M0)))
        p1 = b.mul(b.and_(c2, _LOW), _every(int(M1)))
        c0 = b.xor(b.xor(b.lshr(p1, _HALF), c1), _splat(b, b.zext(k0, _I64)))
        c2 = b.xor(b.xor(b.lshr(p0, _HALF), c3), _splat(b, b.zext(k1, _I64)))
        c1, c3 = p1, p0
        k0, k1 = b.add(k0, _I32(int(W0))), b.add(k1, _I32(int(W1)))
    return c0, c1, c2, c3


@instruction
def fill_uniforms(typingctx, out, start, n, sweep, row, k0, k1):
    """Fill out[start : start + n], float32: see `uniforms`.

    The last counters come first. They also write into the numbers behind those of a word, which
    belong to the first counters of the next word, and are written later.
    """
    whole, half = types.int64, types.uint32
    signature = types.void(out, whole, whole, whole, whole, half, half)

    def codegen(context, b, sig, args):
        array, start, n, sweep, row, *keys = args
        place = b.gep(context.make_array(sig.args[0])(context, b, array).data, [start])
        each = b.lshr(b.add(n, _I64(3)), _I64(2))
        groups = b.lshr(b.add(each, _I64(COUNTERS - 1)), _I64(3))
        same = [_splat(b, x) for x in (sweep, row, b.lshr(row, _I64(32)))]
        with cgutils.for_range(b, groups) as loop:
            first = b.shl(b.sub(b.sub(groups, _I64(1)), loop.index), _I64(3))
            for j, word in enumerate(_philox(b, [b.add(_splat(b, first), _ORDER), *same], keys)):
                bits = b.lshr(b.trunc(word, _VI), _every(8, _VI))
                found = b.fmul(b.sitofp(bits, _VF), _every(2.0**-24, _VF))
                at = b.add(b.mul(each, _I64(j)), first)
                _store(b, found, b.bitcast(b.gep(place, [at]), _VF.as_pointer()), b.sub(n, at))
        return context.get_dummy_value()

    return signature, codegen


def _store(b, found, place, room):
    """Store a vector, or as many of its numbers as have room."""
    with b.if_else(b.icmp_signed(">=", room, _I64(COUNTERS))) as (all_of_them, some):
        with all_of_them:
            b.store(found, place, align=4)
        with some:
            kinds = [_VF, _VF.as_pointer(), _I32, _VB]
            store = declare(b.module, "llvm.masked.store.v8f32.p0", ir.VoidType(), kinds)
            there = b.icmp_signed("<", _ORDER, _splat(b, room))
            b.call(store, [found, place, _I32(4), there])
