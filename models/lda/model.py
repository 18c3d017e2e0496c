"""Train latent Dirichlet allocation online on blocks of documents.

theta_d ~ Dirichlet(alpha), beta_k ~ Dirichlet(eta), word n of document d ~ beta[z], z ~ theta_d.
Online variational Bayes: Hoffman, Blei, Bach, NIPS 2010. Collapsed: Foulds, Boyles, DuBois, Smyth,
Welling, KDD 2013. Sampled: Mimno, Hoffman, Blei, ICML 2012.

Longer than 300 lines: three inferences (`inference.py`) of one model share its counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import Field, field_validator, model_validator

from blocklearn.datasources import DataSource
from blocklearn.matcache import (
    Mat,
    Row,
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
from blocklearn.matcache.operations.sampling import CAP, sample_topics
from blocklearn.optimizers import Meaning, Optimizer, SparseEstimate, StreamingAverage

from ..base import Model
from ..block_size import BlockSize
from ..inputs import Block, Needs, Randomness, Shapes
from ..relevance import relevant_words
from ..score import DataScore, Score, Sum
from ..term_weights import TermWeights, keep_weights, weighed
from ..topic_quality import TopicQuality
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
from .kept_topics import MOST_FRESH, kept_topics, most_kept
from .prior_table import PriorTable
from .seeds import problem as seed_problem
from .seeds import seed_table
from .topic_priors import Given, TopicPriors, problem_of_auto

MANY_PASSES = 50  # of a run, from which kept topics are the better ones for the time they take
FEW = 200  # topics up to which sampling begins best from cvb0 or from passes drawn afresh
FIRST_TOKENS = 0.01  # of a word in a topic, before any data
KEPT_BLOCKS = 8  # of a pass, where topics are kept from the start: exact counts need no more

Positive = Annotated[float, Gt(0), Lt(1e30)]
Replicas = Annotated[int, Ge(1), Le(CAP)]


def _warm_up(fields: Mapping[str, object]) -> int:
    """Return how many passes of cvb0 sampling begins with by default."""
    return 0 if fields["assignments"] != "fresh" or _samples_many(fields) else 1


def _fresh_passes(fields: Mapping[str, object]) -> int:
    """Return how many passes draw topics afresh before they are kept, by default."""
    return 0 if _samples_many(fields) else 8


def _samples_many(fields: Mapping[str, object]) -> bool:
    topics = fields["topics"]
    return fields["inference"] == "gibbs" and isinstance(topics, int) and topics > FEW


class LDA(Model):
    """Learns topics of documents, given as word counts [documents x words].

    The parameter `lambda` [words x topics] is the Dirichlet posterior over topics; its columns,
    normalised, are the topics. Three inferences fill the same statistics:

    - "vb": variational Bayes.
    - "cvb0": zero-order collapsed; reaches good topics fastest.
    - "gibbs": sampled sweeps, after `warm_up` passes of cvb0; finds the best topics. With kept
      assignments a pass is, after `fresh_passes`, one sweep of collapsed Gibbs sampling with exact
      counts: see `kept_topics.py`.
    """

    meaning: ClassVar[Meaning] = "estimates"
    takes_counts: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = True
    takes_terms: ClassVar[Sequence[str]] = ("lambda",)
    block_size: ClassVar[BlockSize] = BlockSize(least=16)  # documents may be long
    kind: Literal["lda"] = "lda"
    topics: int = Field(100, ge=1, description="number of topics, K")
    inference: Literal["vb", "cvb0", "gibbs"] = Field(
        "gibbs", description="how topics of a document are inferred"
    )
    alpha: Positive | list[Positive] | Literal["auto"] = Field(
        0.05,
        description="prior of a document's topics: one number; K numbers; or `auto`: K numbers are "
        "learned, which begin at 0.05",
    )
    eta: Positive | list[Positive] | PriorTable | Literal["auto"] = Field(
        0.05,
        description="prior of a topic's words: one number; one a word; one for each word in each "
        "topic, `{path: FILE}`, in Python an array [words x topics]; or `auto`: one number is "
        "learned, which begins at 0.05",
    )
    seeds: dict[str, list[str]] = Field(
        {}, description="words that anchor topics, by the topic's name; the first topics have them"
    )
    seed_weight: Positive = Field(
        100.0, description="tokens that a seed word has in its topic before any data"
    )
    term_weights: TermWeights = "none"
    inner_iterations: Annotated[int, Ge(1)] | None = Field(
        None, description="iterations per document of vb (null: 5) and cvb0 (null: 10)"
    )
    assignments: Literal["fresh", "kept", "auto"] = Field(
        "auto",
        description="gibbs: topics of tokens are drawn afresh in each pass, or kept from pass to "
        f"pass; auto keeps them in runs of {MANY_PASSES} passes or more, or to learn priors, where "
        "the data allow",
    )
    warm_up: Annotated[int, Ge(0)] = Field(
        default_factory=_warm_up,
        description="gibbs: number of first passes that use cvb0 instead; the last pass always "
        "samples. Default: 1 with fresh assignments and up to 200 topics, else 0. With 1 the first "
        "pass learns more; with 0 topics are better after many passes",
    )
    fresh_passes: Annotated[int, Ge(0)] = Field(
        default_factory=_fresh_passes,
        description="gibbs with kept assignments: number of passes after `warm_up` that draw "
        "topics afresh. They find topics sooner; each costs `burn_in + sweeps` sweeps of all "
        "topics. Default: 8 up to 200 topics, else 0",
    )
    burn_in: Annotated[int, Ge(0), Lt(2**31)] = Field(
        1, description="gibbs: sweeps that are not counted"
    )
    sweeps: Annotated[int, Ge(1), Lt(2**31)] = Field(
        9,
        description="gibbs: sweeps that are averaged; kept assignments have burn_in + sweeps "
        "in their first pass and one in each later one",
    )
    same: Annotated[list[Replicas], MinLen(1)] | Replicas = Field(
        1,
        description="gibbs with fresh assignments: number of topics that each token has at a time "
        "(SAME). A list gives a number for each sampled pass; its last one is for all later passes",
    )

    @field_validator("eta", mode="before")
    @classmethod
    def _array(cls, given: object) -> object:
        """Take an array: [words], or [words x topics]."""
        if not isinstance(given, np.ndarray):
            return given
        return PriorTable.of(given) if given.ndim == 2 else given.tolist()

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check that alpha has 1 or K numbers, and that gibbs can number the topics."""
        if isinstance(self.alpha, list) and len(self.alpha) != self.topics:
            raise ValueError(
                f"alpha has {len(self.alpha)} numbers, but there are {self.topics} topics"
            )
        if wrong := seed_problem(self.seeds, self.topics):
            raise ValueError(wrong)
        priors = {"alpha": self.alpha, "eta": self.eta}
        learns = self.inference != "gibbs" or self.needs.tokens > 0
        if wrong := problem_of_auto(priors, learns=learns, seeded=bool(self.seeds)):
            raise ValueError(wrong)
        if self.inference != "gibbs" and self.assignments == "kept":
            raise ValueError(
                f"assignments=kept: must be fresh with inference={self.inference}: only gibbs has "
                "assignments of tokens"
            )
        if (self.inference, self.assignments) == ("gibbs", "fresh") and self.topics > MOST_FRESH:
            raise ValueError(
                f"topics={self.topics:,}: must be up to {MOST_FRESH:,} with assignments=fresh. Set "
                "assignments: kept, or inference: cvb0"
            )
        if self.same != 1 and (self.inference != "gibbs" or self.assignments == "kept"):
            raise ValueError(
                f"same={self.same}: must be 1 with inference={self.inference}, "
                f"assignments={self.assignments}. Set inference: gibbs, assignments: fresh"
            )
        return self

    @property
    def needs_scale(self) -> str | None:
        """A reason for vb, which reads lambda as counts, and for what is learned, else None."""
        for name in ("alpha", "eta"):
            if getattr(self, name) == "auto" and self.inference != "gibbs":
                return f"{name}: auto does not sum to 1; use streaming-average, or numbers"
        if self.inference != "vb":
            return None
        return "inference: vb reads lambda as counts; use streaming-average, or inference: cvb0"

    def for_run(self, passes: int, begun: Mapping[str, object] | None = None) -> Self:
        """Return the model with assignments that are fresh in short runs, if they are "auto"."""
        learns = "auto" in (self.alpha, self.eta)
        if self.assignments != "auto" or learns or self.topics > MOST_FRESH:
            return self
        fresh = passes < MANY_PASSES if begun is None else begun.get("assignments") == "fresh"
        if not fresh:
            return self
        fields = {name: getattr(self, name) for name in ("inference", "topics")}
        fields["assignments"] = "fresh"
        if "warm_up" not in self.model_fields_set:
            fields["warm_up"] = _warm_up(fields)
        return self.model_copy(update=fields)

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with weighed counts, if `term_weights` says so."""
        return weighed(self, self.term_weights, source, train=train)

    @property
    def needs(self) -> Needs:
        """As many tokens as may keep their topics."""
        if self.inference != "gibbs" or self.assignments == "fresh" or self.same != 1:
            return Needs()
        return Needs(tokens=most_kept(self.assignments, self.topics))

    def rows_of_block(self, rows: int | None) -> int:
        """Return fewer, larger blocks where topics are kept from the first pass on."""
        if rows is None or not self.needs.tokens or self.warm_up or self.fresh_passes:
            return super().rows_of_block(rows)
        return self.block_size._replace(steps=KEPT_BLOCKS).of(rows)

    def default_optimizer(self) -> Optimizer:
        """Return the streaming step of Hoffman et al. (2010).

        Its rates were best on abstracts.
        """
        if self.inference == "vb":
            return StreamingAverage(tau0=11.0, kappa=0.7)
        if self.inference == "cvb0":
            return StreamingAverage(tau0=2.0, kappa=0.9)
        return StreamingAverage(tau0=[2.0, 11.0] if self.warm_up else 2.0, kappa=0.6)

    def phases(self) -> Sequence[int]:
        """Return the phases: after a warm-up, gibbs starts to sample, and later to keep topics.

        Kept topics may be read in another way once all tokens have them.
        """
        starts = {0, self.warm} if self.inference == "gibbs" else {0}
        if self.kept is not None:
            starts.add(self.kept.start)
            if self.kept.reads_counts(self.priors.eta):
                starts.add(self.kept.start + 1)
        return sorted(starts)

    def parts_at(self, told: int, passes: int) -> int | None:
        """Return the first pass that only the shorter run samples, or None."""
        if self.inference != "gibbs" or self._warm(told) == self._warm(passes):
            return None
        return min(self._warm(told), self._warm(passes))

    def _warm(self, passes: int) -> int:
        """Return how many passes of a run come before sampling."""
        return min(self.warm_up, passes - 1)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create lambda [V x K] with noise that makes topics differ.

        It is near 1, or small where topics are kept from the first pass on, so that words follow
        those of earlier blocks. Where topics have priors of their own, their tokens are added.
        """
        V, K = shapes.columns, self.topics
        by_block = self.inference != "gibbs"
        self.warm = 0 if by_block or not self.warm_up else self._warm(shapes.passes)
        wanted = self.assignments if self.needs.tokens else "fresh"
        self.kept = kept_topics(self, wanted, shapes, K, (self.warm, self.fresh_passes))
        level = 1.0 if self.kept is None or self.kept.start else FIRST_TOKENS
        noise = level * (0.8 + 0.4 * rng.uniform(V, K))
        seeds = None
        if self.seeds:
            seeds = seed_table(self.seeds, shapes.names, V, K, self.seed_weight)
        given = Given(self.alpha, self.eta, seeds)
        self.priors = TopicPriors(self, shapes, K, given, by_block=by_block)
        if self.priors.own is not None:
            noise = noise + self.priors.own
        self.lam = self.parameter("lambda", V, K, noise)
        self.theta = self.scratch("theta", shapes.rows, K)
        self.scale = self.number("documents in the corpus per document of the block", 1.0)
        self.replicas = self.number("topics of a token", 1.0)
        if self.kept is not None and self.kept.start >= shapes.passes > self.warm:
            self.notes.append(
                f"assignments of tokens are drawn afresh in all {shapes.passes} passes: they are "
                f"kept from pass {self.kept.start + 1} on"
            )
        if self.kept is None and not by_block and "auto" in (self.alpha, self.eta):
            self.notes.append("alpha and eta are not learned, and stay: they need kept assignments")
        if self.kept is None and self.eta != "auto":
            self.rests["lambda"] = self.priors.eta
        self.needs_optimizer = self.kept is None or self.kept.start > 0
        self.changes_occurring = not self.needs_optimizer
        keep_weights(self, self.term_weights, shapes)
        self.split_key = named(self.cache, "key of the split of held-out tokens", (1, 3), np.int64)

    def update(self, block: Block) -> None:
        """Run one E-step. The update is an estimate of lambda from this block alone.

        Kept assignments change counts instead, of which `end_pass` makes lambda.
        """
        X, theta, priors = block.X, self.theta, self.priors
        priors.begin()
        if self.kept is not None and block.phase >= self.kept.first:
            sweeps = self.burn_in + self.sweeps
            self.kept.redraw(block, self.lam, priors.eta, priors.alpha, sweeps)
            return
        self.scale.set(block.whole_rows / max(block.rows, 1))
        if self.inference == "gibbs" and block.phase >= min(self.warm, 1):
            X, alpha = self._cooled(block)
            X, phi = self._topics_of(X, geometric=False)
            rounds = {"burn": self.burn_in, "save": self.sweeps}
            drawn = sample_topics(X, phi, alpha, block.row_ids, block.key, **rounds)
            statistics = drawn.counts(self.topics)
            if self.column_sums:
                self.updates["lambda"] = SparseEstimate(X, None, statistics, self.scale)
                return
        else:
            vb = self.inference == "vb"
            theta <<= 1.0
            X, phi = self._topics_of(X, geometric=vb)
            infer, iterations = (infer_vb, 5) if vb else (infer_cvb0, 10)
            ratio = infer(X, theta, phi, priors.alpha, self.inner_iterations or iterations)
            if self.inference != "gibbs":
                found = priors.of_block(X, ratio, theta, phi, self.lam, collapsed=not vb)
                self.updates.update(found)
            if self.column_sums:
                self.updates["lambda"] = SparseEstimate(ratio, theta, phi, self.scale)
                return
            statistics = phi * (ratio.T @ theta)
        self.updates["lambda"] = self.with_terms(priors.eta + self.scale * statistics, block)

    def _cooled(self, block: Block) -> tuple[Sparse, Row]:
        """Return counts and alpha for m topics of each token: both are m times as large.

        All topics of a document share its proportions theta. So theta, by the density of its
        logarithms, has the m-th power of its posterior, and is drawn near the most probable one.
        Doucet, Godsill, Robert, Statistics and Computing 12 (2002); Zhao, Jiang, Canny, Jaros,
        *SAME but different*, KDD 2015, which draws theta, and cools phi, too.
        """
        if self.same == 1:
            return block.X, self.priors.alpha
        schedule = self.same if isinstance(self.same, list) else [self.same]
        m = schedule[min(block.pass_ - self.warm, len(schedule) - 1)]
        self.replicas.set(m)
        self.scale.set(block.whole_rows / max(block.rows, 1) / m)
        return (self.replicas * block.X).mat(), (self.replicas * self.priors.alpha).mat()

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
        """The name of each topic: that of its seeds, else its number."""
        return [*self.seeds, *map(str, range(len(self.seeds), self.topics))]

    def topic_words(self, top: int = 10, relevance: float = 1.0) -> list[list[tuple[int, float]]]:
        """List each topic's `top` words as (column, probability).

        relevance: 1: most probable words first; less favours words that other topics rarely have.
            See `relevant_words`.
        """
        return relevant_words(self.parameters["lambda"].shown(), top, relevance)


SCORE_ITERATIONS = 50  # enough for theta to settle, as in the common evaluators
