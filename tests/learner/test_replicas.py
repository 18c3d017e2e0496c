"""Several replicas: blocks in turn, merges at fixed blocks, the same bits whatever the timing."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import MatCache, from_array, make_merger
from blocklearn.models import GLM
from blocklearn.optimizers import LBFGS, SGD
from tests.learner.test_learner import Means
from tests.models.test_row_state import Power, ratings


class Late(Means):
    """Takes its time, at random, and says which rows it has seen."""

    def update(self, block: Any) -> None:
        time.sleep(random.uniform(0.0, 0.01))
        super().update(block)


class Sums(Means):
    """Sums over all rows: replicas add up."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns, merge="sum")
        self.rows = self.parameter("rows", 1, 1, merge="sum")
        self.count = self.number("rows of the block")


def labelled(rows: int = 700, columns: int = 20) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = bl.sparse((rng.random((rows, columns)) < 0.3) * rng.random((rows, columns)))
    Y = (X @ rng.standard_normal((columns, 2)) > 0).astype(np.float32)
    return X, Y


def tensors(learner: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in learner.state().tensors.items()}


def test_sums_add_up_over_replicas_and_passes() -> None:
    X = np.arange(60.0, dtype=np.float32).reshape(20, 3)
    for replicas in (1, 2, 3, 7):
        learner = bl.Learner(
            Sums(), X, passes=2, block_rows=3, replicas=replicas, sync_every=2
        ).fit()
        np.testing.assert_allclose(learner.state().tensors["sums"], 2 * X.sum(0)[None])
        assert learner.state().tensors["rows"] == 40.0
        assert learner.progress.rows == 40
        assert learner.progress.allocations_after_warmup == 0


def test_means_of_what_replicas_learned() -> None:
    X = np.arange(24.0, dtype=np.float32).reshape(8, 3)
    source = MatrixSource(X, block_rows=2)
    learner = bl.Learner(Means(), source, replicas=2, sync_every=1).fit()
    sums = np.zeros(3)
    for first in (X[:4], X[4:]):  # a round: one block each, then the mean of both
        sums = np.mean([sums + first[:2].sum(0), sums + first[2:].sum(0)], axis=0)
    np.testing.assert_allclose(learner.state().tensors["sums"][0], sums)


