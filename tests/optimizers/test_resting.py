"""Rows of a streaming average that rest, against whole tables in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.matcache import MatCache, named, scalar
from blocklearn.matcache.operations import local as sizes
from blocklearn.optimizers import CombinationError, StreamingAverage, resting
from tests.engines.test_workers import Stops
from tests.support.corpora import e_step, exp_e_log

ROWS, WORDS, TOPICS, ETA = 7, 60, 3, 0.3


def counts(words: int = WORDS) -> sp.csr_array:
    """Four blocks: few words, none, all of them, and a ragged one."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.1, (3 * ROWS + 2, words)).astype(np.float32)
    dense[:ROWS, 9:] = 0
    dense[ROWS : 2 * ROWS] = 0
    dense[2 * ROWS] += 1
    dense[-1] = 0
    return sp.csr_array(dense)


def learner(X: Any, **options: Any) -> bl.Learner:
    model = bl.models.LDA(topics=TOPICS, inference="vb", eta=ETA, inner_iterations=8)
    source = MatrixSource(X, block_rows=ROWS, shuffle=False)
    optimizer = options.pop("optimizer", StreamingAverage(tau0=1.0, kappa=0.6))
    return bl.Learner(model, source, optimizer=optimizer, seed=3, **{"threads": 1, **options})


def lam_of(learner: bl.Learner) -> np.ndarray[Any, Any]:
    return learner.model.parameters["lambda"].numpy().astype(np.float64)


@pytest.mark.parametrize("beside", [False, True])
def test_copies_of_rows_have_the_bits_of_rows(
    beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of as many as are changed where they lie, of fewer, and beside rows of other tables."""
    monkeypatch.setattr(resting, "ROOM", 4 * TOPICS)
    rng, cache = np.random.default_rng(0), MatCache(threads=1)
    before = rng.random((11, TOPICS)).astype(np.float32)
    w, rest = named(cache, "w", before.shape), named(cache, "rest", (11, 1))
    w.set(before)
    rest <<= 0.3
    rows = resting.Resting("w", w, rest, scalar(cache, -0.5))
    ids = np.arange(10, 0, -1, dtype=np.int32)  # 4, 4 and 2
    copies = np.full((10, 2 * TOPICS), np.nan, np.float32)[:, :TOPICS]
    copies = copies if beside else np.ascontiguousarray(copies)
    copies[:] = before[ids]
    rows.wake_elsewhere(ids, copies, rows.clock)
    expected = 0.3 + (before[ids].astype(np.float64) - 0.3) * np.exp(-0.5)
    np.testing.assert_allclose(copies, expected, rtol=1e-6)
    rows.wake_all(scalar(cache, -0.5))
    assert copies.tobytes() == w.numpy()[ids].tobytes()


def test_rows_that_rest_are_those_of_whole_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FEW", 1e9)  # blocks of all words, too
    X = counts()
    trained = learner(X, passes=1).fit()
    lam = lam_of(trained)
    trained.passes = 3
    trained.fit()
    assert trained.model.column_sums.keys() == {"lambda"}
    dense = X.toarray().astype(np.float64)
    blocks = [dense[at : at + ROWS] for at in range(0, len(dense), ROWS)]
    for t, block in enumerate(blocks * 2, start=len(blocks)):
        phi = exp_e_log(lam.T)
        e_theta = np.exp(digamma(e_step(block, phi, 0.05, 8)))
        statistics = phi * (e_theta.T @ (block / (e_theta @ phi)))
        rho = (1.0 + t) ** -0.6
        lam += rho * (ETA + len(dense) / len(block) * statistics.T - lam)
    np.testing.assert_allclose(lam_of(trained), lam, rtol=3e-3)
    sums = trained.model.column_sums["lambda"].numpy()
    np.testing.assert_allclose(sums[0], lam_of(trained).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize(("same", "threads"), [(1, 3), (2, 1)])
def test_sampled_topics_rest_as_those_of_whole_tables(
    same: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass of cvb0, then one that samples; draws are the same, as phi is but for rounding."""
    model = {"kind": "lda", "topics": TOPICS, "eta": ETA, "sweeps": 3, "same": same}
    source = MatrixSource(counts(), block_rows=ROWS, shuffle=False)
    found = []
    for few in (1e9, 0.0):
        monkeypatch.setattr(sizes, "FEW", few)
        trained = bl.Learner(model, source, passes=3, seed=3, threads=threads).fit()
        assert bool(trained.model.column_sums) == (few > 0)
        found.append(lam_of(trained))
    np.testing.assert_allclose(*found, rtol=1e-4)


def test_sizes_decide_whether_rows_rest() -> None:
    assert not learner(counts(), passes=1).fit().model.column_sums
    wide = sp.csr_array(sp.hstack([counts(), sp.csr_array((3 * ROWS + 2, 2000))]))
    found = learner(wide, passes=1).fit()
    assert found.model.column_sums
    never = lam_of(found)[WORDS:]  # tau0 = 1: the first step forgets initial values
    np.testing.assert_allclose(never, ETA, rtol=1e-6)


def test_scores_of_training_count_rows_that_rest_at_what_they_are() -> None:
    wide = sp.csr_array(sp.hstack([counts(), sp.csr_array((3 * ROWS + 2, 2000))]))
    replica = learner(wide, hooks=[Stops(2)]).fit().team.first  # type: ignore[union-attr]
    host = HostBlock(replica.intakes[0].shape, indexed=True)
    MatrixSource(wide, block_rows=ROWS).read(0, 2, host)
    host.transpose()

    def perplexity(block: Any) -> float:
        found: Any = replica.score(block)["perplexity"]
        return found.read().value()

    block = replica.bind(host)
    replica.optimizer.begin(block.X)
    found = perplexity(replace(block, resting=True))
    with replica.learned.exact():
        assert found == pytest.approx(perplexity(replica.bind(host)), rel=1e-4)


def test_a_state_with_rows_that_rest_needs_rows_that_rest() -> None:
    replica = learner(counts(), passes=1).fit().team.first  # type: ignore[union-attr]
    with pytest.raises(CombinationError, match="some rows wait for their updates"):
        replica.learned.resume({"steps": 2, "phase": 0, "time": -1.5})
