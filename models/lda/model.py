"""Train latent Dirichlet allocation online on blocks of documents.

theta_d ~ Dirichlet(alpha), beta_k ~ Dirichlet(eta), word n of document d ~ beta[z], z ~ theta_d.
Online variational Bayes: Hoffman, Blei, Bach, NIPS 2010. Collapsed: Foulds, Boyles, DuBois, Smyth,
Welling, KDD 2013. Sampled: Mimno, Hoffman, Blei, ICML 2012.

Longer than 300 lines: three inferences fill the same statistics, and share scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from blocklearn.datasources import DataSource
from blocklearn.matcache import (
    Mat,
    Row,
    Rows,
    Sparse,
    Table,
    colsum,
    exppsi,
    local,
    local_table,
    maximum,
    named,
    split_tokens,
    total,
)
from blocklearn.matcache.operations.sampling import sample_theta, sample_topics
from blocklearn.optimizers import Meaning, SparseEstimate

from ..inputs import Block, Randomness, Shapes, one_or_more
from ..relevance import relevant_words
from ..score import DataScore, Score, Sum
from ..term_weights import keep_weights, weighed
from ..topic_quality import TopicQuality
from .fresh_topics import fresh_topics
from .inference import (
    FLOOR,
    bound,
    completion,
    geometric_topics_of,
    infer_cvb0,
    infer_vb,
    mean_topics_of,
    proportions,
)
from .kept_topics import Still, kept_topics
from .prior_table import PriorTable
from .settings import LDASettings
from .topic_priors import TopicPriors, notes_of_learning

FIRST_TOKENS = 0.01  # of a word in a topic, before any data


class LDA(LDASettings):
    """Learns topics of documents, given as word counts [documents x words].

    The parameter `lambda` [words x topics] is the Dirichlet posterior over topics; its columns,
    normalised, are the topics. Three inferences fill the same statistics:

    - "vb": variational Bayes.
    - "cvb0": zero-order collapsed; reaches good topics fastest.
    - "gibbs": sampled sweeps, after `warm_up` passes of cvb0; finds the best topics. With kept
      assignments a pass is, after `fresh_passes`, one sweep of collapsed Gibbs sampling with exact
      counts: see `kept_topics.py`.

    Weights of rows are ignored: training and scores count each document once.
    """

    meaning: ClassVar[Meaning] = "estimates"
    takes_counts: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = True
    takes_terms: ClassVar[Sequence[str]] = ("lambda",)
    held_whole: ClassVar[Sequence[str]] = ("eta",)  # as large as lambda of a single topic

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with weighed counts, if `term_weights` says so."""
        return weighed(self, self.term_weights, source, train=train)

    def phases(self) -> Sequence[int]:
        """Return the phases: after a warm-up, gibbs starts to sample, and later to keep topics.

        Kept topics are read and drawn in another way once all tokens have them.
        """
        starts = {0, self.warm} if self.inference == "gibbs" else {0}
        if self.kept is not None:
            starts.add(self.kept.start)
            if self.kept.begins or self.kept.reads_counts(self.priors.eta):
                starts.add(self.kept.start + 1)
        return sorted(starts)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create lambda [V x K] with noise that makes topics differ.

        It is near 1, or small where topics are kept from the first pass on, so that words follow
        those of earlier blocks. Where topics have priors of their own, their tokens are added.
        """
        V, K = shapes.columns, self.topics
        by_block = self.inference != "gibbs"
        self.warm = 0 if by_block or not self.warm_up else self.warm_of(shapes.passes)
        self.kept = kept_topics(self, shapes, (self.warm, self.fresh_passes))
        self.fresh = fresh_topics(self, self.kept, shapes.total_rows)
        level = 1.0 if self.kept is None or self.kept.start else FIRST_TOKENS
        drawn = rng.drawn(V, K, lambda uniform: level * (0.8 + 0.4 * uniform), fused=True)
        self.priors = TopicPriors(self, shapes, self.kept)
        own = self.priors.own
        self.lam = self.parameter("lambda", V, K, drawn if own is None else drawn.table + own)
        self.theta = self.scratch("theta", shapes.rows, K)
        self.scale = self.number("documents in the corpus per document of the block", 1.0)
        self.copies = self.number("topics of a token", 1.0)
        self.times_alpha = self.number("alpha in the first passes, over alpha", 1.0)
        if self.kept is not None and self.kept.start >= shapes.passes > self.warm:
            self.notes.append(
                f"assignments of tokens are drawn afresh in all passes, {shapes.passes}: they are "
                f"kept from pass {self.kept.start + 1} on"
            )
        self.notes += notes_of_learning(self, self.kept, shapes)
        self.needs_optimizer = self.kept is None or self.kept.start > 0
        if self.needs_optimizer and self.eta != "auto":
            self.rests["lambda"] = self.priors.eta
            self.rests_until = None if self.kept is None else self.kept.first
        self.rests_alike = isinstance(self.eta, float) or self.eta == "auto"
        self.changes_occurring = not self.needs_optimizer
        self.ends_with_all = self.kept is not None
        self.reads_in_order = self.kept is not None and self.kept.lists
        self.still = None
        if self.changes_occurring and self.setting.elsewhere:
            self.still = Still(self.lam)
            self.column_sums = {"lambda": self.still.sums}
        if self.kept is not None:  # whole numbers, and means of them
            means = set() if self.kept.start else {"lambda"}
            self.always_finite = {"counts", "totals"} | means
        keep_weights(self, self.term_weights, shapes)
        self.split_key = named(self.cache, "key of the split of held-out tokens", (1, 3), np.int64)

    def update(self, block: Block) -> None:
        """Run one E-step. The update is an estimate of lambda from this block alone.

        Kept assignments change counts instead, of which `end_pass` makes lambda.
        """
        priors = self.priors
        priors.begin()
        if self.kept is not None and block.phase >= self.kept.first:
            sweeps = self.burn_in + self.fresh.sweeps
            sums = self.column_sums.get("lambda")
            self.kept.redraw(block, self.lam, sums, priors.eta, priors.alpha, sweeps)
            return
        self.scale.set(block.whole_rows / one_or_more(block.rows))
        samples = self.inference == "gibbs" and block.phase >= min(self.warm, 1)
        entries, rows, table = self._sampled(block) if samples else self._inferred(block)
        if self.column_sums:
            self.updates["lambda"] = SparseEstimate(entries, rows, table, self.scale)
            return
        statistics = table if rows is None else table * (entries.T @ rows)
        self.updates["lambda"] = self.with_terms(priors.eta + self.scale * statistics, block)

    def _inferred(self, block: Block) -> tuple[Sparse, Rows, Table]:
        """Return ratios, theta and phi of the variational inferences."""
        theta, priors, vb = self.theta, self.priors, self.inference == "vb"
        theta <<= 1.0
        X, phi = self._topics_of(block.X, geometric=vb)
        infer, iterations = (infer_vb, 5) if vb else (infer_cvb0, 10)
        ratio = infer(X, theta, phi, priors.alpha, self.inner_iterations or iterations)
        if self.inference != "gibbs":
            found = priors.of_block(X, ratio, theta, phi, self.lam, collapsed=not vb)
            self.updates.update(found)
        return ratio, theta, phi

    def _sampled(self, block: Block) -> tuple[Sparse, Rows | None, Table]:
        """Return ratios, theta and phi, or X, None and the counts of drawn topics.

        theta adds up the sweeps. Ratios with it give the topics that tokens are expected to
        have, which vary less than drawn ones, and are a bit sharper: a token counts in its theta.
        """
        X, alpha = self._tempered(block)
        X, phi = self._topics_drawn(X)
        ids, key, burn, save = block.row_ids, block.key, self.burn_in, self.fresh.sweeps
        if not self.fresh.expected:
            drawn = sample_topics(X, phi, alpha, ids, key, burn=burn, save=save)
            return X, None, drawn.counts(self.topics)
        theta = sample_theta(X, phi, alpha, ids, key, burn=burn, save=save)
        return infer_cvb0(X, theta, phi, alpha, 0), theta, phi

    def _tempered(self, block: Block) -> tuple[Sparse, Row]:
        """Return counts and alpha. Alpha is larger at first, and m topics of a token multiply both.

        All topics of a document share its proportions theta. So theta, by the density of its
        logarithms, has the m-th power of its posterior, and is drawn near the most probable one.
        Doucet, Godsill, Robert, Statistics and Computing 12 (2002); Zhao, Jiang, Canny, Jaros,
        *SAME but different*, KDD 2015, which draws theta, and cools phi, too.
        """
        alpha, done = self.priors.alpha, block.pass_ - self.warm
        if self.fresh.heat > 1.0:
            self.times_alpha.set(self.fresh.heat_after(done))
            alpha = (self.times_alpha * alpha).mat()
        if self.same == 1:
            return block.X, alpha
        schedule = self.same if isinstance(self.same, list) else [self.same]
        m = schedule[min(done, len(schedule) - 1)]
        self.copies.set(m)
        self.scale.set(block.whole_rows / one_or_more(block.rows) / m)
        return (self.copies * block.X).mat(), (self.copies * alpha).mat()

    @property
    def phi(self) -> Mat:
        """Room for phi of all words."""
        return self.scratch("phi", *self.lam.shape)

    def _topics_of(self, X: Sparse, *, geometric: bool) -> tuple[Sparse, Table]:
        """Return X, and phi of a block of training: see `topics_in`."""
        if self.column_sums:
            return self.topics_in(X, self.column_sums["lambda"], geometric=geometric)
        phi = self.phi
        phi <<= self.geometric_topics() if geometric else self.mean_topics()
        return X, phi

    def _topics_drawn(self, X: Sparse) -> tuple[Sparse, Table]:
        """Return X, and phi of a block whose topics are drawn: only rows of its words are made."""
        if self.column_sums:
            return self.topics_in(X, self.column_sums["lambda"], geometric=False)
        mean_topics_of(X.T, self.phi, self.lam, colsum(self.lam))
        return X, self.phi

    def topics_in(self, X: Sparse, sums: Row, *, geometric: bool) -> tuple[Sparse, Table]:
        """Return X, and phi for the words that occur in it: see `local`.

        sums: column sums of lambda.
        geometric: phi is exp E[log beta]; else it is E[beta].
        """
        found = local(X)
        phi = local_table(found, self.topics, "phi (scratch)")
        if found is X:  # most words may occur
            phi <<= self.geometric_topics() if geometric else self.mean_topics()
        elif geometric:
            geometric_topics_of(found.T, phi, self.lam, exppsi(sums))
        else:
            mean_topics_of(found.T, phi, self.lam, sums)
        return found, phi

    def end_pass(self) -> None:
        """Average the counts of kept assignments over passes."""
        if self.kept is not None:
            self.priors.end_pass(self.kept)
            self.kept.average(self.lam, self.priors.eta)
        if self.still is not None:
            self.cache.each_block(self.still.forget)

    @property
    def at_rest(self) -> Mapping[str, Still]:
        """See `Model.at_rest`."""
        return {} if self.still is None else {"lambda": self.still}

    def with_terms(self, estimate: Table, block: Block) -> Table:
        """Return an estimate of lambda [V x K] that lowers the terms of mixins, too.

        See `split_terms.py`: `estimate` is the pull, and the push is 1.
        """
        slopes = self.slopes("lambda")
        if slopes is None:
            return estimate
        rising, falling = slopes
        rows = float(block.whole_rows)
        return (estimate + rows * self.lam * falling) / (1.0 + rows * rising)

    def geometric_topics(self) -> Table:
        """Return exp E[log beta] [V x K]."""
        return maximum(exppsi(self.lam) / exppsi(colsum(self.lam)), FLOOR)

    def mean_topics(self) -> Table:
        """Return E[beta] [V x K]; each column sums to 1."""
        return maximum(self.lam / colsum(self.lam), FLOOR)

    def score(self, block: Block) -> Score:
        """Score held-out documents.

        perplexity: by document completion (Wallach et al. 2009). Half of a document's tokens,
            chosen by its row number, infer its topics. exp(-mean log likelihood) of the other half.
        elbo_per_token: variational bound on all tokens, with topics held fixed, per token.

        An evaluation adds the quality of topics: u_mass, c_npmi, c_uci, c_v, distinct_words,
        topic_closeness. See `TopicQuality`.
        """
        theta, priors = self.theta, self.priors
        sums = self.column_sums["lambda"] if block.resting else colsum(self.lam)
        theta <<= 1.0
        X, phi = self.topics_in(block.X, sums, geometric=False)
        seen, scored = split_tokens(X, block.row_ids, self.split_key)
        likelihood = total(
            completion(seen, scored, theta, phi, self.priors.alpha, SCORE_ITERATIONS)
        )
        tokens = total(scored)
        theta <<= 1.0
        X, phi = self.topics_in(block.X, sums, geometric=True)
        elbo = total(bound(X, theta, phi, priors.alpha, priors.alpha_sum, SCORE_ITERATIONS))
        return {
            "perplexity": Sum(likelihood, tokens, "perplexity"),
            "elbo_per_token": Sum(elbo, total(X)),
        }

    def data_scores(self) -> Sequence[DataScore]:
        """Return the quality of topics: coherence, distinct words, closeness."""
        return [TopicQuality(self.lam)]

    def predict(self, block: Block) -> Mat:
        """Predict topic proportions [rows x K]; empty documents get the prior.

        Rows sum to 1.
        """
        theta = self.theta
        theta <<= 1.0
        X, beta = self.topics_in(block.X, colsum(self.lam), geometric=False)
        return proportions(X, theta, beta, self.priors.alpha, SCORE_ITERATIONS)  # type: ignore[no-any-return]

    @property
    def topic_names(self) -> list[str]:
        """The name of each topic: that of its seeds or column of a prior, else its number."""
        given = self.given_names
        return [*given, *map(str, range(len(given), self.topics))]

    @property
    def given_names(self) -> list[str]:
        """The names of the first topics, by seeds or a table of priors; none: topics have none."""
        table = self.eta.topics if isinstance(self.eta, PriorTable) else None
        return [*self.seeds, *(table or [])[len(self.seeds) :]]

    def topic_words(self, top: int = 10, relevance: float = 1.0) -> list[list[tuple[int, float]]]:
        """List each topic's `top` words as (column, probability).

        relevance: 1: most probable words first; less favours words that other topics rarely have.
            See `relevant_words`.
        """
        return relevant_words(self.parameters["lambda"].shown(), top, relevance)


SCORE_ITERATIONS = 50  # enough for theta to settle, as in the common evaluators
