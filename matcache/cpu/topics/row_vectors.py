"""Vector instructions for the samplers of rows: several documents draw topics in turn.

A draw waits for the one before it in its document, so several documents take a token each in turn.
Their counts stay in registers, where topics are few vectors: the number of vectors is then a part
of the code.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from functools import cache as remembered
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .draws import Sweep
from .vectors import LANES, instruction, prefetch

FEW = 10  # vectors of topics that stay in registers

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VF, _VI = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
_ZERO = ir.Constant(_VF, [0.0] * LANES)
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

    def summed(self, c, row, token):
        """Return the sums of lanes; those up to each vector, and counts without the token."""
        b, running = self.b, _ZERO
        sums: list[Any] = []
        without: list[Any] = []
        for v, scale, place in zip(self.all, self.scale, self.kept[c], strict=True):
            x = self.ending(row, v) if v is self.all[-1] else self.load(row, v)
            n, weighed = self.left(b.load(place), self.numbers[len(sums)], token)
            without.append(n)
            running = self.added(weighed, self.phi(x, scale, token), running)
            sums.append(running)
        return running, (sums, without)

    def passed(self, c, state, left, lane):
        """Compare the sums of the lane, bit by bit."""
        b, v = self.b, _I32(0)
        for running in state[0][:-1]:
            flags = self.bits(b.fcmp_ordered("<=", running, left))
            v = b.add(v, b.and_(b.lshr(flags, lane), _I32(1)))
        return v

    def change(self, c, state, token, z, topic):
        """Count the token at its new topic."""
        wanted = self.splat(topic, _VI)
        for numbers, n, place in zip(self.numbers, state[1], self.kept[c], strict=True):
            here = self.b.icmp_signed("==", numbers, wanted)
            self.b.store(self.b.select(here, self.b.fadd(n, token.weight), n), place)


class InMemory(Sweep):
    """Counts of documents stay in memory, for any number of topics."""

    def begin(self):
        """Make room for what loops add up."""
        self.running = cgutils.alloca_once_value(self.b, _ZERO)
        self.found = cgutils.alloca_once_value(self.b, _NONE)

    def end(self):
        """Do nothing: the counts are in their place."""

    def summed(self, c, row, token):
        """Return the sums of lanes; those up to each vector are stored."""
        b = self.b
        b.store(_ZERO, self.running)

        def add(v, x):
            _, weighed = self.left(self.load(self.counts[c], v), self.topics(v), token)
            f = self.phi(x, self.load(self.scales, v), token)
            return self.added(weighed, f, b.load(self.running))

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

    def change(self, c, state, token, z, topic):
        """Count the token at its new topic, not at the one before."""
        b = self.b
        none = b.icmp_signed("<", z, _I32(0))
        moves = (b.select(none, _I32(0), z), z, b.fsub), (topic, topic, b.fadd)
        for at, wanted, operation in moves:
            v = b.zext(b.lshr(at, _I32(4)), _I64)
            n = self.load(self.counts[c], v)
            here = b.icmp_signed("==", self.topics(v), self.splat(wanted, _VI))
            self.store(b.select(here, operation(n, token.weight), n), self.counts[c], v)


def _sweep(alone, kind, at, own, *arrays):
    """Return the signature and the code of a sweep.

    arrays: from `words` on; six over kept topics, else five.
    """
    index = types.intp
    counted = [index] if len(arrays) > 5 else []
    signature = types.void(kind, index, index, at, own, index, index, *arrays, *counted)

    def codegen(context, b, sig, args):
        vectors = sig.args[0].ndim - 1
        many = chains_of(vectors)
        made = InRegisters if vectors else InMemory
        made(context, b, sig, args, 1 if alone else many, many).run()
        return context.get_dummy_value()

    return signature, codegen


def _sweeper(*, alone):
    @instruction
    def sweep(typingctx, kind, chain, steps, at, own, width, k, words, now, shares, u, table,
              extra, counted):  # fmt: skip
        return _sweep(alone, kind, at, own, words, now, shares, u, table, extra)

    return sweep


def _fresh_sweeper(*, alone):
    @instruction
    def sweep(typingctx, kind, chain, steps, at, own, width, k, words, now, weights, u, table):
        return _sweep(alone, kind, at, own, words, now, weights, u, table)

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

now: gets the new topics.
"""
sweep_row = _sweeper(alone=True)
"""Draw topics of some tokens of the document of one chain: see `sweep_rows`."""
sweep_particles = _fresh_sweeper(alone=False)
"""Draw topics of some particles of several documents, in turn, by phi as it is.

weights: of particles: what one adds to the count of its topic. The rest is as for `sweep_rows`;
there are no scales.
"""
sweep_particle = _fresh_sweeper(alone=True)
"""Draw topics of some particles of the document of one chain: see `sweep_particles`."""
