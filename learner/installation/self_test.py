"""Train for some seconds with known results, to see whether this installation computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from blocklearn.datasources import MatrixSource
from blocklearn.models import ALS, GLM, LDA, Model

from ..learner import Learner

TOLERANCE = 0.03  # relative; other processors round differently
PASSES = 20  # enough for the result not to depend on the path


class Result(NamedTuple):
    """A figure of a self test.

    expected: its value on machines that compute correctly.
    same_bits: whether one thread and several gave the same bits.
    """

    name: str
    figure: str
    value: float
    expected: float
    same_bits: bool

    @property
    def good(self) -> bool:
        """Whether the figure and the bits are right."""
        near = abs(self.value - self.expected) <= TOLERANCE * abs(self.expected)
        return near and self.same_bits


def self_test() -> Iterator[Result]:
    """Train three models on generated data, on one thread and on three.

    The models are a topic model, a linear model and a factorisation.
    """
    rng = np.random.RandomState(1)  # its numbers do not depend on NumPy's version
    yield _compare("topic model", LDA(topics=5), *_documents(rng), "perplexity", 19.673)
    yield _compare("linear model", GLM(), *_labelled(rng), "log_loss", 0.09238)
    yield _compare("factorisation", ALS(rank=4, reg=0.01), *_ratings(rng), "rmse", 0.11905)


def _compare(
    name: str, model: Model, train: Any, held_out: Any, figure: str, expected: float
) -> Result:
    found = []
    for threads in (1, 3):
        learner = Learner(
            model,
            train,
            held_out,
            passes=PASSES,
            block_rows=50,
            seed=1,
            threads=threads,
            verbose=False,
        ).fit()
        found.append(learner)
    one, several = (learner.state() for learner in found)
    same = all(one.tensors[n].tobytes() == several.tensors[n].tobytes() for n in one.tensors)
    value = found[0].progress.scores[figure]
    for learner in found:
        learner.close()
    return Result(name, figure, value, expected, same)


def _documents(rng: np.random.RandomState) -> tuple[Any, Any]:
    """Return counts of 50 words in documents of five topics."""
    topics = rng.dirichlet(np.full(50, 0.1), 5)
    shares = rng.dirichlet(np.full(5, 0.2), 400)
    counts = sp.csr_array(rng.poisson(30 * shares @ topics))
    return counts[:350], counts[350:]


def _labelled(rng: np.random.RandomState) -> tuple[Any, Any]:
    """Return sparse rows with a label that depends on their first numbers."""
    X = sp.csr_array(rng.rand(1000, 40) * (rng.rand(1000, 40) < 0.2))
    labels = (X[:, :5].sum(axis=1) > 0.5).astype(np.float32)
    return (X[:800], labels[:800]), (X[800:], labels[800:])


def _ratings(rng: np.random.RandomState) -> tuple[Any, Any]:
    """Return products of factors plus noise, of which a part is held out."""
    whole = rng.randn(300, 4) @ rng.randn(4, 80) + 0.1 * rng.randn(300, 80)
    role = rng.rand(300, 80)
    train, held_out = whole * (role < 0.4), whole * ((role >= 0.4) & (role < 0.5))
    first, second = (MatrixSource(sp.csr_array(part), block_rows=50) for part in (train, held_out))
    return first, second
