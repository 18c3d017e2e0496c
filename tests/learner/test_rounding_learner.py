"""Trainings that read tables in bfloat16: on the CPU, and on a stand-in for a device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from pydantic import ValidationError

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.runs.build import build
from blocklearn.matcache import MatCache, from_array, from_sparse, rowwise
from blocklearn.matcache.operations.rounding import rounded
from blocklearn.models.topic_quality import QUALITY
from blocklearn.optimizers import Gradient, LinearLoss
from tests.support.backends import needs_compiler
from tests.support.cuda_device import stand_ins
from tests.support.often import first_often

MODELS: dict[str, Callable[[], Any]] = {
    "vb": lambda: bl.models.LDA(topics=8, inference="vb", inner_iterations=3),
    "cvb0": lambda: bl.models.LDA(topics=8, inference="cvb0", inner_iterations=3),
    "gibbs": lambda: bl.models.LDA(topics=8, sweeps=2),
    "als": lambda: bl.models.ALS(rank=8),
    "als, cholesky": lambda: bl.models.ALS(rank=8, solver="cholesky"),
    "nmf": lambda: bl.models.NMF(components=8),
}


def trained(name: str, device: str, tables: Any, **options: Any) -> tuple[Any, Any]:
    """Parameters and states; scores."""
    X = sp.csr_array(np.random.default_rng(0).poisson(0.3, (130, 30)).astype(np.float32))
    learner = bl.Learner(
        MODELS[name](), train=X, passes=2, block_rows=30, seed=3, threads=1, device=device,
        tables=tables, **options,
    ).fit()  # fmt: skip
    found = {p: learner.parameter(p) for p in learner.model.parameters}
    found |= {s: learner.row_state(s).copy() for s in learner.model.states}
    scores = learner.evaluate(X)
    assert learner.progress.allocations_after_warmup == 0
    learner.close()
    return found, scores


def apart(found: Any, expected: Any) -> float:
    """By which share."""
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30))


def agree(name: str) -> None:
    """What a device learns is what the CPU learns, and nearer to it than what float32 would: the
    last bits of the two differ, and now and then a number half-way between two others is rounded up
    by the one and down by the other, which NMF, of all models, feels for long.
    """
    expected, scores = trained(name, "cpu", "bfloat16")
    plain, _ = trained(name, "cpu", "float32")
    found, got = trained(name, "cuda", "bfloat16")
    for what, array in found.items():
        moved = apart(plain[what], expected[what])
        assert apart(array, expected[what]) <= max(1e-5, 0.7 * moved), what
        assert apart(array, plain[what]) >= 0.5 * moved, what
    assert got == pytest.approx(scores, rel=1e-3)


def some_slow(slow: set[str]) -> list[Any]:
    return [pytest.param(n, marks=[pytest.mark.slow] if n in slow else []) for n in MODELS]


@needs_compiler
@pytest.mark.parametrize("name", some_slow({"cvb0", "gibbs", "nmf", "als", "als, cholesky"}))
def test_a_stand_in_learns_what_the_cpu_learns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = stand_ins(monkeypatch)
    agree(name)
    assert "to_bfloat16" in drivers[0].launched
    assert drivers[0].replayed > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_a_device_learns_what_the_cpu_learns(name: str) -> None:
    agree(name)


@pytest.mark.parametrize("name", first_often(MODELS, 2))
def test_training_comes_to_the_same(name: str) -> None:
    """Other bits, scores that are hardly worse."""
    plain, expected = trained(name, "cpu", "float32")
    found, scores = trained(name, "cpu", "bfloat16")
    assert any((found[what] != plain[what]).any() for what in plain)
    figures = [name for name in expected if name not in QUALITY]  # lists of words may differ
    assert len(figures) >= 1
    assert [scores[n] for n in figures] == pytest.approx([expected[n] for n in figures], rel=0.02)


def test_replicas_round_too() -> None:
    found, _ = trained("vb", "cpu", "bfloat16", replicas=2)
    again, _ = trained("vb", "cpu", "bfloat16", replicas=2)
    plain, _ = trained("vb", "cpu", "float32", replicas=2)
    np.testing.assert_array_equal(found["lambda"], again["lambda"])
    assert (found["lambda"] != plain["lambda"]).any()


def test_it_is_one_line_of_a_configuration() -> None:
    given: dict[str, Any] = {"model": {"kind": "lda"}, "data": {"train": {"kind": "python-docs"}}}
    config = RunConfig.model_validate(given | {"learner": {"tables": "bfloat16"}})
    learner = build(config, MatrixSource(sp.csr_array(np.eye(9, dtype=np.float32))), None, [])
    assert (learner.execution.tables, bl.Learner(bl.models.LDA()).execution.tables) == (
        "bfloat16",
        "float32",
    )
    with pytest.raises(ValidationError, match=r"learner\.tables"):
        RunConfig.model_validate(given | {"learner": {"tables": "float16"}})
    with pytest.raises(ValueError, match="tables='half'"):
        bl.Learner(bl.models.LDA(), tables="half")  # type: ignore[arg-type]


@rowwise
def squares(scores: Any, y: Any) -> Any:
    """Derivatives and losses of half the squared error."""
    return scores - y, 0.5 * (scores - y) * (scores - y)


def test_an_optimizer_reads_weights_as_an_update_does_and_sums_in_full() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.5, (9, 7)).astype(np.float32))
    W, y = rng.random((7, 3), np.float32), rng.random((9, 3), np.float32)
    with MatCache() as cache:
        x, weights = from_sparse(cache, X), from_array(cache, np.ones((9, 1), np.float32))
        for tables, read in (("float32", np.asarray), ("bfloat16", rounded)):
            block = SimpleNamespace(X=x.reading(tables), weights=weights, weight=9.0)
            loss = LinearLoss(block, squares, (from_array(cache, y),))
            R = loss.derivatives("W", {"W": from_array(cache, W)}, 1.0)
            expected = X @ read(W).astype(np.float64) - y
            np.testing.assert_allclose(R.numpy(), expected, rtol=1e-5, atol=1e-5)
            by_row, _ = loss.row_by_row("W", {"W": from_array(cache, W)})
            np.testing.assert_array_equal(by_row.numpy(), R.numpy())
            product = Gradient(block.X, R).product.numpy()
            np.testing.assert_allclose(product, X.T @ R.numpy(), rtol=1e-6)
