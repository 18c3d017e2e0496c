"""Average precision, precision of the first rows, and calibration of a GLM's scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import blocklearn as bl
from blocklearn.models import GLM, Target
from blocklearn.models.glm.scoring.precisions import (
    calibration_error,
    precisions,
    precisions_of_groups,
)
from blocklearn.models.glm.scoring.ranking import BINS, BlockRanking, Ranking, ranking_of
from tests.support.learn_command import Learn


def rows(seed: int = 0, n: int = 400) -> tuple[Any, Any, Any]:
    """Scores with many ties, labels that are shares, weights that may be 0."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(0, 2, n), 1).astype(np.float32)
    labels = np.where(rng.random(n) < 0.8, rng.random(n) < expit(scores), rng.random(n))
    return scores, labels.astype(np.float32), rng.integers(0, 4, n).astype(np.float32)


def definition(scores: Any, labels: Any, weights: Any, k: int) -> tuple[float, float]:
    """By thresholds, in float64."""
    w = weights.astype(float)
    levels = np.unique(scores)[::-1]
    hits = np.array([(labels * w)[scores >= level].sum() for level in levels])
    found = np.array([w[scores >= level].sum() for level in levels])
    gained, taken = np.diff(hits, prepend=0.0), np.diff(found, prepend=0.0)
    ratio = np.divide(hits, found, out=np.zeros_like(hits), where=found > 0)
    fit = np.clip((k - (found - taken)) / np.where(taken > 0, taken, 1.0), 0, 1)
    return (gained * ratio).sum() / hits[-1], (gained * fit).sum() / min(k, found[-1])


@pytest.mark.parametrize("k", [1, 37, 10_000])
def test_precisions_are_those_of_the_definition(k: int) -> None:
    scores, labels, weights = rows()
    found = precisions(scores, labels, weights, k, np.empty(400, np.uint64))
    assert found == pytest.approx(definition(scores, labels, weights, k), rel=1e-9)
    levels = np.unique(scores)
    groups = [
        [((part * weights)[scores == level]).sum(dtype=float) for level in levels]
        for part in (1 - labels, labels)
    ]
    assert precisions_of_groups(*map(np.array, groups), k) == pytest.approx(found, rel=1e-6)


def test_average_precision_is_that_of_sklearn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    scores, labels, weights = rows()
    y = (labels > 0.5).astype(np.float32)
    wanted = metrics.average_precision_score(y, scores, sample_weight=weights)
    found = precisions(scores, y, weights, 1, np.empty(400, np.uint64))
    assert found[0] == pytest.approx(wanted, rel=1e-9)


def test_columns_without_rows_or_positives() -> None:
    ones = np.ones(3, np.float32)
    keys = np.empty(3, np.uint64)
    assert np.isnan(precisions(ones[:0], ones[:0], ones[:0], 2, keys[:0])).all()
    average, top = precisions(ones, 0 * ones, ones, 2, keys)
    assert np.isnan(average) and top == 0.0
    assert np.isnan(calibration_error(ones[:0], ones[:0], ones[:0], logs=False))


def test_calibration_is_that_of_the_definition() -> None:
    scores, labels, weights = rows()
    for logs, p in (
        (False, expit(scores.astype(float))),
        (True, np.exp(-abs(scores.astype(float)))),
    ):
        place = np.minimum((p * 10).astype(int), 9)
        wanted = sum(
            abs((weights * (labels - p))[place == b].sum(dtype=float)) for b in range(10)
        ) / weights.sum(dtype=float)
        given = -abs(scores) if logs else scores
        found = calibration_error(given, labels * weights, weights, logs=logs)
        assert found == pytest.approx(wanted, rel=1e-5)
    certain = np.array([-30.0, 30.0], np.float32)
    assert calibration_error(certain, np.array([0.0, 1.0]), np.ones(2), logs=False) < 1e-9


def test_rankings_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept rows and those of a block give the same; bins are near it."""
    scores = np.stack([rows(seed, 500)[0] for seed in range(3)], axis=1)
    scores = scores + np.random.default_rng(5).normal(0, 0.01, scores.shape).astype(np.float32)
    labels = np.stack([rows(seed, 500)[1] for seed in range(3)], axis=1)
    weights = rows(9, 500)[2][:, None]
    kept, block = ranking_of(500, [2, 0], own_weights=False), BlockRanking(500, [2, 0])
    monkeypatch.setattr("blocklearn.models.glm.scoring.ranking.MOST_KEPT", 100)
    binned = ranking_of(2 * BINS + 1, [2, 0], own_weights=False)

    def found(ranking: Ranking) -> Any:
        ranking.clear()
        ranking.add(scores, labels, weights, 500)
        return ranking.more(50, [False, False])

    np.testing.assert_array_equal(found(kept), found(block))
    np.testing.assert_allclose(found(binned), found(kept), atol=0.02)


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (600, 6)).astype(np.float32)
    hot = np.eye(3)[(X @ rng.normal(0, 1, (6, 3)) + rng.normal(0, 1, (600, 3))).argmax(axis=1)]
    binary = rng.random((600, 1)) < expit(X[:, :1] - 1)
    return X, np.hstack([hot, binary]).astype(np.float32)


def test_evaluations_have_the_figures() -> None:
    X, Y = data()
    targets = [
        Target(link="softmax", columns=[0, 1, 2], name="class"),
        Target(link="logistic", column=3, name="yes"),
        Target(link="hinge", column=3, name="margin"),
    ]
    model = GLM(targets=targets, more_scores=True, top=20)
    learner = bl.Learner(model, (X[:400], Y[:400]), passes=4, threads=1, verbose=False).fit()
    found = learner.evaluate((X[400:], Y[400:]))
    p, y = learner.predict(X[400:]), Y[400:]
    ones, keys = np.ones(200), np.empty(200, np.uint64)
    for name, column, target in (("class.1", 1, 1), ("yes", 3, 3)):
        average, top = precisions(p[:, column], y[:, target], ones, 20, keys)
        assert found[f"average_precision/{name}"] == pytest.approx(average, rel=1e-4)
        assert found[f"top_precision@20/{name}"] == pytest.approx(top, abs=0.051)
        logs = np.log(p[:, column])
        error = calibration_error(logs, y[:, target], ones, logs=True)
        assert found[f"calibration_error/{name}"] == pytest.approx(error, rel=1e-3)
    assert "average_precision/margin" in found and "calibration_error/margin" not in found
    usual = model.model_copy(update={"more_scores": False})
    plain = bl.Learner(usual, (X[:400], Y[:400]), passes=4, threads=1, verbose=False).fit()
    assert not any("precision" in name for name in plain.evaluate((X[400:], Y[400:])))
    np.testing.assert_array_equal(plain.parameter("W"), learner.parameter("W"))


def test_a_run_can_watch_them(command: Learn, tmp_path: Path) -> None:
    X, Y = data()
    (tmp_path / "t.csv").write_text(
        "a,b,y\n" + "\n".join(f"{x[0]},{x[1]},{int(y[3])}" for x, y in zip(X, Y, strict=True))
    )
    (tmp_path / "c.yaml").write_text(
        "model: {kind: glm, more_scores: true, top: 10}\n"
        "data: {train: {kind: table, path: t.csv, targets: [y], numeric: [a, b]},"
        " eval: {kind: holdout, share: 0.3}}\n"
        "learner: {passes: 2, threads: 1}\n"
        "evaluation: {metric: average_precision}\n"
    )
    code, told, error = command("--config", "c.yaml", "--out", "run")
    assert code == 0, error
    assert (
        "average_precision" in told and "calibration_error" in told and "top_precision@10" in told
    )
