"""Vector instructions for the sampler of rows: several documents draw topics in turn.

A draw waits for the one before it in its document, so several documents take a token each in turn.
Their counts stay in registers, where topics are few vectors: the number of vectors is then a part
of the code.

Longer than 300 lines: where counts are kept is a class, and the rest of a draw is the same.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache as remembered
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .vectors import LANES, Vectors, declare, instruction, prefetch

FEW = 8  # vectors of topics that stay in registers
AHEAD = 6  # tokens between fetching a word's row of the table, and drawing

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_ZERO, _ONE = (ir.Constant(_VF, [x] * LANES) for x in (0.0, 1.0))
_NONE = ir.Constant(_VI, [0] * LANES)


def vectors_of(k: int) -> int:
    """Return how many vectors k topics take; 0: too many for registers."""
    vectors = -(-k // LANES)
    return vectors if vectors <= FEW else 0


def chains_of(vectors: int) -> int:
    """Return how many documents take turns."""
    return 4 if vectors <= 4 else 2


def parts_of(vectors: int) -> int:
    """Return how many rows of topics a thread has: scales, counts of documents, and sums."""
    return 1 + 2 * chains_of(vectors)


@remembered
def kind_of(vectors: int) -> np.ndarray[Any, Any]:
    """Return an array with one axis more than `vectors`.

    The type of an argument is a part of a kernel's signature, so each number has its own code.
    """
    return np.zeros((1,) * (vectors + 1), np.int8)


class Sweep(Vectors, ABC):
    """Code that draws topics of some tokens of some documents: see `sweep_rows`."""

    def __init__(self, context, builder, sig, args, chains, many):
        super().__init__(context, builder, sig, args)
        b = builder
        _, chain, self.steps, _, _, width, k = args[:7]
        self.k, zero = k, _I64(0)
        starts = self.pointer(3, chain)
        self.starts = [b.load(b.gep(starts, [_I64(c)])) for c in range(chains)]
        counts, sums = (
            [self.pointer(4, b.mul(width, b.add(chain, _I64(c + first)))) for c in range(chains)]
            for first in (1, 1 + many)
        )
        self.counts, self.sums, self.scales = counts, sums, self.pointer(4, zero)
        self.words, self.now, self.shares, self.u, self.table, self.extra = (
            self.pointer(n, zero) for n in range(7, 13)
        )
        self.counted = b.icmp_signed("!=", args[13], zero)
        self.last = b.lshr(b.sub(k, _I64(1)), _I64(4))
        self.tail = b.trunc(b.sub(k, b.shl(self.last, _I64(4))), _I32)
        self.valid = b.icmp_signed("<", self.topics(zero), self.splat(self.tail, _VI))
        few = b.icmp_signed("<", k, _I64(LANES))
        before_last = b.sub(b.select(few, b.trunc(k, _I32), _I32(LANES)), _I32(1))
        self.allowed = b.sub(b.shl(_I32(1), before_last), _I32(1))

    def call(self, name, result, kinds, operands):
        """Call a function of LLVM."""
        return self.b.call(declare(self.b.module, name, result, kinds), operands)

    def topics(self, v):
        """Return the numbers of the topics in vector v."""
        order = ir.Constant(_VI, list(range(LANES)))
        return self.b.add(self.splat(self.b.trunc(self.b.shl(v, _I64(4)), _I32), _VI), order)

    def ending(self, row, v):
        """Return the last vector of a word's row, zero behind its end."""
        kinds = [_VF.as_pointer(), _I32, _VB, _VF]
        operands = [self.place(row, v), _I32(4), self.valid, _ZERO]
        return self.call("llvm.masked.load.v16f32.p0", _VF, kinds, operands)

    def added(self, n, f, total):
        """Return total + n f."""
        return self.call("llvm.fma.v16f32", _VF, [_VF] * 3, [n, f, total])

    def draw(self, c, step):
        """Draw the topic of a token of chain c: see `gibbs.sample`."""
        b = self.b
        p = b.add(self.starts[c], step)
        word, z, share, u = (
            b.load(b.gep(x, [p])) for x in (self.words, self.now, self.shares, self.u)
        )
        row = self.row(word)
        self.ask_for(self.row(b.load(b.gep(self.words, [b.add(p, _I64(AHEAD))]))))
        more = b.gep(self.extra, [b.select(self.counted, b.sext(word, _I64), _I64(0))])
        more = self.splat(b.select(self.counted, b.load(more), _F(0.0)))
        present = self.splat(z, _VI)
        whole, state = self.summed(c, row, more, present, self.splat(share))
        prefix = self.prefix(whole)
        before = b.shuffle_vector(prefix, _ZERO, ir.Constant(_VI, [LANES, *range(LANES - 1)]))
        t = self.splat(b.fmul(u, b.extract_element(prefix, _I32(LANES - 1))))
        passed = b.and_(self.bits(b.fcmp_ordered("<=", prefix, t)), self.allowed)
        lane = self.call("llvm.ctpop.i32", _I32, [_I32], [passed])
        v = self.passed(c, state, b.fsub(t, before), lane)
        most = b.sub(b.trunc(self.last, _I32), b.zext(b.icmp_signed(">=", lane, self.tail), _I32))
        v = b.select(b.icmp_signed(">", v, most), most, v)  # never into the padding
        topic = b.add(b.shl(v, _I32(4)), lane)
        b.store(topic, b.gep(self.now, [p]))
        self.change(c, state, present, z, topic)

    def row(self, word):
        """Return the address of a word's row of the table."""
        return self.b.gep(self.table, [self.b.mul(self.b.sext(word, _I64), self.k)])

    def ask_for(self, row):
        """Fetch a row of the table into the first cache."""
        with cgutils.for_range(self.b, self.b.add(self.last, _I64(1))) as loop:
            prefetch(self.b, self.b.gep(row, [self.b.shl(loop.index, _I64(4))]), 3)

    def left(self, n, topics, present):
        """Return counts n without the token itself, and where it is."""
        here = self.b.icmp_signed("==", topics, present)
        return self.b.select(here, self.b.fsub(n, _ONE), n), here

    @abstractmethod
    def begin(self):
        """Take the counts of the documents."""

    @abstractmethod
    def summed(self, c, row, more, present, share):
        """Return sums of n phi by lane, and what `passed` and `change` need to know."""

    @abstractmethod
    def passed(self, c, state, left, lane):
        """Return how many vectors of a lane have sums of `left` or less."""

    @abstractmethod
    def change(self, c, state, present, z, topic):
        """Count the token at its new topic instead of the present one."""

    @abstractmethod
    def end(self):
        """Leave the counts in their place."""

    def run(self):
        """Let the documents take turns."""
        self.begin()
        with cgutils.for_range(self.b, self.steps) as loop:
            for c in range(len(self.starts)):
                self.draw(c, loop.index)
        self.end()


