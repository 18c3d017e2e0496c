"""Trainings on a real device against the CPU; runs with `pytest -m gpu`. Needs pydantic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.test_cuda_learner import CASES, learnt, trained

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CASES)
def test_a_device_learns_what_the_cpu_learns(name: str) -> None:
    cpu = trained(name, "cpu")
    expected = learnt(name, cpu)
    cpu.close()
    learner = trained(name, "cuda")
    found = learnt(name, learner)
    assert learner.team is not None
    stats = learner.team.first.cache.stats()
    assert stats.allocations == 1
    assert stats.allocations_after_warmup == 0
    learner.close()
    for what, numbers in found.items():
        scale = abs(expected[what]).max()
        np.testing.assert_allclose(numbers, expected[what], rtol=1e-3, atol=1e-3 * scale)
    again = trained(name, "cuda")
    for what, numbers in learnt(name, again).items():
        np.testing.assert_array_equal(numbers, found[what], err_msg=what)  # to the last bit
    again.close()


@pytest.mark.parametrize("name", ["lda", "nmf", "glm", "als, rows of users"])
def test_an_index_made_on_the_device_changes_no_bit(name: str) -> None:
    found = []
    for index in ("host", "device"):
        learner = trained(name, "cuda", index=index)
        found.append(learnt(name, learner))
        learner.close()
    for what, numbers in found[0].items():
        np.testing.assert_array_equal(found[1][what], numbers, err_msg=what)


@pytest.mark.parametrize("name", ["glm, adagrad", "glm, resting", "fm", "lda, vb", "lda, kept"])
def test_rows_of_tables_on_the_host_change_no_bit(name: str) -> None:
    from tests.cuda.test_cuda_spread import learner, numbers

    found = []
    for most in (None, 20_000):
        trained = learner(name, most).fit()
        found.append((numbers(trained), trained.progress.scores))
        trained.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["classifier", "lda", "nmf", "als", "als, implicit"])
def test_an_estimator_says_what_it_says_on_the_cpu(name: str) -> None:
    pytest.importorskip("sklearn")
    from tests.cuda.test_cuda_estimators import COUNTS, ESTIMATORS, LABELS, used

    cpu, cuda = (
        used(ESTIMATORS[name]().set_params(random_state=0, device=device).fit(COUNTS, LABELS))
        for device in ("cpu", "cuda")
    )
    for what, numbers in cuda.items():
        scale = np.abs(cpu[what]).max()
        np.testing.assert_allclose(numbers, cpu[what], rtol=1e-3, atol=1e-3 * scale, err_msg=what)


@pytest.mark.parametrize("name", ["lda", "nmf", "glm"])
def test_graphs_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, Any]:
        learner = trained(name, "cuda")
        try:
            return learnt(name, learner)
        finally:
            learner.close()

    with_graphs = run()
    monkeypatch.setattr("blocklearn.matcache.cuda.launcher.FEWEST", 10**9)
    for what, numbers in run().items():
        np.testing.assert_array_equal(numbers, with_graphs[what])


def test_ranking_and_lists_need_no_more_of_the_device() -> None:
    from blocklearn.learner.recommendation.ranking_evaluation import RankingEvaluation
    from blocklearn.learner.recommendation.recommend import recommend, similar_items
    from tests.models.test_lists_room import Allocations, learner

    scores, lists = [], []
    for device in ("cpu", "cuda"):
        allocations = Allocations()
        hooks = [RankingEvaluation(top=4), allocations]
        with_ranking = learner(hooks=hooks, device=device).fit()
        assert allocations.found == [[1]] * 2
        scores.append(with_ranking.progress.scores)
        made = (recommend(with_ranking, n=5), similar_items(with_ranking, n=5))
        lists.append([block.scores for blocks in made for block in blocks])
        with_ranking.close()
    assert scores[1] == pytest.approx(scores[0], rel=0.03)
    for found, expected in zip(lists[1], lists[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
