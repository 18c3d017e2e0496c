"""Keep the topic of each token, and exact counts of words in topics, between passes.

Collapsed Gibbs sampling: Griffiths, Steyvers, PNAS 2004, eq. 5. Counts change after each block, so
documents of a block are sampled at once: Newman, Asuncion, Smyth, Welling, JMLR 2009 (AD-LDA).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blocklearn.matcache import (
    Mat,
    Number,
    Row,
    Rows,
    Sparse,
    colsum,
    maximum,
    named,
    rowwise,
    total,
    where,
)
from blocklearn.matcache.operations.kept_topics import begin_topics, redraw_topics, type_of_topics
from blocklearn.matcache.operations.local import local, local_table
from blocklearn.optimizers import AtRest

from ..errors import ModelConfigError
from ..inputs import Block, Shapes
from .limits import MOST_FRESH, sweeps_for
from .long_documents import LONG
from .settings import LDASettings

FLOOR = 1e-15  # of phi
WEIGHT = 2.0  # of late passes: the mean weighs pass t by about t^WEIGHT, after many passes
EARLY, PASSES = 80.0, 10.0
"""Where no pass came before, WEIGHT is larger by EARLY / (PASSES + t) in pass t: topics settle
slowly then, and what they were before would stay in the mean."""
BEGUN = 4.0  # passes that topics count as in the mean if they come from fresh assignments
MOST_FIRST = 4  # sweeps of tokens without a topic if no pass came before: phi is of few documents
OFTEN = 8.0  # draws of a word in a block, from which phi is made once for all of them
MANY = {"cpu": 257, "cuda": 2049}
"""Topics from which lists of a document's topics are faster than all topics, by kind of device."""


@dataclass(frozen=True)
class Prior:
    """What is added to counts: eta, and for tokens without a topic the counts expected by `lam`.

    rest: the share of these tokens.
    """

    lam: Rows
    eta: Rows
    rest: Number


@rowwise
def topic_words(XT: Sparse, phi: Rows, counts: Rows, prior: Prior, one: Row) -> None:
    """Make phi = p(word | topic) for words that occur.

    counts: [V x K], tokens of each word in each topic.
    one: [1 x K], 1 / the sum of a topic.
    """
    phi <<= maximum((counts + prior.rest * prior.lam + (1.0 - prior.rest) * prior.eta) * one, FLOOR)


class Still(AtRest):
    """A table [V x K] that blocks only read, and whose rows lie elsewhere."""

    def __init__(self, table: Mat) -> None:
        self.sums = named(table.cache, "sums of lambda", (1, table.shape[1]))
        self.known = False

    def forget(self) -> None:
        """Note that the table has changed, at the end of a pass."""
        self.known = False


