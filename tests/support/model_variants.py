"""Models under the contract: every model of the registry, and variants that compute differently.

A model without variants here is tested with its defaults: to be under test it needs no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.text.sentences import one_word_rows
from blocklearn.mixins import CosineSimilarity, Mixin
from blocklearn.models import (
    ALS,
    FM,
    GLM,
    LDA,
    MODELS,
    NMF,
    SVD,
    Components,
    GaussianMixture,
    KMeans,
    Model,
    PageRank,
    Ranking,
    Triangles,
    WordVectors,
)
from blocklearn.optimizers import LBFGS, AdaGrad, DualAscent, Optimizer

ROWS, COLUMNS = 90, 20
PRIORS = np.linspace(0.05, 2.0, COLUMNS * 3, dtype=np.float32).reshape(COLUMNS, 3)


class Variant(NamedTuple):
    """A model with its optimizer (None: its own).

    data: one of `data_for`; None: what the class says that it needs.
    mixins: terms added to the objective.
    """

    model: Model
    optimizer: Optimizer | None = None
    data: str | None = None
    mixins: Sequence[Mixin] = ()


VARIANTS: dict[str, dict[str, Variant]] = {
    "lda": {
        "vb": Variant(LDA(topics=3, inference="vb", inner_iterations=3)),
        "cvb0": Variant(LDA(topics=3, inference="cvb0", inner_iterations=3)),
        "wide": Variant(LDA(topics=3, inference="vb", inner_iterations=3), None, "wide"),
        "gibbs": Variant(LDA(topics=3, inference="gibbs", sweeps=2)),
        "expected": Variant(LDA(topics=3, sweeps=2, assignments="fresh", fresh_counts="expected")),
        "same": Variant(LDA(topics=3, inference="gibbs", sweeps=2, same=[1, 2], heat=4.0)),
        "kept": Variant(LDA(topics=3, assignments="kept", warm_up=1, fresh_passes=0, sweeps=2)),
        "priors": Variant(LDA(topics=3, inference="cvb0", inner_iterations=3, eta=PRIORS)),
        "learned": Variant(
            LDA(topics=3, inference="cvb0", inner_iterations=3, alpha="auto", eta="auto")
        ),
    },
    "glm": {
        "block": Variant(GLM(l1=1e-3), AdaGrad(rate=0.5)),
        "row": Variant(GLM(), AdaGrad(rate=0.5, step_per="row")),
        "full pass": Variant(GLM(l2=1e-2), LBFGS(memory=2)),
        "dual": Variant(GLM(l2=1e-2), DualAscent()),
        "dense": Variant(GLM(l2=1e-2), AdaGrad(rate=0.5), "dense labelled"),
    },
    "fm": {
        "block": Variant(FM(factors=3)),
        "full pass": Variant(FM(factors=3, l2=1e-2), LBFGS(memory=2), "dense labelled"),
        "fields": Variant(FM(factors=3, fields=[8, 12])),
    },
    "als": {
        "explicit cg": Variant(ALS(rank=3)),
        "explicit cholesky": Variant(ALS(rank=3, solver="cholesky")),
        "implicit cg": Variant(ALS(rank=3, loss="implicit")),
        "implicit cholesky": Variant(ALS(rank=3, loss="implicit", solver="cholesky")),
        "by need": Variant(ALS(rank=3), None, "few"),
        "rows of users": Variant(ALS(rank=3), None, "one-sided"),
        "steps of items": Variant(
            ALS(rank=3, item_equations_mib=0), AdaGrad(rate=0.1), "one-sided"
        ),
    },
    "nmf": {
        "frobenius": Variant(NMF(components=3)),
        "kullback-leibler": Variant(NMF(components=3, loss="kullback-leibler")),
        "batch": Variant(NMF(components=3, update_H="batch")),
        "weighed": Variant(NMF(components=3, term_weights="tf-idf")),
        "cosines": Variant(NMF(components=3), mixins=[CosineSimilarity(weight=1)]),
    },
    "kmeans": {
        "online": Variant(KMeans(clusters=3)),
        "batch": Variant(KMeans(clusters=3, update_centres="batch"), None, "dense labelled"),
        "spherical": Variant(KMeans(clusters=3, spherical=True)),
    },
    "svd": {
        "": Variant(SVD(components=3)),
        "exact": Variant(SVD(components=3, center=True, exact=True), None, "dense labelled"),
        "whitened": Variant(SVD(components=3, center=True, whiten=True), None, "dense labelled"),
    },
    "gaussian-mixture": {
        "": Variant(GaussianMixture(components=3)),
        "spherical": Variant(
            GaussianMixture(components=3, covariance="spherical", update_components="online")
        ),
        "full": Variant(
            GaussianMixture(components=3, covariance="full", update_components="online")
        ),
    },
    "pagerank": {
        "of sources": Variant(PageRank(), None, "links"),
        "of targets": Variant(PageRank(rows="targets"), None, "links"),
    },
    "components": {"": Variant(Components(), None, "links")},
    "triangles": {"": Variant(Triangles(), None, "links")},
    "word-vectors": {
        "": Variant(WordVectors(dimensions=3, window=2, draws=4, sample=0.1), None, "words")
    },
    "ranking": {"softmax": Variant(Ranking(rank=3, negatives=5))},
}
"""By the model's name in the registry, and by what makes the variant another one."""