class InRegisters(Sweep):
    """Counts of documents stay in registers: their vectors are a number of the code."""

    def begin(self):
        """Load the counts and the scales."""
        n = self.sig.args[0].ndim - 1
        self.all = [_I64(v) for v in range(n)]
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

    def ask_for(self, row):
        """Fetch a row of the table into the first cache."""
        for v in self.all:
            prefetch(self.b, self.b.gep(row, [self.b.shl(v, _I64(4))]), 3)

    def summed(self, c, row, more, present, share):
        """Return the sums of lanes; those up to each vector, and counts without the token."""
        b, running = self.b, _ZERO
        sums: list[Any] = []
        without: list[Any] = []
        for v, scale, place in zip(self.all, self.scale, self.kept[c], strict=True):
            x = self.ending(row, v) if v is self.all[-1] else self.load(row, v)
            n, here = self.left(b.load(place), self.numbers[len(sums)], present)
            without.append(n)
            n = b.select(here, b.fmul(n, share), n)
            running = self.added(n, b.fmul(b.fadd(x, more), scale), running)
            sums.append(running)
        return running, (sums, without)

    def passed(self, c, state, left, lane):
        """Compare the sums of the lane, bit by bit."""
        b, v = self.b, _I32(0)
        for running in state[0][:-1]:
            flags = self.bits(b.fcmp_ordered("<=", running, left))
            v = b.add(v, b.and_(b.lshr(flags, lane), _I32(1)))
        return v

    def change(self, c, state, present, z, topic):
        """Count the token at its new topic."""
        wanted = self.splat(topic, _VI)
        for numbers, n, place in zip(self.numbers, state[1], self.kept[c], strict=True):
            here = self.b.icmp_signed("==", numbers, wanted)
            self.b.store(self.b.select(here, self.b.fadd(n, _ONE), n), place)


