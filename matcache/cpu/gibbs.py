"""Collapsed Gibbs sampling of topics on the CPU, with a fixed table of topics.

Mimno, Hoffman, Blei (ICML 2012), section 3. A row depends only on its own data, its own key and the
table. An entry of weight x counts as min(ceil(x), CAP) particles of equal weight, each with a
topic.

Longer than 300 lines: the sampler is one kernel, with its instructions for vectors.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ..operations.sampling import CAP
from .random import philox

GROUP = 4  # rows sampled together: 34 ns per token alone, 19 with 4, since their chains overlap
LANES = 16  # LLVM splits the vectors if the machine's are shorter

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_f, _i32, _u32, _u64 = np.float32, np.int32, np.uint32, np.uint64


def padded(k: int) -> int:
    """Return k rounded up to whole vectors."""
    return -(-k // LANES) * LANES


def make_sample_token(k: int) -> Any:
    """Make the sampling step as one sequence of instructions.

    Returns `topic = sample(n, at, phi, w, u, old, weight)`.

    n: n[at : at + padded(k)] are the row's topic counts plus alpha, zero in the padding.
    phi: the flattened table.
    w: offset of the word's row in phi.
    u: a uniform random number.
    old: present topic, from which `weight` is removed; negative: none.

    It draws a topic with probability proportional to n[topic] * phi[w + topic], adds `weight` to it
    and returns it. The topic is in [0, k) for any input, NaN included.

    Topic 16 v + l lies in lane l of vector v. Each lane keeps running sums over v. A prefix sum
    over the 16 lane totals finds the lane. Then the running sums of all lanes are compared with the
    rest of the threshold; the lane's count of smaller sums is v. Sampling does not depend on the
    order of topics, so nothing is transposed. Counts are updated as whole vectors: a 4-byte store
    followed by a 64-byte load would wait for the store buffer.
    """
    vectors, tail = padded(k) // LANES, k - (padded(k) - LANES)

    @intrinsic
    def sample(typingctx, n, at, phi, w, u, old, weight):
        signature = types.int32(
            n, types.intp, phi, types.intp, types.float32, types.int32, types.float32
        )

        def codegen(context, b, sig, args):
            n, at, phi, w, u, old, weight = args
            module, const = b.module, ir.Constant
            fma = _declare(module, "llvm.fma.v16f32", _VF, [_VF] * 3)
            ctpop = _declare(module, "llvm.ctpop.i32", _I32, [_I32])
            masked = _declare(
                module, "llvm.masked.load.v16f32.p0", _VF, [_VF.as_pointer(), _I32, _VB, _VF]
            )
            zero, izero = const(_VF, [0.0] * LANES), const(_VI, [0] * LANES)
            valid = const(_VB, [int(i < tail) for i in range(LANES)])

            def pointer(arg, array, offset):
                return b.gep(context.make_array(sig.args[arg])(context, b, array).data, [offset])

            def vec(p, v):
                return b.bitcast(b.gep(p, [_I64(v * LANES)]), _VF.as_pointer())

            def splat(x, ty):
                undef = const(ty, ir.Undefined)
                return b.shuffle_vector(b.insert_element(undef, x, _I32(0)), undef, izero)

            def topics(v):
                return const(_VI, list(range(v * LANES, (v + 1) * LANES)))

            pn, pf = pointer(0, n, at), pointer(2, phi, w)
            olds, weights = splat(old, _VI), splat(weight, _VF)
            counts: list[Any] = []
            sums: list[Any] = []
            for v in range(vectors):
                x = b.load(vec(pn, v), align=4)
                x = b.select(b.icmp_signed("==", olds, topics(v)), b.fsub(x, weights), x)
                counts.append(x)
                if v < vectors - 1 or tail == LANES:
                    f = b.load(vec(pf, v), align=4)
                else:
                    f = b.call(masked, [vec(pf, v), _I32(4), valid, zero])
                sums.append(b.fmul(x, f) if v == 0 else b.call(fma, [x, f, sums[-1]]))
            prefix = sums[-1]
            for s in (1, 2, 4, 8):
                shift = const(_VI, [i - s if i >= s else LANES + i for i in range(LANES)])
                prefix = b.fadd(prefix, b.shuffle_vector(prefix, zero, shift))
            before = b.shuffle_vector(prefix, zero, const(_VI, [LANES, *range(LANES - 1)]))
            t = splat(b.fmul(u, b.extract_element(prefix, _I32(LANES - 1))), _VF)
            bits = b.zext(b.bitcast(b.fcmp_ordered("<=", prefix, t), ir.IntType(LANES)), _I32)
            lane = b.call(ctpop, [b.and_(bits, _I32((1 << min(k, LANES) - 1) - 1))])
            left = b.fsub(t, before)
            passed = [izero, izero]
            for v in range(vectors - 1):
                m = b.fcmp_ordered("<=", sums[v], left)
                if v == vectors - 2 and tail < LANES:  # never step into the padding
                    m = b.and_(m, valid)
                passed[v & 1] = b.sub(passed[v & 1], b.sext(m, _VI))
            found = b.add(b.mul(b.add(*passed), const(_VI, [LANES] * LANES)), topics(0))
            topic = b.extract_element(found, lane)
            new = splat(topic, _VI)
            for v in range(vectors):
                x = b.select(
                    b.icmp_signed("==", new, topics(v)), b.fadd(counts[v], weights), counts[v]
                )
                b.store(x, vec(pn, v), align=4)
            return topic

        return signature, codegen

    return sample


def _declare(module, name, result, args):
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, args), name)


_plain = njit(nogil=True, error_model="numpy")


@_plain
def particles(x):
    """Return how many equal particles an entry of weight x has; 0 if x <= 0 or NaN."""
    return min(np.int64(math.ceil(x)), np.int64(CAP)) if x > 0 else np.int64(0)


@_plain
def grid_of(total):
    """Return 2^(floor(log2 total) - 22).

    float32 sums of its multiples are exact up to 2 * total.
    """
    return _f(2.0 ** (math.floor(math.log2(max(total, _f(1e-30)))) - 22))


@_plain
def uniforms(out, start, n, sweep, row, key):
    """Fill out[start : start + n] with uniform numbers in [0, 1).

    key: int64 [1 x 3], of which only seed and pass are used.

    They depend on (seed, pass, row, sweep). Number j is word j // q of counter (j % q, sweep, row),
    q = ceil(n / 4), so that the loop runs in vectors.
    """
    q = (n + 3) >> 2
    seed = _u64(key[0, 0])
    k0 = _u32(seed & _u64(0xFFFFFFFF)) ^ _u32(0x47494242)  # a separate stream
    k1 = _u32(seed >> _u64(32)) ^ _u32(key[0, 1] * 0x9E3779B1)
    r0, r1 = _u32(row), _u32(row >> 32)
    scale = _f(2.0**-24)
    full = max(n - 3 * q, 0)
    for i in range(full):
        a, b, c, d = philox(_u32(i), _u32(sweep), r0, r1, k0, k1)
        out[start + i] = _f(_i32(a >> _u32(8))) * scale
        out[start + q + i] = _f(_i32(b >> _u32(8))) * scale
        out[start + 2 * q + i] = _f(_i32(c >> _u32(8))) * scale
        out[start + 3 * q + i] = _f(_i32(d >> _u32(8))) * scale
    for i in range(full, q):
        words = philox(_u32(i), _u32(sweep), r0, r1, k0, k1)
        for j in range(4):
            if j * q + i < n:
                out[start + j * q + i] = _f(_i32(words[j] >> _u32(8))) * scale


@njit(nogil=True, cache=True, error_model="numpy")
def count_particles(indptr, rows, values, first):
    """Set first[i] to the number of entry i's first particle, counting all in order."""
    total = np.int64(0)
    for i in range(indptr[0], indptr[rows]):
        first[i] = total
        total += particles(values[i])


