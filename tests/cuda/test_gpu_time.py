"""The estimated least time of a pass on a GPU, against bytes and operations counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.training.plans.gpu_time import CARDS, Card, Update, card_of
from blocklearn.matcache import (
    MatCache,
    Rows,
    Sparse,
    SparseInput,
    from_array,
    named,
    repeat,
    rowwise,
    sddmm,
)
from blocklearn.matcache.containers.dispatch import Launched
from blocklearn.matcache.operations.traffic import traffic

SLOW = Card(memory=1e6, flops=1e9, link=1e5, launch=0.0)
ROWS, COLUMNS, NNZ = 40, 30, 300


def launched(work: Any) -> list[Launched]:
    """What `work(cache, X)` launches, for X of 40 x 30 with room for 300 non-zeros."""
    with MatCache(reserving=True) as cache:
        X = SparseInput(cache, "X", ROWS, COLUMNS, NNZ)
        cache.launched = []
        work(cache, X.handle())
        return cache.launched


@rowwise
def twice(X: Sparse, U: Rows, V: Rows) -> None:
    """Read V once in each of three rounds: the dot product and the sum share a loop."""
    for _ in repeat(3):
        U <<= (X * sddmm(U, V, X)) @ V


def test_rows_of_tables_are_read_for_each_non_zero() -> None:
    def work(cache: MatCache, X: Any) -> None:
        U, V = named(cache, "U", (ROWS, 8)), named(cache, "V", (COLUMNS, 8))
        twice(X, U, V)

    (found,) = launched(work)
    moved = traffic(found, NNZ)
    once = 4 * 8 * NNZ + 8 * NNZ
    assert 3 * once <= moved.nbytes <= 6 * once + 4 * 8 * ROWS + 4 * NNZ
    assert moved.flops == 3 * (2 * 8 * NNZ + NNZ + 2 * 8 * NNZ)
    assert traffic(found, 0).flops == 0.0


def test_products_and_expressions_move_their_operands() -> None:
    def work(cache: MatCache, X: Any) -> None:
        A, B = named(cache, "A", (20, 6)), named(cache, "B", (6, 50))
        C, D = named(cache, "C", (20, 50)), named(cache, "D", (20, 50))
        C <<= A @ B
        D <<= C * 2.0 + D

    product, dense = launched(work)
    assert traffic(product, NNZ) == (4 * (120 + 300 + 1000), 2 * 20 * 6 * 50)
    moved = traffic(dense, NNZ)
    assert 4 * 2000 <= moved.nbytes <= 4 * 3000
    assert moved.flops == 2 * 1000


def test_statistics_gather_rows() -> None:
    def work(cache: MatCache, X: Any) -> None:
        table, out = named(cache, "table", (ROWS, 8)), named(cache, "out", (COLUMNS, 8))
        out <<= X.T @ table

    found = next(part for part in launched(work) if part.operation == "transposed_product")
    moved = traffic(found, NNZ)
    assert moved.flops == 2 * 8 * NNZ
    assert moved.nbytes == 4 * 8 * NNZ + 16 * NNZ + 4 * NNZ + 4 * 8 * COLUMNS


def counts(rows: int = 200) -> Any:
    return sp.csr_array(np.random.default_rng(0).poisson(0.5, (rows, 30)).astype(np.float32))


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vb": (bl.models.LDA(topics=4, inference="vb"), {}),
    "gibbs": (bl.models.LDA(topics=4, assignments="fresh"), {}),
    "als": (bl.models.ALS(rank=3), {}),
    "cholesky": (bl.models.ALS(rank=3, solver="cholesky"), {}),
    "nmf": (bl.models.NMF(components=3), {}),
    "glm": (bl.models.GLM(), {"optimizer": bl.optimizers.AdaGrad()}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_pass_grows_with_blocks_and_model(name: str) -> None:
    """Data of twice the blocks take twice as long; a GPU is not needed."""
    model, options = MODELS[name]

    def floor(rows: int, **changes: Any) -> Update:
        labels = np.ones(rows, np.float32) if name == "glm" else None
        data = MatrixSource(sp.vstack([counts(50)] * (rows // 50)), targets=labels, block_rows=50)
        made = model.model_copy(update=changes)
        learner = bl.Learner(made, data, block_rows=50, **options)
        found = learner.assembly().gpu_floor(SLOW)
        assert learner.team is None  # nothing is allocated
        return found

    one, two = floor(200), floor(400)
    assert one.launches > 0 and one.nbytes > 0 and one.flops > 0
    assert one.kernels >= 0.999 * one.nbytes / SLOW.memory
    assert one.seconds(SLOW) == max(one.kernels, one.host + one.copied / SLOW.link)
    if name not in ("als", "cholesky"):  # whose other side grows, too
        assert two == pytest.approx(one.times(2))
    wider = {"vb": "topics", "gibbs": "topics", "nmf": "components"}.get(name)
    if wider is not None:
        more = floor(200, **{wider: 12})
        assert more.nbytes > 1.5 * one.nbytes and more.launches >= one.launches


def test_the_e_step_is_what_the_page_says() -> None:
    """docs/gpu-kernels.md: 4NK 6 + 12N + 8RK bytes and 4NK 6 operations for five iterations."""
    X, k = counts(2000), 64
    learner = bl.Learner(
        bl.models.LDA(topics=k, inference="vb", inner_iterations=5), X, block_rows=2000
    )
    found = learner.assembly().gpu_floor(SLOW)
    n, r, v = X.nnz, 2000, 30
    assert found.nbytes >= 4 * n * k * 5
    assert found.nbytes <= 4 * n * k * 8 + 12 * n * 8 + 60 * r * k + 60 * v * k
    assert found.flops == pytest.approx(4 * n * k * 6, rel=0.4)


def test_known_cards() -> None:
    assert card_of("cuda:0 (NVIDIA A100-SXM4-80GB)") == ("A100", CARDS["A100"])
    assert card_of("something else") == ("H200", CARDS["H200"])
    with MatCache() as cache:
        from_array(cache, np.ones((2, 2), np.float32))
        assert cache.launched is None
