"""Kernels that reading calls are known ahead, with the types of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource, block
from blocklearn.datasources.memory import matrix, order
from blocklearn.matcache.cpu.compiling.compiled import type_of
from blocklearn.models import topic_quality

Signature = tuple[Any, tuple[Any, ...]]


def noted(monkeypatch: pytest.MonkeyPatch, module: Any, names: list[str]) -> set[Signature]:
    """Note the kernels of these names that a module calls, and the types of arguments."""
    found: set[Signature] = set()

    def noting(kernel: Any) -> Any:
        def call(*args: Any) -> Any:
            found.add((kernel, tuple(map(type_of, args))))
            return kernel(*args)

        return call

    for name in names:
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return found


def expected(calls: Any) -> set[Signature]:
    return {(kernel, tuple(map(type_of, args))) for kernel, *args in calls}


@pytest.mark.parametrize("columns", [5, 5000], ids=["counted", "sorted"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("values", [np.float32, np.float64])
def test_kernels_of_a_reader(
    monkeypatch: pytest.MonkeyPatch, columns: int, index: Any, values: Any
) -> None:
    X = sp.random_array((20, columns), density=0.2, rng=np.random.default_rng(0), dtype=values)
    X = X.tocsr()
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    source = MatrixSource(X, block_rows=8, shuffle=True)
    known = expected(source.reading_calls(indexed=True))
    called = noted(monkeypatch, matrix, ["gather_csr"])
    counted = noted(monkeypatch, order, ["count_up"])
    turned = noted(monkeypatch, block, ["transpose_by_counting", "transpose_csr"])
    into = HostBlock(source.shape)
    source.read(0, 0, into)
    into.transpose()
    assert called and counted and turned and called | counted | turned == known
    assert len(source.reading_calls(indexed=False)) == 2
    assert MatrixSource(X, block_rows=8).reading_calls(indexed=True) == []
    assert MatrixSource(X.toarray(), shuffle=True).reading_calls(indexed=True) == []


def test_kernels_of_the_quality_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.csr_array(np.random.default_rng(0).poisson(0.5, (40, 30)).astype(np.float32))
    learner = bl.Learner(bl.models.LDA(topics=3), X, X, threads=1, verbose=False).fit()
    known = expected(learner.model.data_scores()[0].calls())
    names = ["first_words", "index_words", "count_pairs", "closeness"]
    called = noted(monkeypatch, topic_quality, names)
    learner.evaluate(X)
    assert len(called) == 4 and called == known
    learner.close()