class InMemory(Sweep):
    """Counts of documents stay in memory, for any number of topics."""

    def begin(self):
        """Make room for what loops add up."""
        self.running = cgutils.alloca_once_value(self.b, _ZERO)
        self.found = cgutils.alloca_once_value(self.b, _NONE)

    def end(self):
        """Do nothing: the counts are in their place."""

    def summed(self, c, row, more, present, share):
        """Return the sums of lanes; those up to each vector are stored."""
        b = self.b
        b.store(_ZERO, self.running)

        def add(v, x):
            n, here = self.left(self.load(self.counts[c], v), self.topics(v), present)
            n = b.select(here, b.fmul(n, share), n)
            f = b.fmul(b.fadd(x, more), self.load(self.scales, v))
            return self.added(n, f, b.load(self.running))

        with cgutils.for_range(b, self.last) as loop:
            total = add(loop.index, self.load(row, loop.index))
            b.store(total, self.running)
            self.store(total, self.sums[c], loop.index)
        return add(self.last, self.ending(row, self.last)), None

    def passed(self, c, state, left, lane):
        """Compare the sums of all lanes."""
        b = self.b
        b.store(_NONE, self.found)
        with cgutils.for_range(b, self.last) as loop:
            smaller = b.fcmp_ordered("<=", self.load(self.sums[c], loop.index), left)
            b.store(b.sub(b.load(self.found), b.sext(smaller, _VI)), self.found)
        return b.extract_element(b.load(self.found), lane)

    def change(self, c, state, present, z, topic):
        """Count the token at its new topic, not at the one before."""
        b = self.b
        none = b.icmp_signed("<", z, _I32(0))
        moves = (b.select(none, _I32(0), z), z, b.fsub), (topic, topic, b.fadd)
        for at, wanted, operation in moves:
            v = b.zext(b.lshr(at, _I32(4)), _I64)
            n = self.load(self.counts[c], v)
            here = b.icmp_signed("==", self.topics(v), self.splat(wanted, _VI))
            self.store(b.select(here, operation(n, _ONE), n), self.counts[c], v)


def _sweeper(*, alone):
    @instruction
    def sweep(typingctx, kind, chain, steps, at, own, width, k, words, now, shares, u, table,
              extra, counted):  # fmt: skip
        index = types.intp
        arrays = words, now, shares, u, table, extra
        signature = types.void(kind, index, index, at, own, index, index, *arrays, index)

        def codegen(context, b, sig, args):
            vectors = sig.args[0].ndim - 1
            many = chains_of(vectors)
            made = InRegisters if vectors else InMemory
            made(context, b, sig, args, 1 if alone else many, many).run()
            return context.get_dummy_value()

        return signature, codegen

    return sweep


sweep_rows = _sweeper(alone=False)
"""Draw topics of some tokens of several documents, in turn.

kind: of `kind_of`.
chain: 0.
steps: tokens of each document.
at: int64, the next token of each chain.
own: scratch float32, parts of `width` numbers: scales of phi; of each chain the counts of topics
    plus alpha, zero in the padding; and of each chain its sums.
words, now, shares, u: of tokens: the word, the present topic or -1, what is left of phi there
    without the token, and a uniform number. Words are read AHEAD tokens further.
table, extra, counted: phi is (table + extra) times the scales where counted, else the table.

The draws are those of `draw_vectors.sample`. now: gets the new topics.
"""
sweep_row = _sweeper(alone=True)
"""Draw topics of some tokens of the document of one chain: see `sweep_rows`."""
