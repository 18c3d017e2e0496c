"""The settings of LDA, and what follows from them before there are data.

Longer than 300 lines: half of it is fields with their descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import Field, field_validator, model_validator

from blocklearn.datasources import DataSource
from blocklearn.datasources.source import mean_sum, rows_last
from blocklearn.matcache.operations.sampling import CAP
from blocklearn.optimizers import Optimizer, StreamingAverage

from ..base import Model
from ..block_size import BlockSize
from ..inputs import Needs
from ..term_weights import TermWeights
from .learned_priors import problem_of_auto
from .limits import FEW, MANY_TOKENS, MOST_FRESH, SWEEPS, most_kept
from .long_documents import (
    EACH,
    ENOUGH,
    FEWEST,
    FIRST,
    FRESH_OF_LONG,
    FRESH_OF_MEDIUM,
    HEAT,
    KEPT_SWEEPS,
    LONG,
    MEDIUM,
    MOST,
    PASSES_OF_LONG,
    PASSES_OF_MEDIUM,
    SHORT,
    counts_of,
    first_of,
    fresh_passes_of,
    heat_of,
    sweeps_of,
)
from .prior_table import PriorTable
from .seeds import problem as seed_problem

MANY_PASSES = 50  # of a run, from which kept topics are the better ones for the time they take
WARM = 30  # topics up to which runs of as many passes begin with one of cvb0
WARM_ITERATIONS = 3  # of a document, in that pass: after ten, topics are less coherent
KEPT_BLOCKS = 8  # of a pass, where topics are kept from the start: exact counts need no more

Positive = Annotated[float, Gt(0), Lt(1e30)]
Copies = Annotated[int, Ge(1), Le(CAP)]


def _warm_up(fields: Mapping[str, object]) -> int:
    """Return how many passes of cvb0 sampling begins with by default.

    One is enough to find topics of seed words. Drawn topics may settle without these words.
    """
    topics = fields["topics"]
    if fields["seeds"]:
        return 1
    if fields["assignments"] != "fresh":
        return 1 if isinstance(topics, int) and topics <= WARM else 0
    return 0 if _samples_many(fields) else 1


def _fresh_passes(fields: Mapping[str, object]) -> int:
    """Return how many passes draw topics afresh before they are kept, by default."""
    return 0 if _samples_many(fields) else FIRST - (1 if fields["warm_up"] else 0)


def _samples_many(fields: Mapping[str, object]) -> bool:
    topics = fields["topics"]
    return fields["inference"] == "gibbs" and isinstance(topics, int) and topics > FEW


class LDASettings(Model):
    """Settings of `LDA`, and the blocks, passes and optimizer that suit them.

    Passes of gibbs are of three kinds, in this order:

    1. `warm_up` passes of cvb0, with `inner_iterations`.
    2. Passes that draw topics afresh: `fresh_passes`, or all that are left if none are kept. Each
       makes `burn_in + sweeps` sweeps, with an alpha that falls from `heat` times its value.
       `fresh_counts` says which topics count; with `same`, a token has several at a time.
    3. Passes over kept topics. In the first one tokens get their topics, in `burn_in + sweeps`
       sweeps; each later one makes `kept_sweeps`.

    What is not given is decided as soon as it can be: by the other settings (`_warm_up`,
    `_fresh_passes`), the number of passes (`for_run`), the mean length of documents (`for_data`),
    or the number of tokens (`kept_topics`, `fresh_topics`).
    """

    block_size: ClassVar[BlockSize] = BlockSize(least=16)  # documents may be long
    kind: Literal["lda"] = "lda"
    topics: int = Field(100, ge=1, lt=2**31, description="number of topics, K")
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
    inner_iterations: Annotated[int, Ge(1), Lt(2**31)] | None = Field(
        None,
        description="iterations per document of vb (null: 5) and cvb0 (null: 10; in a pass before "
        f"kept topics {WARM_ITERATIONS}, but 10 in runs of fewer than {MANY_PASSES} passes)",
    )
    assignments: Literal["fresh", "kept", "auto"] = Field(
        "auto",
        description="gibbs: topics of tokens are drawn afresh in each pass, or kept from pass to "
        f"pass. auto keeps them in runs of {MANY_PASSES} passes or more, or to learn priors, where "
        f"the data allow. If lengths of documents are known and `sweeps` is auto, {PASSES_OF_LONG} "
        f"passes are enough for documents of {LONG:g} tokens or more on average, and "
        f"{PASSES_OF_MEDIUM} for documents of {MEDIUM:g} or more and up to {FEW} topics",
    )
    warm_up: Annotated[int, Ge(0), Lt(2**31)] = Field(
        default_factory=_warm_up,
        description="gibbs: number of first passes that use cvb0 instead; the last pass always "
        f"samples. Default: 1 with `seeds`, up to {WARM} topics, and in runs of fewer than "
        f"{MANY_PASSES} passes up to {FEW}; else 0. Without `seeds` it is 0 if documents are known "
        "to be long (see `sweeps`). With 1 the first passes learn more; with 0 many topics are "
        "better after many passes",
    )
    fresh_passes: Annotated[int, Ge(0), Lt(2**31)] = Field(
        default_factory=_fresh_passes,
        description="gibbs with kept assignments: number of passes after `warm_up` that draw "
        "topics afresh. They find topics sooner; each costs `burn_in + sweeps` sweeps of all "
        f"topics. Default: {FIRST} up to {FEW} topics, one less after a warm-up; else 0. Where "
        f"`assignments: auto` keeps topics in runs of fewer than {MANY_PASSES} passes: "
        f"{FRESH_OF_MEDIUM}, for long documents {FRESH_OF_LONG}",
    )
    burn_in: Annotated[int, Ge(0), Lt(2**31)] = Field(
        1, description="gibbs: sweeps that are not counted"
    )
    sweeps: Annotated[int, Ge(1), Lt(2**31)] | Literal["auto"] = Field(
        "auto",
        description="gibbs: sweeps that are averaged; kept assignments have burn_in + sweeps "
        f"in their first pass. auto: {SHORT}; if documents are known to have {LONG:g} tokens or "
        f"more on average, one for each {EACH:g} tokens, {FEWEST} to {MOST}",
    )
    heat: Annotated[float, Ge(1), Le(1000)] | Literal["auto"] = Field(
        "auto",
        description="gibbs: times alpha in the first pass that draws topics afresh; it falls to "
        f"alpha in later ones. auto: {HEAT:g} where `sweeps: auto` finds long documents, else 1",
    )
    fresh_counts: Literal["drawn", "expected", "auto"] = Field(
        "auto",
        description="gibbs: which topics of tokens count in passes that draw them afresh: those "
        "drawn, or those expected, given the mean of a document's topics over the sweeps. auto: "
        f"expected up to {FEW} topics if documents are known to have {ENOUGH:g} to {LONG:g} tokens "
        "on average, which finds topics sooner, and `sweeps` is auto; else drawn",
    )
    kept_sweeps: Annotated[int, Ge(1), Lt(2**31)] | Literal["auto"] = Field(
        "auto",
        description="gibbs with kept assignments: sweeps in each pass after their first one. auto: "
        f"{SWEEPS} with {MANY_TOKENS:g} tokens or more for each word and topic, up to {FEW} "
        f"topics; {KEPT_SWEEPS} where `assignments: auto` keeps topics in runs of fewer than "
        f"{MANY_PASSES} passes; else 1",
    )
    same: Annotated[list[Copies], MinLen(1)] | Copies = Field(
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
        names = self.eta.topics if isinstance(self.eta, PriorTable) else None
        if names is not None and len(names) != self.topics:
            raise ValueError(f"eta.topics: {len(names)} names, but there are {self.topics} topics")
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
        """Return the model with what its table of priors and the length of the run decide."""
        if not isinstance(self.eta, PriorTable):
            return self._of_length(passes, begun)
        eta = self.eta.named(None if begun is None else begun.get("eta"))
        return self.model_copy(update={"eta": eta})._of_length(passes, begun)

    def _of_length(self, passes: int, begun: Mapping[str, object] | None) -> Self:
        """Return the model with assignments that are fresh in short runs, if they are "auto".

        A run that resumes keeps its sweeps and first passes. An earlier version began with 9 sweeps
        where none were given, and counted drawn topics.
        """
        decided = self.sweeps != "auto" and "sweeps" not in self.model_fields_set
        if decided or "auto" not in (self.sweeps, self.heat, self.kept_sweeps):
            return self  # its data, the run that resumes, or the run that recorded it, decided
        learns = "auto" in (self.alpha, self.eta)
        fields: dict[str, object] = {}
        if begun is not None:
            own = {"sweeps", "heat", "warm_up", "fresh_passes", "kept_sweeps", "inner_iterations"}
            own -= self.model_fields_set
            fields |= {name: begun.get(name, getattr(self, name)) for name in own}
            if "fresh_counts" not in self.model_fields_set:
                fields["fresh_counts"] = begun.get("fresh_counts", "drawn")
        fresh = passes < MANY_PASSES if begun is None else begun.get("assignments") == "fresh"
        if self.assignments == "auto" and fresh and not learns and self.topics <= MOST_FRESH:
            fields["assignments"] = "fresh"
            if "warm_up" not in self.model_fields_set:
                known = {name: getattr(self, name) for name in ("inference", "topics", "seeds")}
                known |= fields
                fields["warm_up"] = (begun or {}).get("warm_up", _warm_up(known))
        if begun is None and self.needs.tokens and "inner_iterations" not in self.model_fields_set:
            fields["inner_iterations"] = None if "assignments" in fields else WARM_ITERATIONS
        return self._choose(fields)

    def for_data(self, source: DataSource, passes: int) -> Self:
        """Return the model with passes that suit the lengths of documents.

        In short runs topics are kept after some of them, unless `fresh` was given. In longer runs
        topics are kept anyway, and know the lengths: see `fresh_topics`. Only how these begin is
        decided here.
        """
        plain = self.inference == "gibbs" and self.same == 1 and self.term_weights == "none"
        if not plain or self.sweeps != "auto":
            return self
        tokens, given = mean_sum(source) or 0.0, self.model_fields_set
        if self.needs.tokens:
            first = first_of(tokens) if self.topics <= FEW and not self.seeds else {}
            return self._choose({n: value for n, value in first.items() if n not in given})
        fields: dict[str, object] = {"sweeps": sweeps_of(tokens)}
        if self.heat == "auto":
            fields["heat"] = heat_of(tokens)
        if self.fresh_counts == "auto":
            fields["fresh_counts"] = counts_of(tokens, self.topics)
        others: dict[str, object] = {} if self.seeds else dict(first_of(tokens))
        after = fresh_passes_of(tokens, self.topics, passes)
        if after and "assignments" not in given and rows_last(source):
            others |= {"assignments": "auto", "fresh_passes": after, "kept_sweeps": KEPT_SWEEPS}
        fields |= {name: value for name, value in others.items() if name not in given}
        return self._choose(fields)

    def _choose(self, fields: Mapping[str, object]) -> Self:
        """Return a copy with chosen values of fields, which do not count as given."""
        copy = self.model_copy(update=fields)
        copy.model_fields_set.difference_update(fields)
        return copy

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

    def parts_at(self, told: int, passes: int) -> int | None:
        """Return the first pass that only the shorter run samples, or None."""
        if self.inference != "gibbs" or self.warm_of(told) == self.warm_of(passes):
            return None
        return min(self.warm_of(told), self.warm_of(passes))

    def warm_of(self, passes: int) -> int:
        """Return how many passes of a run come before sampling."""
        return min(self.warm_up, passes - 1)