@njit(nogil=True, cache=True, error_model="numpy")
def topic_counts(chunk, thread, bounds, active, starts, t_pos, values, first, z, out):
    """Compute out[c] = column c's particle weights by topic, averaged over sweeps.

    z: uint16 [saved sweeps x particles].
    out: float32 [columns x k].

    Particles are added in row order. Rows of absent columns are zeroed by the chunk that reaches
    them.
    """
    k, sweeps = out.shape[1], z.shape[0]
    begin = 0 if bounds[chunk] == 0 else active[bounds[chunk] - 1] + 1
    for a in range(bounds[chunk], bounds[chunk + 1]):
        column = active[a]
        for c in range(begin, column + 1):
            for j in range(k):
                out[c, j] = 0
        begin = column + 1
        for e in range(starts[a], starts[a + 1]):
            i = t_pos[e]
            count = particles(values[i])
            if count > 0:
                weight = values[i] / _f(count * sweeps)
                for s in range(sweeps):
                    for p in range(first[i], first[i] + count):
                        out[column, z[s, p]] += weight
    if chunk == bounds.size - 2:
        for c in range(begin, out.shape[0]):
            for j in range(k):
                out[c, j] = 0


def gibbs_source(k: int) -> str:
    """Return the source of the sampler for k topics.

    phi: float32 [columns x k], positive, up to a factor per column.
    alpha: [1 x k].
    first: from `count_particles`.
    z: uint16 [saved sweeps x particles], the topics after each saved sweep.
    counts: scratch [threads x 4 padded(k)].
    u, weights: scratch float32, one per particle of the block.
    words, topics: scratch int64 and int32, one per particle of the block.

    Its `run` takes: chunk, thread, bounds, indptr, indices, values, first, row_ids, key, phi,
    alpha, burn, z, counts, u, weights, words, topics.

    The first sweep draws each particle given those before it. alpha and weights are rounded to a
    grid of 2^-22 of the row's total. float32 sums on this grid are exact, so they do not drift.
    """
    kp, group = padded(k), GROUP
    lines = [
        "def run(chunk, thread, bounds, indptr, indices, values, first, row_ids, key, phi, alpha,",
        "        burn, z, counts, u, weights, words, topics):",
        "    table = phi.reshape(-1)",
        "    n = counts[thread]",
        "    save = z.shape[0]",
        "    end = bounds[chunk + 1]",
        f"    for r in range(bounds[chunk], end, {group}):",
    ]
    rows = [f"{s}" for s in range(group)]
    for s in rows:  # a row beyond the chunk has no particles
        lines += [f"        p{s} = np.int64(0)", f"        size{s} = np.int64(0)"]
        lines += [f"        if r + {s} < end:"]
        lines += [f"            p{s}, size{s} = prepare(r + {s}, {s} * {kp}, n, indptr, indices,"]
        lines += ["                values, first, alpha, weights, words, topics)"]
    lines += [
        "        shortest = "
        + "min(" * (group - 1)
        + "size0, "
        + "), ".join(f"size{s}" for s in rows[1:])
        + ")"
    ]
    lines += ["        for sweep in range(burn + save):"]
    for s in rows:
        lines += [f"            if size{s} > 0:"]
        lines += [f"                uniforms(u, p{s}, size{s}, sweep, row_ids[r + {s}, 0], key)"]
    lines += ["            for i in range(shortest):"]
    for s in rows:
        lines += [
            f"                t{s} = sample(n, {int(s) * kp}, table, words[p{s} + i], u[p{s} + i],",
            f"                    topics[p{s} + i], weights[p{s} + i])",
        ]
    lines += [f"                topics[p{s} + i] = t{s}" for s in rows]
    for s in rows:
        lines += [
            f"            for i in range(p{s} + shortest, p{s} + size{s}):",
            f"                topics[i] = sample(n, {int(s) * kp}, table, words[i], u[i],",
            "                    topics[i], weights[i])",
        ]
    lines += ["            if sweep >= burn:"]
    for s in rows:
        lines += [
            f"                for i in range(p{s}, p{s} + size{s}):",
            "                    z[sweep - burn, i] = topics[i]",
        ]
    prepare = _PREPARE.format(k=k, kp=kp)
    return _HEAD.format(k=k) + prepare + "\n\n" + _JIT + "\n".join(lines) + "\n"