ALIKE = {
    "lda cvb0", "lda wide", "lda same", "lda priors", "glm full pass", "glm dense", "fm full pass",
    "fm fields", "als implicit cholesky", "als rows of users", "nmf kullback-leibler",
    "nmf weighed", "nmf cosines", "kmeans spherical", "svd whitened",
    "gaussian-mixture full", "pagerank of targets",
}  # fmt: skip
"""Variants that join what two others do, or whose own part the tests of the model compare with its
definition: tests of all variants run them with `-m slow` only, or not at all.
"""


def variants() -> dict[str, Variant]:
    """All of them by name, models without a line above with their defaults."""
    return {
        f"{kind} {name}".strip(): variant
        for kind, model in MODELS.items()
        for name, variant in VARIANTS.get(kind, {"": Variant(model())}).items()
    }


class OneSided:
    """A source that has rows only."""

    def __init__(self, source: MatrixSource) -> None:
        """source: what it shows."""
        self.shape, self.blocks, self.names = source.shape, source.blocks, source.names
        self.fingerprint, self.read = source.fingerprint, source.read


@cache
def counts() -> sp.csr_array:
    """Counts [ROWS x COLUMNS] of three groups of columns; every row has one at least."""
    rng = np.random.default_rng(0)
    rates = np.where(np.arange(COLUMNS) % 3 == rng.integers(0, 3, ROWS)[:, None], 1.2, 0.1)
    found = rng.poisson(rates).astype(np.float32)
    found[:, 0] += found.sum(axis=1) == 0
    return sp.csr_array(found)


@cache
def texts() -> sp.csr_array:
    """Words [ROWS x COLUMNS] of texts of 19 words, one a row; an empty row ends a text."""
    words = np.random.default_rng(0).integers(0, COLUMNS, ROWS).astype(np.int32)
    words[19::20] = -1
    return sp.csr_array(one_word_rows(words, COLUMNS))


@cache
def labels() -> np.ndarray[Any, Any]:
    """Two targets of each row, 0 or 1."""
    rng = np.random.default_rng(1)
    return (counts() @ rng.standard_normal((COLUMNS, 2)) > 0).astype(np.float32)


def data_for(variant: Variant) -> Any:
    """What `bl.Learner` takes as its training data."""
    if variant.data == "one-sided":
        return OneSided(MatrixSource(counts(), block_rows=30))
    if variant.data == "links":
        return sp.csr_array(counts()[:COLUMNS])
    if variant.data == "words":
        return texts()
    if variant.data == "wide":  # most columns rest during a block
        return sp.csr_array(sp.hstack([counts(), sp.csr_array((ROWS, 10 * COLUMNS))]))
    if variant.data == "few":  # most users occur in no block of items
        return sp.csr_array(np.where(np.arange(ROWS)[:, None] % 37 < 2, counts().toarray(), 0.0))
    X = counts().toarray() if variant.data == "dense labelled" else counts()
    return (X, labels()) if variant.model.needs_targets else X


def features_of(data: Any) -> Any:
    """What `predict` takes of these data."""
    return data[0] if isinstance(data, tuple) else data


def trained(variant: Variant, **options: Any) -> bl.Learner:
    """A learner after three passes of blocks of 30 rows."""
    given: dict[str, Any] = {"passes": 3, "block_rows": 30, "threads": 1, "seed": 3, **options}
    data = data_for(variant)
    own = {"optimizer": variant.optimizer, "mixins": variant.mixins}
    return bl.Learner(variant.model, data, **own, **given).fit()
