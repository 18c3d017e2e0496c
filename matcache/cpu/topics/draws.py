"""How a token of a document draws its topic, in vector instructions: all topics are weighed.

Topic 16 v + l lies in lane l of vector v. Each lane keeps running sums of weights over v. A prefix
sum over the 16 lane totals finds the lane. Then the running sums of all lanes are compared with the
rest of the threshold; the lane's count of smaller sums is v. Sampling does not depend on the order
of topics, so nothing is transposed. Counts are updated as whole vectors: a 4-byte store followed by
a 64-byte load would wait for the store buffer.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from .vectors import LANES, Vectors, declare, prefetch

WORDS = 12  # that a sweep takes, see `run_sweep`, without the first
AT, STOP, START, U, COLUMN = range(5)
"""What a sweep knows of a chain: its next token, the end of its row, the row's first token, and the
address of the next uniform number; of fresh topics the column of `drawn` for those of a sweep."""
AHEAD = 6  # tokens between fetching a word's row of the table, and drawing

_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI, _VB = (ir.VectorType(t, LANES) for t in (_F, _I32, ir.IntType(1)))
_ZERO = ir.Constant(_VF, [0.0] * LANES)


class Token(NamedTuple):
    """The numbers of a token; the last four are vectors that repeat one.

    place: its number.
    row: the address of its word's row of the table.
    topic, present: its topic before the draw; negative for none.
    u: a uniform number.
    weight: what it adds to the count of its topic.
    share: what is left of phi at its present topic without it; None: all.
    more: what its word's row of the table lacks, before the scales; None: the row is phi.
    """

    place: Any
    row: Any
    topic: Any
    present: Any
    u: Any
    weight: Any
    share: Any
    more: Any


class Sweep(Vectors, ABC):
    """Code that draws topics of some tokens of some documents: see `sweep_of`.

    vectors: of topics, which are a number of the code; 0: any number of topics.
    """

    def __init__(self, vectors, context, builder, sig, words, chains, many, bits, made):
        super().__init__(context, builder, sig, words)
        self.made = made
        self.all = [_I64(v) for v in range(vectors)]
        b = builder
        chain, self.steps, state, own, width, k, *arrays = words
        self.k = k
        self.given = not bits  # phi, whatever the topics of tokens
        first_chain = b.gep(self.behind(state, _I64), [chain])
        self.state = [
            [b.gep(first_chain, [_I64(part * many + c)]) for c in range(chains)]
            for part in (AT, STOP, START, U, COLUMN)
        ]
        self.at, self.columns = (
            [cgutils.alloca_once_value(b, b.load(place)) for place in self.state[part]]
            for part in (AT, COLUMN)
        )
        self.stops, self.starts, numbers = (
            [b.load(place) for place in self.state[part]] for part in (STOP, START, U)
        )
        self.u = [self.behind(word, _F) for word in numbers]
        self.scales = self.behind(own, _F)
        self.counts, self.sums = (
            [
                b.gep(self.scales, [b.mul(width, b.add(chain, _I64(c + first)))])
                for c in range(chains)
            ]
            for first in (1, 1 + many)
        )
        self.words, self.now = (self.behind(word, _I32) for word in arrays[:2])
        self.of_tokens, self.table = (self.behind(word, _F) for word in arrays[2:4])
        if self.given:
            self.drawn, self.each = self.behind(arrays[4], ir.IntType(16)), arrays[5]
        else:
            self.extra = self.behind(arrays[4], _F)
            self.old = self.behind(arrays[5], ir.IntType(bits))
        self.last = b.lshr(b.sub(k, _I64(1)), _I64(4))
        self.tail = b.trunc(b.sub(k, b.shl(self.last, _I64(4))), _I32)
        self.valid = b.icmp_signed("<", self.topics(_I64(0)), self.splat(self.tail, _VI))
        few = b.icmp_signed("<", k, _I64(LANES))
        before_last = b.sub(b.select(few, b.trunc(k, _I32), _I32(LANES)), _I32(1))
        self.allowed = b.sub(b.shl(_I32(1), before_last), _I32(1))

    def behind(self, word, kind):
        """Return the address in a word as a pointer to numbers of this kind."""
        return self.b.inttoptr(word, kind.as_pointer())

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

    def token(self, c, step):
        """Read a token of chain c, and ask for one that comes later."""
        b = self.b
        p = b.load(self.at[c])
        word, z, own = (b.load(b.gep(x, [p])) for x in (self.words, self.now, self.of_tokens))
        u = b.load(b.gep(self.u[c], [step]))
        row = self.row(word)
        self.ask_for(self.row(b.load(b.gep(self.words, [b.add(p, _I64(AHEAD))]))))
        weight, share, more = own, None, None
        if not self.given:
            share = b.select(b.icmp_signed("==", z, self.before(p)), own, _F(1.0))
            share, weight = self.splat(share), _F(1.0)
        if not (self.given or self.made):
            more = self.splat(b.load(b.gep(self.extra, [b.sext(word, _I64)])))
        return Token(p, row, z, self.splat(z, _VI), u, self.splat(weight), share, more)

    def choose(self, c, token, whole, state):
        """Choose the topic of a token, and store it.

        It is k with a probability proportional to n[k] phi[k], where the token itself is left out;
        in [0, K) for any numbers, NaN included.
        """
        b = self.b
        prefix = self.prefix(whole)
        before = self.shifted(prefix, 1)
        t = self.splat(b.fmul(token.u, b.extract_element(prefix, _I32(LANES - 1))))
        passed = b.and_(self.bits(b.fcmp_ordered("<=", prefix, t)), self.allowed)
        lane = self.call("llvm.ctpop.i32", _I32, [_I32], [passed])
        v = self.passed(c, state, b.fsub(t, before), lane)
        most = b.sub(b.trunc(self.last, _I32), b.zext(b.icmp_signed(">=", lane, self.tail), _I32))
        v = b.select(b.icmp_signed(">", v, most), most, v)  # never into the padding
        topic = b.add(b.shl(v, _I32(4)), lane)
        b.store(topic, b.gep(self.now, [token.place]))
        if self.given:
            column = b.load(self.columns[c])
            column = b.select(b.icmp_signed("<", column, _I64(0)), _I64(0), column)
            place = b.add(b.mul(token.place, self.each), column)
            b.store(b.trunc(topic, ir.IntType(16)), b.gep(self.drawn, [place]))
        return topic

    def go_on(self, c, token):
        """Let chain c take the next token: behind the last one of its row a sweep begins."""
        b = self.b
        p = b.add(token.place, _I64(1))
        ends = b.icmp_signed("==", p, self.stops[c])
        b.store(b.select(ends, self.starts[c], p), self.at[c])
        if self.given:
            b.store(b.add(b.load(self.columns[c]), b.zext(ends, _I64)), self.columns[c])

    def passed_among(self, sums, left, lane):
        """Return how many of these sums, but for the last, are `left` or less in a lane.

        With AVX-512 flags are bits; elsewhere they are numbers, and all lanes count.
        """
        b, v, found = self.b, _I32(0), ir.Constant(_VI, [0] * LANES)
        for running in sums[:-1]:
            flags = b.fcmp_ordered("<=", running, left)
            if self.wide:
                v = b.add(v, b.and_(b.lshr(self.bits(flags), lane), _I32(1)))
            else:
                found = b.sub(found, b.sext(flags, _VI))
        return v if self.wide else b.extract_element(found, lane)

    def before(self, p):
        """Return the topic of a token before all sweeps, which the table counts it at."""
        old = self.b.load(self.b.gep(self.old, [p]))
        return self.b.zext(old, _I32) if old.type.width < _I32.width else old

    def row(self, word):
        """Return the address of a word's row of the table."""
        return self.b.gep(self.table, [self.b.mul(self.b.sext(word, _I64), self.k)])

    def ask_for(self, row):
        """Fetch a row of the table into the first cache."""

        def ask(v):
            prefetch(self.b, self.b.gep(row, [self.b.shl(v, _I64(4))]), 3)

        for v in self.all:
            ask(v)
        if not self.all:
            with cgutils.for_range(self.b, self.b.add(self.last, _I64(1))) as loop:
                ask(loop.index)

    def phi(self, x, scale, token):
        """Return phi of a word's row x."""
        if token.more is None:
            return x
        return self.b.fmul(self.b.fadd(x, token.more), scale)

    @abstractmethod
    def begin(self):
        """Take the counts of the documents."""

    @abstractmethod
    def summed(self, c, token):
        """Return sums of n phi by lane, and what `passed` and `change` need to know."""

    @abstractmethod
    def passed(self, c, state, left, lane):
        """Return how many vectors of a lane have sums of `left` or less."""

    @abstractmethod
    def change(self, c, state, token, topic):
        """Count the token at its new topic instead of the present one."""

    @abstractmethod
    def end(self):
        """Leave the counts in their place."""

    def turn(self, step):
        """Let each document draw the topic of a token."""
        for c in range(len(self.at)):
            token = self.token(c, step)
            whole, state = self.summed(c, token)
            self.change(c, state, token, self.choose(c, token, whole, state))
            self.go_on(c, token)

    def run(self):
        """Let the documents take turns."""
        self.begin()
        with cgutils.for_range(self.b, self.steps) as loop:
            self.turn(loop.index)
        self.end()
        for part, kept in ((AT, self.at), (COLUMN, self.columns)):
            for c, place in enumerate(kept):
                self.b.store(self.b.load(place), self.state[part][c])
