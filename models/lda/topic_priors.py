"""Hold the priors of LDA: alpha of a document's topics, eta of a topic's words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, Number, Rows, Sparse, Table, from_array, total, where

from ..errors import ModelConfigError
from ..inputs import Shapes
from .kept_topics import KeptTopics
from .learned_priors import (
    START,
    alpha_of_block,
    eta_of_counts,
    eta_of_topics,
    gains_of_cvb0,
    gains_of_vb,
    learn_alpha,
    terms_of_alpha,
)
from .prior_table import PriorTable
from .seeds import seed_table
from .settings import LDASettings

FLAT = 50.0  # blocks after which topics differ: flat ones make large priors, which keep them flat
Alpha = float | list[float] | Literal["auto"]


class TopicPriors:
    """The priors of a replica.

    What is learned is a parameter, `alpha` [1 x K] or `eta` [1 x 1]. So is a prior of each word in
    each topic, `eta` [V x K], which no step changes.

    alpha: [1 x K].
    eta: [V x 1]; with seeds, or with a prior of each word in each topic, [V x K].
    own: [V x K], tokens that topics have before any data; None: they begin alike.
    """

    own: Mat | None = None

    def __init__(self, model: LDASettings, shapes: Shapes, kept: KeptTopics | None) -> None:
        """Make the priors as the model's. kept: see `kept_topics`."""
        V, topics, cache = shapes.columns, model.topics, model.cache
        alpha, eta, seeds = model.alpha, model.eta, None
        if model.seeds:
            seeds = seed_table(model.seeds, shapes.names, V, topics, model.seed_weight)
        by_block = model.inference != "gibbs"  # else the end of a pass moves what is learned
        merge: Literal["mean", "same"] = "mean" if by_block else "same"
        first = prior_of_topics(alpha, topics)
        self._learns_alpha = alpha == "auto"
        self._sum = model.number("sum of alpha", float(np.sum(first)))
        if self._learns_alpha:
            self.alpha = model.parameter("alpha", 1, topics, first[None], merge=merge)
            if kept is not None:  # the learner then adds up these terms before the end of a pass
                kept.topics.terms = partial(terms_of_alpha, self.alpha)
        else:
            self.alpha = from_array(cache, first[None], "alpha")
        self._number: Mat | None = None
        if by_block and "auto" in (alpha, eta):
            self._blocks = model.statistic("blocks", 1, 1)
        if isinstance(eta, PriorTable):
            self.eta = self.own = _own_prior(model, eta, seeds, shapes)
        elif eta == "auto":
            self._number = model.parameter("eta", 1, 1, START, merge=merge)
            self.eta = model.scratch("eta of words", V, 1)
        else:
            numbers = vector(eta, V, "eta", "words")[:, None]
            if seeds is not None:
                numbers = numbers + seeds
                self.own = from_array(cache, seeds, "seeds")
            self.eta = from_array(cache, numbers, "eta")

    @property
    def alpha_sum(self) -> Number:
        """The sum of alpha."""
        return total(self.alpha) if self._learns_alpha else self._sum

    def begin(self) -> None:
        """Make `eta` of what has been learned."""
        if self._number is not None:
            self.eta <<= self._number

    def of_block(
        self, X: Sparse, ratio: Sparse, theta: Rows, phi: Table, lam: Table, *, collapsed: bool
    ) -> dict[str, Table]:
        """Return the estimates that a block gives of what is learned, by name.

        They are the present values in the first `FLAT` blocks.

        ratio, theta: as `infer_vb` leaves them, or if `collapsed` `infer_cvb0`.
        """
        found = {}
        if self._learns_alpha:
            gains = gains_of_cvb0 if collapsed else gains_of_vb
            each = gains(ratio, theta, phi, self.alpha)
            found["alpha"] = (self.alpha, alpha_of_block(self.alpha, each, X))
        if self._number is not None:
            found["eta"] = (self._number, eta_of_topics(self._number, lam, collapsed=collapsed))
        if not found:
            return {}
        self._blocks <<= self._blocks + 1.0
        begun = where(self._blocks > FLAT, 1.0, 0.0)
        return {name: now + begun * (then - now) for name, (now, then) in found.items()}

    def end_pass(self, kept: KeptTopics) -> None:
        """Learn from topics that are kept, at the end of a pass."""
        if self._learns_alpha and kept.topics.sums is not None:  # None: memory is being planned
            learn_alpha(self.alpha, kept.topics.sums)
        if self._number is not None:
            self._number <<= eta_of_counts(self._number, kept.counts, kept.totals)
            self.begin()


def prior_of_topics(alpha: Alpha, topics: int) -> NDArray[np.float32]:
    """Return alpha [K], as it is before any is learned."""
    return vector(START if isinstance(alpha, str) else alpha, topics, "alpha", "topics")


def _own_prior(
    model: LDASettings, prior: PriorTable, seeds: NDArray[np.float32] | None, shapes: Shapes
) -> Mat:
    """Make the parameter `eta` [V x K], which no step changes; saved models have it."""
    V, K = shapes.columns, model.topics
    if "eta" in shapes.restored:
        return model.parameter("eta", V, K, merge="same")
    table = prior.numbers(shapes.names, V, K)
    first = table if seeds is None else table + seeds
    return model.parameter("eta", V, K, first, merge="same")


def vector(value: float | Sequence[float], length: int, name: str, of: str) -> NDArray[np.float32]:
    """Return `value` as float32 [length]. Raises ModelConfigError for another length."""
    array = np.asarray(value, dtype=np.float32)
    if array.ndim == 0:
        return np.full(length, array, dtype=np.float32)
    if array.shape != (length,):
        raise ModelConfigError(
            f"LDA: {name} has {array.size} numbers, but there are {length} {of}; give one number, "
            "or one for each."
        )
    return array


def notes_of_learning(model: LDASettings, kept: KeptTopics | None, shapes: Shapes) -> list[str]:
    """Return a note on priors that are "auto" and that a run is too short to learn, if any."""
    names = [name for name in ("alpha", "eta") if getattr(model, name) == "auto"]
    if not names:
        return []
    if model.inference != "gibbs":
        blocks = -(-shapes.total_rows // max(shapes.rows, 1)) * shapes.passes
        stays = blocks <= FLAT and shapes.of_rows is None
        why = f"this begins after {FLAT:g} blocks, and the run has {blocks:,}"
    elif kept is None:
        stays, why = True, "this needs kept assignments"
    else:
        stays = kept.start >= shapes.passes
        why = f"this begins in pass {kept.start + 1}, and the run has {shapes.passes}"
    return [f"{' and '.join(names)}: auto, but not learned: {why}"] if stays else []