@pytest.mark.parametrize("sync_weight", [1.0, 0.5])
def test_timing_changes_no_bit(sync_weight: float) -> None:
    X = np.random.default_rng(0).random((90, 4), dtype=np.float32)
    settings: Any = {
        "passes": 2, "block_rows": 8, "replicas": 3, "sync_every": 2, "sync_weight": sync_weight,
    }  # fmt: skip
    found = [tensors(bl.Learner(Late(), X, X, **settings).fit()) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert found[0] == tensors(bl.Learner(Means(), X, X, **settings).fit())


def test_full_passes_are_those_of_one_replica() -> None:
    X, Y = labelled()
    model = bl.models.GLM(link="logistic", l2=1e-2)

    def weights(replicas: int) -> Any:
        learner = bl.Learner(
            model, (X, Y), passes=40, block_rows=64, optimizer=LBFGS(), replicas=replicas
        )
        return learner.fit().state().tensors["W"]

    one, three = weights(1), weights(3)
    np.testing.assert_allclose(one, three, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("sparse, replicas, sync_weight", [(True, 2, 0.5), (False, 4, 1.0)])
def test_some_replicas_begin_to_average_before_others(
    sparse: bool, replicas: int, sync_weight: float
) -> None:
    """Those that have more blocks. The average of one without averaged steps is its iterate."""
    X, Y = labelled(90)
    begin, blocks = 8 // replicas, [slice(i, i + 10) for i in range(0, 90, 10)]
    source = MatrixSource(X if sparse else X.toarray(), targets=Y, block_rows=10)
    learner = bl.Learner(
        GLM(link="linear", intercept=False), source, threads=1, passes=2,
        optimizer=SGD(rate=0.5, average_from=begin),
        replicas=replicas, sync_every=1, sync_weight=sync_weight,
    ).fit()  # fmt: skip
    dense, steps = X.toarray().astype(float), [0] * replicas
    iterates = np.zeros((replicas, X.shape[1], Y.shape[1]))
    averages = iterates.copy()
    for _ in range(2):
        for i, rows in enumerate(blocks):
            turn = i % replicas
            R = dense[rows] @ iterates[turn] - Y[rows]
            iterates[turn] -= 0.5 * dense[rows].T @ R / 10
            steps[turn] += 1
            share = 1 / max(1, steps[turn] - begin)
            averages[turn] += share * (iterates[turn] - averages[turn])
            done = i + 1 == len(blocks)
            if done or turn == replicas - 1:
                weight = 1.0 if done else sync_weight
                for each in (iterates, averages):
                    each += weight * (each.mean(axis=0) - each)
    np.testing.assert_allclose(learner.state().tensors["W"], averages[0], rtol=1e-4, atol=1e-6)


def test_row_state_needs_no_merge() -> None:
    X = ratings(200, 90)
    one = bl.Learner(Power(), X, passes=3, block_rows=16).fit()
    three = bl.Learner(Power(), X, passes=3, block_rows=16, replicas=3).fit()
    assert one.row_state("right").tobytes() == three.row_state("right").tobytes()
    np.testing.assert_array_equal(one.predict(X), three.predict(X))
    assert one.evaluate(X) == three.evaluate(X)


def test_a_replica_without_blocks_of_a_side_learns_of_its_states() -> None:
    """Columns have two blocks: two of four replicas only see users."""
    X = ratings(90, 20)
    settings: Any = {"passes": 3, "block_rows": 10, "threads": 1}
    one = bl.Learner("als", X, **settings).fit()
    four = bl.Learner("als", X, replicas=4, **settings).fit()
    assert tensors(four) == tensors(one)


def test_an_error_stops_all_and_names_the_block() -> None:
    class Breaks(Late):
        def update(self, block: Any) -> None:
            super().update(block)
            if block.rows == 5:
                raise RuntimeError("no more")

    X = np.ones((45, 2), np.float32)
    learner = bl.Learner(Breaks(), MatrixSource(X, block_rows=8), replicas=3)
    with pytest.raises(RuntimeError, match="no more") as caught:
        learner.fit()
    assert caught.value.__notes__ == ["in block 5 of pass 0, replica 2"]
    learner.close()


def test_settings_that_make_no_sense() -> None:
    for setting, message in [
        ({"replicas": 0}, "replicas=0: must be a whole number, and at least 1"),
        ({"sync_every": 0}, "sync_every=0"),
        ({"sync_weight": 0.0}, "sync_weight=0.0: must be above 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            bl.Learner(Means(), np.ones((3, 2)), **setting)  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_merged_without_a_word() -> None:
    """The check for divergence reports them, with the blocks; the merger does not."""
    mats = [from_array(MatCache(threads=1), [[x, 1.0]], "x") for x in (np.inf, -np.inf)]
    merger = make_merger([mat.cache for mat in mats], [])
    merger.begin([mats])
    for rule in ("mean", "sum", "max"):
        merger.merge([(rule, mats)])  # type: ignore[list-item]
        assert not np.isfinite(mats[0].numpy()[0, 0]) and mats[0].numpy()[0, 1] == 1.0


@pytest.mark.parametrize("size", [1, 5, 2**16 + 3])
def test_merger(size: int) -> None:
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal((1, size)).astype(np.float32) for _ in range(3)]
    mats = [from_array(MatCache(threads=1), array, "x") for array in arrays]
    merger = make_merger([mat.cache for mat in mats], [("mean", mats[0])])
    merger.merge([("mean", mats)], 0.25)
    mean = np.mean(np.array(arrays, np.float64), axis=0)
    for mat, array in zip(mats, arrays, strict=True):
        np.testing.assert_allclose(mat.numpy(), 0.75 * array + 0.25 * mean, rtol=1e-5, atol=1e-6)
    base = rng.standard_normal((1, size)).astype(np.float32)
    for mat in mats:
        mat.set(base)
    merger.begin([mats])
    for mat, array in zip(mats, arrays, strict=True):
        mat.set(array)
    merger.merge([("sum", mats)])
    grown = base + sum(array.astype(np.float64) - base for array in arrays)
    for mat in mats:
        np.testing.assert_allclose(mat.numpy(), grown, rtol=1e-5, atol=1e-5)
