"""No array memory is allocated once training is warm; and a model that allocates is stopped."""

from __future__ import annotations

import gc
import inspect
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.hooks import Hook
from blocklearn.matcache import AllocationAfterWarmupError, colsum, rowsum

ROWS, COLUMNS, TOPICS, BLOCK = 1100, 700, 256, 256  # the last block of a pass has 76 rows
SMALLEST = 4 * BLOCK * TOPICS  # bytes of the smallest matrix of the model: 256 kB


def documents() -> Any:
    """Long documents first, so that blocks differ in their non-zeros by a factor of ten."""
    rng = np.random.default_rng(0)
    rates = np.geomspace(0.4, 0.02, ROWS)[:, None] * rng.dirichlet(np.ones(COLUMNS)) * COLUMNS
    return sp.csr_array(rng.poisson(rates).astype(np.float32))


def array_bytes() -> int:
    """Memory that NumPy holds, as it reports it to tracemalloc."""
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    statistics = tracemalloc.take_snapshot().filter_traces([domain]).statistics("filename")
    return sum(s.size for s in statistics)


class Watch(Hook):
    """Array memory after every block, and the most that was in use above that within a block."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.peaks: list[int] = []
        self.nnz: set[int] = set()

    def start(self, learner: Any, progress: Any) -> None:
        tracemalloc.start()

    def block(self, learner: Any, progress: Any) -> None:
        current, peak = tracemalloc.get_traced_memory()
        self.peaks.append(peak - current)
        self.nnz.add(learner.team.first.intakes[0]._X.pattern.nnz)
        self.held.append(array_bytes())
        gc.collect()
        tracemalloc.reset_peak()


@pytest.mark.parametrize("recorded", [False, True])
def test_passes_of_lda_allocate_nothing(recorded: bool, monkeypatch: Any) -> None:
    """Not for a moment. What caches count is in tests/models/test_contract.py, of every model."""
    monkeypatch.setattr(bl.models.LDA, "recorded", recorded)
    passes = 5 if recorded else 3
    X, watch = documents(), Watch()
    model = bl.models.LDA(topics=TOPICS, inner_iterations=3)
    # shuffled blocks, an evaluation after each pass
    learner = bl.Learner(
        model, train=X, eval=X[:300], passes=passes, block_rows=BLOCK, threads=2, hooks=[watch]
    )
    try:
        learner.fit()
    finally:
        tracemalloc.stop()
    assert learner.team is not None
    stats = learner.team.first.cache.stats()
    assert stats.allocations == 1  # the slab
    assert stats.allocations_after_warmup == 0
    assert learner.progress.allocations_after_warmup == 0
    assert len(watch.held) == 5 * passes
    assert len(watch.nnz) > 10
    # the first evaluation makes room for its blocks; a recording takes some kilobytes, and each
    # phase has its own
    steady = 15 if recorded else 5
    assert max(watch.held[steady:]) == min(watch.held[steady:])
    assert max(watch.peaks[steady + 1 :]) < SMALLEST / 2  # not for a moment either
    if not recorded:
        assert max(watch.peaks[1:5]) < SMALLEST / 2
        assert max(watch.held[1:5]) == min(watch.held[1:5])
    learner.close()


class Careless(bl.models.LDA):
    """Does with NumPy what it should do in expressions."""

    def update(self, block: Any) -> None:
        super().update(block)
        self.parameters["lambda"].numpy().sum()


def test_the_measure_sees_an_array_that_lives_for_a_moment() -> None:
    watch = Watch()
    X = documents()
    bl.Learner(
        Careless(topics=TOPICS, inner_iterations=1),
        train=X,
        passes=1,
        block_rows=BLOCK,
        threads=1,
        hooks=[watch],
    ).fit()
    tracemalloc.stop()
    assert min(watch.peaks[1:]) > SMALLEST


class Planted(bl.Model):
    """A model with a number in an expression that changes from pass to pass."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.weights = self.parameter("weights", shapes.columns, 2, rng.uniform(shapes.columns, 2))

    def update(self, block: Any) -> None:
        scores = block.X @ (self.weights * float(block.pass_ + 1))
        self.weights <<= self.weights + 1e-3 * (block.X.T @ scores) / colsum(scores)

    def score(self, block: Any) -> Any:
        return {"size": bl.Sum(rowsum(block.X).sum(), 1.0)}

    def predict(self, block: Any) -> Any:
        return (block.X @ self.weights).mat()


def test_a_model_that_allocates_is_stopped() -> None:
    learner = bl.Learner(Planted(), train=documents(), passes=2, block_rows=BLOCK, threads=1)
    with pytest.raises(AllocationAfterWarmupError) as error:
        learner.fit()
    message = str(error.value)
    source, first = inspect.getsourcelines(Planted.update)
    line = first + next(n for n, text in enumerate(source) if "scores =" in text)
    assert f"{__file__}:{line}" in message
    assert "mul(weights, 2)" in message
    assert "Operand 2 was 1.0 during warm-up and is 2.0 now" in message
    assert "Scalar" in message
    assert learner.progress.block < learner.progress.blocks - 1
    learner.close()
