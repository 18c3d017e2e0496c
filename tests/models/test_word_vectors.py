"""Vectors of words: their step against NumPy, what they tell, and refused data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.datasources.sampling.windows import Windows, WindowSource, counts_of
from blocklearn.datasources.text.sentences import one_word_rows
from blocklearn.models import WordVectors
from blocklearn.models.word_vectors import LONGEST


def texts(rows: int, words: int, groups: int, seed: int = 0) -> Any:
    """Texts of 20 words, each of one of the groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, rows // 20).repeat(20)
    found = (rng.integers(0, words // groups, group.size) * groups + group).astype(np.int32)
    found[19::20] = -1
    return sp.csr_array(one_word_rows(found, words))


def test_a_step_is_that_of_the_paper() -> None:
    X = texts(200, 12, 3)
    model = WordVectors(dimensions=4, window=2, draws=3, sample=0.0, rate=0.1)
    options: dict[str, Any] = {"threads": 1, "seed": 5, "verbose": False}
    data = MatrixSource(X, block_rows=200)
    before, after = (bl.Learner(model, data, passes=n, **options).fit() for n in (1, 2))
    v, u = (before.parameter(name).astype(np.float64) for name in ("vectors", "contexts"))

    windows = WindowSource(data, counts_of(data), Windows(2, 5.0, 3), 5)
    block = HostBlock(windows.shape)
    windows.read(0, 0, block)
    rate = 0.1 * (1 - block.rows / (2 * X.nnz))
    windows.read(1, 0, block)
    at, rows = block.indptr, block.rows
    dense = sp.csr_array((block.values, block.indices, at), shape=(200, 12)).toarray()[:rows]
    center = block.targets[:rows, 0].astype(int)
    scores = v[center] @ u.T
    slopes = dense / (1 + np.exp(np.where(dense > 0, scores, -scores)))
    steps = np.zeros_like(v)
    np.add.at(steps, center, slopes @ u)
    lengths = []
    for name, old, g in (("vectors", v, steps), ("contexts", u, slopes.T @ v[center])):
        length = rate * np.linalg.norm(g, axis=1, keepdims=True)
        expected = old + rate * g / np.maximum(1.0, length / LONGEST)
        np.testing.assert_allclose(after.parameter(name), expected, rtol=1e-4, atol=1e-6)
        lengths += [length.min(), length.max()]
    assert min(lengths) < LONGEST < max(lengths)


def test_words_of_the_same_texts_get_similar_vectors() -> None:
    X = texts(20_000, 12, 3)
    model = WordVectors(dimensions=4, window=3, sample=0.0)
    data = MatrixSource(X, block_rows=1000)
    learner = bl.Learner(model, data, passes=2, threads=1, verbose=False).fit()
    vectors = learner.parameter("vectors")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    same = np.arange(12)[:, None] % 3 == np.arange(12) % 3
    near = unit @ unit.T
    assert near[same].min() > near[~same].max()
    assert learner.evaluate(texts(2000, 12, 3, seed=1))["above_random"] > 0.6
    np.testing.assert_array_equal(
        learner.parameter("counts")[:, 0], np.bincount(X.indices, minlength=12)
    )


def test_predictions_are_means_of_vectors() -> None:
    data = MatrixSource(texts(200, 12, 3), block_rows=100)
    learner = bl.Learner(WordVectors(dimensions=4), data, passes=1, verbose=False).fit()
    rows = np.zeros((2, 12), np.float32)
    rows[0, [3, 5]] = 2.0, 1.0
    found = learner.predict(sp.csr_array(rows))
    vectors = learner.parameter("vectors")
    np.testing.assert_allclose(found[0], (2 * vectors[3] + vectors[5]) / 3, rtol=1e-5)
    np.testing.assert_array_equal(found[1], 0.0)


def test_rows_keep_their_order_and_must_be_words() -> None:
    X = texts(200, 12, 3)
    learner = bl.Learner(WordVectors(dimensions=2), X, block_rows=50, verbose=False)
    block = HostBlock(learner.data.given[0].shape)  # type: ignore[union-attr]
    learner.data.given[0].read(1, 1, block)  # type: ignore[union-attr]
    assert block.row_ids.tolist() == list(range(50, 100))
    with pytest.raises(bl.datasources.DataError, match="row 0 has several words"):
        bl.Learner(WordVectors(), sp.csr_array(np.ones((9, 3))), verbose=False).fit()