class KeptTopics:
    """Topics of all tokens, and their counts.

    topics: of each token, none at first.
    counts: [V x K], tokens of each word in each topic; whole numbers, exact below 2^24.
    totals: float64 [1 x K], tokens of each topic.
    averaged: [1 x 1], passes in the mean, and what stands for those before it.
    lists: whether tokens are drawn by lists of the topics that documents have; see `redraw_topics`.
    makes_phi: whether the sampler makes phi of counts itself.
    phi: [V x K], where a block has most words and draws each often, and the sampler need not make
        phi; else None.
    sweeps: of a pass, over tokens that have topics.
    start: the pass in which tokens get topics; the next one begins with a topic for every token.
    first: the phase of that pass.
    begins: whether its first documents have topics of their own until the next pass, as many as
        there are topics, so that topics differ at once. Long documents would be of many topics.
    """

    def __init__(
        self, model: LDASettings, shapes: Shapes, before: tuple[int, int], sweeps: int
    ) -> None:
        """Make the state and the counts, as the model's.

        before: passes before these topics: of cvb0, and with topics that are drawn afresh.
        """
        V, K = shapes.columns, model.topics
        self.topics = model.token_state("assignments", shapes, type_of_topics(K))
        self.counts = model.statistic("counts", V, K)
        self.totals = model.statistic("totals", 1, K, np.float64)
        begun = BEGUN if before[1] else 0.0
        self.averaged = model.parameter("averaged", 1, 1, begun, merge="same", saved=False)
        self.one = model.scratch("1 / tokens of a topic", 1, K)
        self.tokens = float(max(self.topics.shape[0], 1))
        kind = model.cache.backend.kind
        self.lists = MANY[kind] <= K
        self.makes_phi = self.lists or kind == "cpu"
        self.sweeps = sweeps
        draws = sweeps * self.tokens * shapes.rows / max(shapes.total_rows, 1)
        often = draws >= OFTEN * V and not model.setting.few_occur  # tables may lie in files
        often = often and kind == "cpu" and not self.lists
        self.phi = model.scratch("phi", V, K) if often else None
        self.start = sum(before)
        self.first = sum(passes > 0 for passes in before)
        self.begins = not self.start and self.tokens < LONG * shapes.total_rows

    def redraw(
        self, block: Block, lam: Mat, sums: Row | None, eta: Mat, alpha: Mat, sweeps: int
    ) -> None:
        """Draw new topics for the tokens of a block, and move their counts.

        sums: column sums of lambda, where they are known; None: they are added up if they are read.

        Tokens that have no topic yet are drawn in `sweeps` sweeps, in no more than MOST_FIRST if
        nothing has been learned before; until then, `lam` counts.
        """
        if not self.start:
            sweeps = min(sweeps, MOST_FIRST)
        one, X, extra, again = self.one, block.X, None, self.sweeps
        if self.begins and eta.shape[1] == 1 and block.phase == self.first:
            begun = begin_topics(X, self.topics.tokens, block.key, self.counts.shape[1])
            begun.apply(self.counts, self.totals)
            again = 0
        if self.reads_counts(eta) and block.phase > self.first:
            one <<= 1.0 / (self.totals + colsum(eta))
            table, extra = self.counts, eta
            if self.phi is not None:
                self.phi <<= (self.counts + eta) * one
                table, extra = self.phi, None
        else:
            rest = 1.0 - total(self.totals) / self.tokens
            sums = colsum(lam) if sums is None else sums
            one <<= 1.0 / (self.totals + rest * sums + (1.0 - rest) * colsum(eta))
            X = local(X)
            table = local_table(X, self.counts.shape[1], "phi (scratch)")
            topic_words(X.T, table, self.counts, Prior(lam, eta, rest), one)
        moves = redraw_topics(
            X, self.topics.tokens, table, one, alpha, block.row_ids, block.key,
            sweeps=sweeps, again=again, extra=extra, lists=self.lists,
        )  # fmt: skip
        replace(moves, X=block.X).apply(self.counts, self.totals)

    def reads_counts(self, eta: Mat) -> bool:
        """Return whether sweeps over settled topics read the counts, without a table of phi.

        eta: [V x 1] or, with seeds, [V x K].
        """
        return self.makes_phi and eta.shape[1] == 1

    def average(self, lam: Mat, eta: Mat) -> None:
        """Move `lam` towards the present counts, at the end of a pass.

        It is the mean of the counts after t passes, weighted by about t^2: most of it is of the
        last 40 % of the passes, whenever training ends. Shamir, Zhang, ICML 2013 (polynomial
        decay). Where no pass came before, the first ones are forgotten sooner.
        """
        averaged = self.averaged
        begun = where(total(self.totals) > 0.0, 1.0, 0.0)
        averaged <<= averaged + begun
        early = 0.0 if self.start else EARLY
        weight = WEIGHT + early / (averaged + PASSES)
        rate = begun * (weight + 1.0) / (weight + maximum(averaged, 1.0))
        lam <<= lam + rate * (self.counts + eta - lam)


def kept_topics(model: LDASettings, shapes: Shapes, before: tuple[int, int]) -> KeptTopics | None:
    """Return the kept topics of a model, or None where topics are drawn afresh.

    before: see `KeptTopics`.

    Raises ModelConfigError if they must be kept, and cannot be.
    """
    wanted = model.assignments if model.needs.tokens else "fresh"
    K, sweeps, why = model.topics, model.kept_sweeps, shapes.why_no_tokens
    if wanted == "kept" and why and shapes.of_rows is None:
        raise ModelConfigError(f"LDA: assignments=kept: must be fresh or auto: {why}.")
    if wanted != "fresh" and why and K > MOST_FRESH:
        raise ModelConfigError(
            f"LDA: topics={K:,}: must be up to {MOST_FRESH:,} where assignments cannot be kept: "
            f"{why}. Set fewer, or inference: cvb0."
        )
    if wanted != "fresh" and why:
        model.notes.append(f"assignments of tokens are drawn afresh in each pass: {why}")
    if wanted == "fresh" or why or shapes.tokens is None:
        return None
    if sweeps == "auto":
        sweeps = sweeps_for(float(shapes.tokens[-1]), shapes.columns, K)
    if sweeps > 1 and sum(before) + 1 < shapes.passes:
        model.notes.append(
            f"topics of tokens are kept from pass {sum(before) + 1} on, and each later pass makes "
            f"{sweeps} sweeps: see `kept_sweeps`"
        )
    return KeptTopics(model, shapes, before, sweeps)
