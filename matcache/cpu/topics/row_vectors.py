"""Vector instructions for the samplers of rows: several documents draw topics in turn.

A draw waits for the one before it in its document, so several documents take a token each in turn.
Their counts stay in registers, where topics are few vectors and registers hold a whole one. The
number of vectors is a part of the code, unless they are many. So a sweep is a kernel of its own,
which the samplers call by its address: they are compiled once for all numbers of topics.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from functools import cache as remembered
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..compiling.compiled import Kernel, compiled
from ..compiling.sources import sources
from .draws import WORDS, Sweep
from .vectors import LANES, has_wide_vectors, instruction

IN_REGISTERS = 4  # vectors of counts that stay in registers, where one holds a vector
FEW = 16  # vectors of topics whose number is a part of the code
CHAINS = 4  # documents that take turns
PARTS = 1 + 2 * CHAINS  # rows of topics that a thread has: scales, counts of documents, and sums

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VF, _VI = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
_ZERO = ir.Constant(_VF, [0.0] * LANES)
_ONE = ir.Constant(_VF, [1.0] * LANES)
_NONE = ir.Constant(_VI, [0] * LANES)


def vectors_of(k: int) -> int:
    """Return how many vectors k topics take; 0: too many to be a part of the code."""
    vectors = -(-k // LANES)
    return vectors if vectors <= FEW else 0


class InRegisters(Sweep):
    """Counts of documents stay in registers: their vectors are a number of the code."""

    def begin(self):
        """Load the counts and the scales."""
        self.numbers = [self.topics(v) for v in self.all]
        self.scale = [self.load(self.scales, v) for v in self.all]
        self.kept = [
            [cgutils.alloca_once_value(self.b, self.load(counts, v)) for v in self.all]
            for counts in self.counts
        ]
        for counts, kept in zip(self.counts, self.kept, strict=True):
            for v, place in zip(self.all, kept, strict=True):
                self.b.store(self.load(counts, v), place)

    def end(self):
        """Store the counts."""
        for counts, kept in zip(self.counts, self.kept, strict=True):
            for v, place in zip(self.all, kept, strict=True):
                self.store(self.b.load(place), counts, v)

    def summed(self, c, token):
        """Return the sums of lanes; those up to each vector, and counts without the token."""
        b, row, running = self.b, token.row, _ZERO
        sums: list[Any] = []
        without: list[Any] = []
        for v, scale, place in zip(self.all, self.scale, self.kept[c], strict=True):
            x = self.ending(row, v) if v is self.all[-1] else self.load(row, v)
            n, weighed = self.left(b.load(place), self.numbers[len(sums)], token)
            without.append(n)
            running = self.added(weighed, self.phi(x, scale, token), running)
            sums.append(running)
        return running, (sums, without)

    def left(self, n, topics, token):
        """Return counts n without the token, and the same by what is left of phi."""
        b = self.b
        here = b.icmp_signed("==", topics, token.present)
        n = b.select(here, b.fsub(n, token.weight), n)
        return n, n if token.share is None else b.select(here, b.fmul(n, token.share), n)

    def passed(self, c, state, left, lane):
        """Compare the sums of the lane."""
        return self.passed_among(state[0], left, lane)

    def change(self, c, state, token, topic):
        """Count the token at its new topic."""
        wanted = self.splat(topic, _VI)
        for numbers, n, place in zip(self.numbers, state[1], self.kept[c], strict=True):
            here = self.b.icmp_signed("==", numbers, wanted)
            self.b.store(self.b.select(here, self.b.fadd(n, token.weight), n), place)


class InMemory(Sweep):
    """Counts of documents stay in memory.

    A draw changes two vectors of them alone. Documents do each step together: a processor lets
    counts wait until it knows the places of all counts that were stored before. Each change adds
    zeros to the topics that it does not mean: LLVM makes a masked store of counts that are chosen,
    which is slow without AVX-512, and later reads wait for it.
    """

    def begin(self):
        """Make room for what loops add up."""
        if not self.all:
            self.running = cgutils.alloca_once_value(self.b, _ZERO)
            self.found = cgutils.alloca_once_value(self.b, _NONE)

    def end(self):
        """Do nothing: the counts are in their place."""

    def turn(self, step):
        """Let each document draw the topic of a token."""
        chains = range(len(self.at))
        tokens = [self.token(c, step) for c in chains]
        found = [self.summed(c, tokens[c]) for c in chains]
        topics = [self.choose(c, tokens[c], *found[c]) for c in chains]
        for c in chains:
            self.change(c, found[c][1], tokens[c], topics[c])
            self.go_on(c, tokens[c])

    def summed(self, c, token):
        """Return the sums of lanes; those up to each vector, and counts without the token.

        Counts are weighed where the token is, until it has a new topic.
        """
        b, counts = self.b, self.counts[c]
        known = b.icmp_signed(">=", token.topic, _I32(0))
        v = self.vector_of(b.select(known, token.topic, _I32(0)))
        n = self.load(counts, v)
        here = b.icmp_signed("==", self.topics(v), token.present)
        without = b.fsub(n, b.select(here, token.weight, _ZERO))
        weighed = without
        if token.share is not None:
            weighed = b.fmul(without, b.select(here, token.share, _ONE))
        self.store(weighed, counts, v)

        def add(v, x, running):
            f = self.phi(x, self.load(self.scales, v), token)
            return self.added(self.load(counts, v), f, running)

        if self.all:
            running, sums = _ZERO, []
            for each in self.all:
                read = self.ending if each is self.all[-1] else self.load
                running = add(each, read(token.row, each), running)
                sums.append(running)
            return running, (sums, v, without)
        b.store(_ZERO, self.running)
        with cgutils.for_range(b, self.last) as loop:
            total = add(loop.index, self.load(token.row, loop.index), b.load(self.running))
            b.store(total, self.running)
            self.store(total, self.sums[c], loop.index)
        whole = add(self.last, self.ending(token.row, self.last), b.load(self.running))
        return whole, (None, v, without)

    def passed(self, c, state, left, lane):
        """Compare the sums of all lanes."""
        b = self.b
        if self.all:
            return self.passed_among(state[0], left, lane)
        b.store(_NONE, self.found)
        with cgutils.for_range(b, self.last) as loop:
            smaller = b.fcmp_ordered("<=", self.load(self.sums[c], loop.index), left)
            b.store(b.sub(b.load(self.found), b.sext(smaller, _VI)), self.found)
        return b.extract_element(b.load(self.found), lane)

    def change(self, c, state, token, topic):
        """Count the token at its new topic, not at the one before."""
        b, counts = self.b, self.counts[c]
        _, v, without = state
        self.store(without, counts, v)
        v = self.vector_of(topic)
        n = self.load(counts, v)
        here = b.icmp_signed("==", self.topics(v), self.splat(topic, _VI))
        self.store(b.fadd(n, b.select(here, token.weight, _ZERO)), counts, v)

    def vector_of(self, topic):
        """Return the number of a topic's vector."""
        return self.b.zext(self.b.lshr(topic, _I32(4)), _I64)


