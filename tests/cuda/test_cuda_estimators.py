"""Estimators and loaded models on a stand-in for a CUDA device: they say what the CPU says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.matcache import DeviceError
from blocklearn.matcache.cuda import devices
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins

pytest.importorskip("sklearn", reason="needs scikit-learn")
pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

ROWS, COLUMNS = 130, 30
COUNTS = sp.csr_array(np.random.default_rng(0).poisson(0.3, (ROWS, COLUMNS)).astype(np.float32))
LABELS = (np.random.default_rng(1).random(ROWS) < 0.4).astype(int)
BY_ROW = bl.optimizers.AdaGrad(step_per="row")
ESTIMATORS: dict[str, Any] = {
    "classifier": lambda: bl.GLMClassifier(solver="lbfgs", max_iter=4, alpha=0.1),
    "regressor": lambda: bl.GLMRegressor(solver=BY_ROW, max_iter=2),
    "lda": lambda: bl.LatentDirichletAllocation(4, inference="vb", max_iter=2),
    "nmf": lambda: bl.NMF(3, max_iter=2),
    "als": lambda: bl.ALS(3, regularization=0.05, solver="cholesky", max_iter=3),
    "als, implicit": lambda: bl.ALS(3, regularization=0.05, loss="implicit", max_iter=3),
}
SLOW = {"regressor", "lda", "nmf", "als, implicit"}


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Those that were opened."""
    return stand_ins(monkeypatch)


def used(estimator: Any) -> dict[str, Any]:
    """Everything that it can say of the data."""
    X, y = COUNTS, LABELS
    found = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    found = {n: v for n, v in found.items() if isinstance(v, np.ndarray)}
    if isinstance(estimator, bl.GLMClassifier):
        return found | {"p": estimator.predict_proba(X), "score": estimator.score(X, y)}
    if isinstance(estimator, bl.GLMRegressor):
        return found | {"mean": estimator.predict(X), "score": estimator.score(X, y)}
    found["transformed"] = estimator.transform(X)
    if not isinstance(estimator, bl.NMF):
        found["score"] = estimator.score(X)
    if isinstance(estimator, bl.ALS):
        known = X[:20]
        _, found["listed"] = estimator.recommend(np.arange(20), known, N=4)
        _, found["folded in"] = estimator.recommend(
            np.arange(20), known, N=4, recalculate_user=True
        )
        _, found["alike"] = estimator.similar_items([0, 5], N=4)
    return found


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in ESTIMATORS],
)
def test_an_estimator_says_on_a_device_what_it_says_on_the_cpu(
    name: str, drivers: list[HostDriver]
) -> None:
    fitted = [
        ESTIMATORS[name]().set_params(batch_size=32, random_state=0, device=device)
        for device in ("cpu", "cuda")
    ]
    expected, found = (used(estimator.fit(COUNTS, LABELS)) for estimator in fitted)
    for what, numbers in found.items():
        wanted = np.asarray(expected[what])
        np.testing.assert_allclose(
            numbers, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max(), err_msg=what
        )
    launched = {kernel for driver in drivers for kernel in driver.launched}
    assert ("top_products" in launched) == name.startswith("als")
    many = len(drivers)
    there = fitted[1].set_params(device="cpu")  # what was learned needs no device
    for what, numbers in used(there).items():
        wanted = np.asarray(expected[what])
        np.testing.assert_allclose(
            numbers, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max(), err_msg=what
        )
    assert len(drivers) == many


def test_devices_of_estimators_that_are_not_there() -> None:
    with pytest.raises(DeviceError, match="device=gpu: must be cpu, cuda"):
        bl.NMF(3, device="gpu").fit(COUNTS)
    if not devices.count():
        with pytest.raises(DeviceError, match="cuda:0, but .*pip install cupy-cuda12x"):
            bl.NMF(3, device="cuda").fit(COUNTS)


def learn(*arguments: Any) -> Any:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code


class Ranked(bl.Hook):
    """What was scored, in the order of evaluations."""

    def __init__(self) -> None:
        self.found: list[dict[str, float]] = []

    def evaluated(self, learner: Any, progress: Any) -> None:
        self.found.append(dict(progress.scores))


def test_ranking_is_scored_where_training_is(drivers: list[HostDriver]) -> None:
    from blocklearn.learner.recommendation.ranking_evaluation import RankingEvaluation

    held = sp.csr_array(np.random.default_rng(4).poisson(0.1, (ROWS, COLUMNS)).astype(np.float32))
    scores = {}
    for device in ("cpu", "cuda"):
        ranked = Ranked()
        model = bl.models.ALS(rank=3, solver="cholesky")
        hooks = [RankingEvaluation(top=5), ranked]
        learner = bl.Learner(
            model, COUNTS, held, passes=2, block_rows=30, hooks=hooks, device=device
        ).fit()
        scores[device] = ranked.found
        learner.close()
    assert len(scores["cuda"]) == 2
    for cpu, cuda in zip(scores["cpu"], scores["cuda"], strict=True):
        assert "ndcg@5" in cuda
        np.testing.assert_allclose(list(cuda.values()), list(cpu.values()), rtol=0.02)
    assert "top_products" in drivers[0].launched
    assert len(drivers) == drivers[0].allocations == 1  # the slab, which has room for the lists


def test_a_saved_model_is_used_on_a_device(drivers: list[HostDriver], tmp_path: Path) -> None:
    model = bl.models.LDA(topics=4, inference="vb", inner_iterations=3)
    trained = bl.Learner(model, COUNTS, block_rows=30).fit()
    bl.save(trained, tmp_path / "lda")
    expected = trained.predict(COUNTS), trained.evaluate(COUNTS)
    assert not drivers
    loaded = bl.load(tmp_path / "lda", device="cuda")
    np.testing.assert_allclose(loaded.predict(COUNTS), expected[0], rtol=1e-3, atol=1e-4)
    for name, score in loaded.evaluate(COUNTS).items():
        assert score == pytest.approx(expected[1][name], rel=1e-3)
    assert drivers[0].launched
    loaded.close()
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(COUNTS))
    given = [tmp_path / "lda", "--data", tmp_path / "counts.npz", "--device", "cuda"]
    assert learn("predict", *given, "--out", tmp_path / "found.npy") == 0
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), expected[0], rtol=1e-3, atol=1e-4)
    assert drivers[-1] is not drivers[0]
    assert drivers[-1].launched
    assert learn("evaluate", *given) == 0
    assert learn("predict", *given[:-1], "gpu") == ExitCode.UNAVAILABLE