_JIT = '@njit(nogil=True, cache=True, error_model="numpy")\n'
_HEAD = """\
import numpy as np
from numba import njit
from blocklearn.matcache.cpu.gibbs import grid_of, make_sample_token, particles, uniforms

F = np.float32
sample = make_sample_token({k})


@njit(nogil=True, error_model="numpy")
"""
_PREPARE = """\
def prepare(d, at, n, indptr, indices, values, first, alpha, weights, words, topics):
    total = F(0)
    for k in range({k}):
        total += alpha[0, k]
    size = np.int64(0)
    for i in range(indptr[d], indptr[d + 1]):
        count = particles(values[i])
        size += count
        if count > 0:
            total += values[i]
    if size == 0:
        return np.int64(0), size
    grid = grid_of(total)
    start = first[indptr[d]]
    p = start
    for i in range(indptr[d], indptr[d + 1]):
        count = particles(values[i])
        if count > 0:
            weight = max(F(np.rint(values[i] / F(count) / grid)), F(1)) * grid
            for _ in range(count):
                words[p] = np.int64(indices[i]) * {k}
                weights[p] = weight
                topics[p] = -1
                p += 1
    for k in range({kp}):
        n[at + k] = F(0)
    for k in range({k}):
        n[at + k] = max(F(np.rint(alpha[0, k] / grid)), F(1)) * grid
    return start, size
"""