_TEXT = """\
# {digest}
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.topics.row_vectors import make_sweep

several, one = (
    make_sweep({vectors}, {bits}, alone, {in_registers}, {made}) for alone in (False, True)
)


@kernel(places=True)
def run(alone, {words}):
    words = ({words})
    if alone:
        one(words)
    else:
        several(words)
"""


def sweep_of(
    vectors: int, bits: int, in_registers: bool | None = None, *, made: bool = False
) -> Kernel:
    """Return the kernel that draws topics of some tokens of documents, for `run_sweep`.

    vectors: of topics; see `vectors_of`.
    bits: of a kept topic's number; 0: the topics of particles, which are not kept.
    in_registers: whether counts stay in registers, with the same draws; None: where they have room.
    made: whether the table is phi; else, of kept topics, it holds counts.
    """
    if in_registers is None:
        in_registers = 0 < vectors <= IN_REGISTERS and has_wide_vectors()
    words = ", ".join(f"w{n}" for n in range(WORDS))
    digest = sources(Path(__file__).parent)
    text = _TEXT.format(
        digest=digest, vectors=vectors, bits=bits, words=words, in_registers=in_registers,
        made=made,
    )  # fmt: skip
    return compiled(text)


@remembered
def make_sweep(vectors: int, bits: int, alone: bool, in_registers: bool, made: bool) -> Any:
    """Make the instruction that draws topics of some tokens of several documents, in turn.

    bits, in_registers, made: see `sweep_of`.
    alone: of one document.
    """

    @instruction
    def sweep(typingctx, words):
        def codegen(context, b, sig, args):
            given = cgutils.unpack_tuple(b, args[0])
            call = context, b, sig, given, 1 if alone else CHAINS, CHAINS, bits, made
            b.function.attributes.add("nounwind")  # llvmlite forgets the other one if it is alone
            b.function.attributes.alignstack = 4 * LANES  # spilled vectors lie in single lines
            kind = InRegisters if in_registers else InMemory
            kind(vectors, *call).run()
            return context.get_dummy_value()

        return types.void(words), codegen

    return sweep


@instruction
def run_sweep(typingctx, sweep, alone, chain, steps, state, own, width, k, arrays):
    """Draw topics of some tokens of several documents, in turn, by a kernel of `sweep_of`.

    sweep: its address.
    alone: 1: of the document of one chain.
    chain: 0, or that chain.
    steps: tokens of each document.
    state: int64 [COLUMN + 1 or more x CHAINS], what is known of chains; changes as they go on.
    own: scratch float32, parts of `width` numbers: scales of phi; of each chain the counts of
        topics plus alpha, zero in the padding; and of each chain its sums.
    arrays: words, now, shares, table, and extra, old, or drawn, each.

    words, now, shares: of tokens: the word, the present topic or -1, and what is left of phi at its
        old topic without the token. Words are read AHEAD tokens further.
    old: topics before all sweeps, by which the table counts tokens; k or more for none.
    table, extra: phi is (table + extra) times the scales, or the table where phi is `made`.

    now: gets the new topics.
    drawn, each: uint16, gets them, too: that of particle p in column c at p `each` + c. Columns
        below 0 count as 0, whose topics later sweeps replace.

    With the last two, particles draw by the table as it is, without scales. Shares are then what a
    particle adds to the count of its topic. A sweep cannot fail.
    """
    whole = types.int64
    signature = types.void(whole, whole, whole, whole, state, own, whole, whole, arrays)

    def codegen(context, b, sig, args):
        kinds = [*sig.args[1:-1], *sig.args[-1]]
        values = [*args[1:-1], *cgutils.unpack_tuple(b, args[-1])]
        words = [_word(context, b, *each) for each in zip(kinds, values, strict=True)]
        taken, convention = [whole] * len(words), context.call_conv
        shape = convention.get_function_type(types.none, taken)
        kernel = b.inttoptr(args[0], shape.as_pointer())
        convention.call_function(b, kernel, types.none, taken, words)
        return context.get_dummy_value()

    return signature, codegen


def _word(context, b, kind, value):
    """Return a number, or the address of the numbers of an array."""
    if isinstance(kind, types.Array):
        return b.ptrtoint(context.make_array(kind)(context, b, value).data, _I64)
    return value
