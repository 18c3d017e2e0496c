"""Latent Dirichlet allocation as a scikit-learn estimator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np

from blocklearn.models import LDA
from blocklearn.models.lda.learned_priors import START
from blocklearn.models.lda.topic_priors import prior_of_topics
from blocklearn.optimizers import Optimizer, StreamingAverage

from ..base import MOST, Array, Tensors
from ..constraints import check_parameters
from ..constructor import estimator
from ..parameters import configured, plain, whole
from ..scikit import CALLER, UndefinedMetricWarning, check_is_fitted, with_callbacks
from .decomposition import Decomposition
from .topics import TopicTables


@estimator
class LatentDirichletAllocation(TopicTables, Decomposition):
    """Find topics of documents that are given as word counts X [documents x words].

    Parameters
    ----------
        n_components: number of topics.
        inference: "gibbs" (the best topics), "cvb0" (good topics fastest) or "vb" (as scikit-learn
            and gensim).
        assignments: for gibbs: "fresh" draws the topics of tokens anew in each pass. "kept" keeps
            them from the tenth pass on; a pass is then one sweep, or three with many tokens for
            each word and topic, so set max_iter to 100 to 300.
            "auto" keeps them if max_iter is at least 50 (10, if documents have 250 tokens or more
            on average; 20, if they have 80), or priors are learned, and the data allow it.
            `partial_fit` draws them anew.
        doc_topic_prior: a number, or one for each topic; None: 0.05. "auto": learned, one for each
            topic; gibbs needs kept assignments for it.
        topic_word_prior: a number, one for each word, or an array [topics x words]; None: 0.05.
            "auto": learned, one number.
        learning_offset: tau0 of the steps (tau0 + t)^-kappa; None: suits the inference.
        learning_decay: kappa of these steps; None: suits the inference.
        max_iter: passes.
        max_doc_update_iter: iterations of vb and cvb0 in each document; None: 5 and 10.
        total_samples: documents of the whole stream, for `partial_fit`; None: those seen so far.
        batch_size: documents of a block, at most. None: 16 to 1024, about 50 blocks a pass.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        components_: float32 [topics x words], parameters of the Dirichlet posterior of each topic's
            words. Normalised rows are the topics: see `get_topics`.
        doc_topic_prior_: float32 [topics], as given or learned.
        topic_word_prior_: as given or learned: float, float32 [words] or [topics x words].
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    `TopicTables` has methods named as in gensim.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.kron(np.eye(2, dtype=int), np.full((20, 3), 4))
    >>> lda = bl.LatentDirichletAllocation(n_components=2, random_state=0).fit(X)
    >>> lda.transform(X[[0, 39]]).max(axis=1).round(1)
    array([1., 1.], dtype=float32)
    """

    n_components: int = 10
    _: KW_ONLY
    inference: Literal["gibbs", "cvb0", "vb"] = "gibbs"
    assignments: Literal["fresh", "kept", "auto"] = "auto"
    doc_topic_prior: Any = None
    topic_word_prior: Any = None
    learning_offset: float | None = None
    learning_decay: float | None = None
    max_iter: int = 10
    max_doc_update_iter: int | None = None
    total_samples: int | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored.

        Warns if priors that are "auto" were not learned.
        """
        check_parameters(self)
        X = self._check(X, reset=True)
        self._warm_up: int | None = None
        self._fit(X, {"X": X}, self._optimizer())
        for name in ("doc_topic_prior", "topic_word_prior"):
            found = getattr(self, f"{name}_")
            if is_auto(getattr(self, name)) and np.all(np.float32(found) == np.float32(START)):
                warnings.warn(
                    f"{type(self).__name__}: {name}='auto': was not learned, and is {START}. gibbs "
                    "learns it in pass 10 or later, from whole counts; vb and cvb0 from more than "
                    "50 blocks. Raise max_iter, or give numbers.",
                    stacklevel=CALLER,
                )
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Make one more pass, over X; y is ignored."""
        check_parameters(self)
        first = not self._has_begun()
        X = self._check(X, reset=first)
        if first:  # the length of the stream is unknown
            self._warm_up = 0
        return self._go_on(X, self._optimizer(), self.total_samples)

    def transform(self, X: Any) -> Array:
        """Return topic proportions of each document, float32 [n x topics]; rows sum to 1.

        An empty document gets those of the prior.
        """
        check_is_fitted(self)
        return self._predictions(self._check(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log likelihood of a held-out word, -log(perplexity); higher is better."""
        return -math.log(self.perplexity(X))

    def perplexity(self, X: Any) -> float:
        """Return the perplexity of documents that were not trained on, by document completion.

        Half of a document's words infer its topics; the other half are predicted (Wallach et al.
        2009). The definition does not depend on the inference. scikit-learn's perplexity is exp of
        a bound, and higher. It is NaN, with a warning, if no document has two words or more.
        """
        found = self._evaluated(self._check(X, reset=False))["perplexity"]
        if math.isnan(found):
            told = "perplexity is not defined: no document has two words, one to predict"
            warnings.warn(f"{type(self).__name__}: {told}.", UndefinedMetricWarning, stacklevel=2)
        return found

    # ------------------------------------------------------------- details

    def _most_of(self, X: Any) -> int:
        """Return the rows of a block of predictions, which must stay: topics are drawn by block."""
        return MOST

    def _model(self) -> LDA:
        names = {
            "topics": "n_components",
            "inference": "inference",
            "alpha": "doc_topic_prior",
            "eta": "topic_word_prior",
            "inner_iterations": "max_doc_update_iter",
        }
        fields: dict[str, Any] = {"warm_up": self._warm_up}
        if self._warm_up is None:
            names["assignments"] = "assignments"
        else:
            self._check_stream(names)
            fields["assignments"] = "fresh"
        prior = self.topic_word_prior
        if np.ndim(prior) == 2:
            del names["eta"]
            fields["eta"] = np.asarray(prior, np.float32).T
            wanted = (self.n_components, self.n_features_in_)
            if np.shape(prior) != wanted:
                raise ValueError(
                    f"{type(self).__name__}: topic_word_prior has the shape {np.shape(prior)}: "
                    f"must have {wanted}, [topics x words]."
                )
        return configured(self, LDA, names, **fields)

    def _check_stream(self, names: Mapping[str, str]) -> None:
        """Raise ValueError where `partial_fit`, which sees new documents, cannot learn a prior."""
        for name in (names["alpha"], names["eta"]):
            if self.inference == "gibbs" and is_auto(getattr(self, name)):
                raise ValueError(
                    f"{type(self).__name__}: {name}='auto': must be numbers for partial_fit, which "
                    "keeps no assignments. Call fit, or set inference='cvb0'."
                )

    def _optimizer(self) -> Optimizer:
        """Return the model's own optimizer with the given offset and decay."""
        default = self._model().for_run(whole(self, "max_iter")).default_optimizer()
        assert isinstance(default, StreamingAverage)
        names = {"tau0": "learning_offset", "kappa": "learning_decay"}
        given = {f: n for f, n in names.items() if getattr(self, n) is not None}
        rest = {f: getattr(default, f) for f in names.keys() - given.keys()}
        return configured(self, StreamingAverage, given, **rest)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        alpha, eta = self.doc_topic_prior, self.topic_word_prior
        own = tensors("eta")[0, 0] if is_auto(eta) else given(eta)
        topics = tensors("alpha")[0] if is_auto(alpha) else plain(given(alpha))
        return {
            "components_": tensors("lambda").T,
            "doc_topic_prior_": prior_of_topics(topics, self.n_components),
            "topic_word_prior_": np.asarray(own, np.float32) if np.ndim(own) else float(own),
        }

    def _tensors(self, rows: int) -> dict[str, Array]:
        found = {"lambda": np.ascontiguousarray(self.components_.T, np.float32)}
        if np.ndim(self.topic_word_prior) == 2:
            found["eta"] = np.ascontiguousarray(np.transpose(self.topic_word_prior), np.float32)
        if is_auto(self.topic_word_prior):
            found["eta"] = np.full((1, 1), self.topic_word_prior_, np.float32)
        if is_auto(self.doc_topic_prior):
            found["alpha"] = self.doc_topic_prior_[None]
        return found


def is_auto(prior: Any) -> bool:
    """Return whether a prior is to be learned."""
    return isinstance(prior, str) and prior == "auto"


def given(prior: Any) -> Any:
    """Return a prior that is not learned."""
    return START if prior is None else prior
