"""The memory that lists take: part of a training's plan, or a plan of their own; and its device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.configuration.config import RankingConfig, RunConfig
from blocklearn.learner.recommendation.ranking_evaluation import RankingEvaluation
from blocklearn.learner.runs.memory_check import check_room, settings_of
from blocklearn.matcache import MatCache
from blocklearn.matcache.cpu.backend import CPU
from blocklearn.matcache.cuda import Cuda, devices
from blocklearn.matcache.errors import MemoryPlanError
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver

USERS, ITEMS = 130, 40


def ratings(seed: int = 0) -> Any:
    """Of some users there are many, of some none."""
    rng = np.random.default_rng(seed)
    shares = rng.random((USERS, 1)) ** 3
    return sp.csr_array((rng.random((USERS, ITEMS)) < shares).astype(np.float32))


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Of the devices that are opened."""
    found: list[HostDriver] = []

    def opened(number: int) -> HostDriver:
        found.append(HostDriver(number=number))
        return found[-1]

    monkeypatch.setattr(devices, "open_driver", opened)
    monkeypatch.setattr(devices, "nccl", lambda: None)
    return found


def learner(hook: bl.Hook | None = None, **options: Any) -> bl.Learner:
    model = bl.models.ALS(rank=3, loss="implicit")
    hooks = [] if hook is None else [hook]
    given: dict[str, Any] = {"passes": 2, "block_rows": 32, "threads": 1, "hooks": hooks} | options
    return bl.Learner(model, ratings(), ratings(1), **given)


class Allocations(bl.Hook):
    """Of all caches, after each evaluation."""

    def __init__(self) -> None:
        self.found: list[list[int]] = []

    def evaluated(self, learner: bl.Learner, progress: Any) -> None:
        assert learner.team is not None
        self.found.append([r.cache.stats().allocations for r in learner.team.replicas])


@pytest.mark.parametrize(
    "device, replicas", [("cpu", 2), pytest.param("cuda", 1, marks=needs_compiler)]
)
def test_ranking_is_part_of_the_plan(drivers: Any, device: str, replicas: int) -> None:
    ranking, allocations = RankingEvaluation(top=4, users=100), Allocations()
    trained = learner(ranking, replicas=replicas, device=device)
    trained.hooks.append(allocations)
    lines = {row.name: row for row in trained.plan().rows if row.of == "hooks"}
    assert {"rows that lists are made for", "largest products"} < set(lines)
    assert lines["largest products"].shape == (100, 4)
    trained.fit()
    assert allocations.found == [[1] * replicas] * 2  # the slab of each
    users, held = ranking.sample(trained.eval, trained.execution.seed)  # type: ignore[arg-type]
    seen = ratings()[users]
    planned = ranking.scores(trained, users, seen, held)
    assert planned == {name: trained.progress.scores[name] for name in planned}
    assert planned == RankingEvaluation(top=4).scores(trained, users, seen, held)  # not planned
    assert 0 < planned["ndcg@4"] < 1


def test_users_of_many_entries_are_ranked_in_more_than_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "blocklearn.learner.recommendation.ranking_evaluation"
    ranking, pieces = RankingEvaluation(top=4), []
    expected = learner(RankingEvaluation(top=4)).fit().progress.scores
    monkeypatch.setattr(f"{module}.entries_for", lambda shape, rows: int(shape.nnz / 2))
    trained = learner(ranking).fit()
    assert trained.progress.scores == pytest.approx(expected, rel=1e-12)
    (lists,) = ranking._lists.values()
    find, users = lists.find, np.arange(USERS)
    monkeypatch.setattr(lists, "find", lambda n, rows: (pieces.append(n), find(n, rows))[1])
    ranking.scores(trained, users, ratings(), ratings(1))
    assert len(pieces) > 4 and sum(pieces) == USERS


@needs_compiler
def test_lists_use_the_device_that_is_open(drivers: list[HostDriver]) -> None:
    trained = learner(device="cuda").fit()
    expected = [block.ids for block in bl.recommend(learner().fit(), n=5)]
    for _ in range(2):
        found = [block.ids for block in bl.recommend(trained, n=5)]
        assert np.mean(np.concatenate(found) == np.concatenate(expected)) > 0.95
    assert len(drivers) == 1
    before = drivers[0].limits().free
    lists = iter(bl.recommend(trained))
    next(lists)
    assert drivers[0].limits().free < before
    trained.close()
    assert not drivers[0].closed  # the lists are not all read yet
    with pytest.raises(StopIteration):
        next(lists)
    assert drivers[0].closed and drivers[0].limits().free == drivers[0].memory


@needs_compiler
def test_lists_that_do_not_fit_are_refused(drivers: list[HostDriver]) -> None:
    trained = learner(device="cuda").fit()
    drivers[0].memory -= drivers[0].limits().free - 20_000
    with pytest.raises(
        MemoryPlanError,
        match=r"Lists of 30 out of 40, for 130 rows at a time, "
        r"need [\d,]+ bytes of the device, and 20,000 are free\. .*shorter lists",
    ):
        next(iter(bl.recommend(trained, n=30)))
    assert [block.ids.shape for block in bl.recommend(trained, [3], n=2)] == [(1, 2)]


@needs_compiler
def test_ranking_that_does_not_fit_is_refused_with_what_to_lower(drivers: Any) -> None:
    for users, named in ((100, True), (7, False)):
        config = RunConfig.model_validate(
            {
                "model": {"kind": "als", "rank": 3, "loss": "implicit"},
                "data": {"train": {"kind": "file", "path": "x.npz"}, "block_rows": 8},
                "learner": {
                    "device": "cuda",
                    "ranking": {"users": users, "top": 9},
                    "memory_limit": {"device": 1000},
                },
                "out": "run",
            }
        )
        assert isinstance(config.learner.ranking, RankingConfig)
        hook = RankingEvaluation(**config.learner.ranking.model_dump())
        plan = learner(hook, device="cuda", block_rows=8).plan()
        with pytest.raises(MemoryPlanError, match="needs .* of the memory of cuda:0") as refused:
            check_room(plan, config)
        assert f"learner.ranking.users: {users}" in str(refused.value)
        assert "learner.ranking.top: 9" in str(refused.value)
        largest = str(refused.value).split("Settings to lower")[0]
        assert named == ("what lists leave out" in largest)


def test_users_count_where_they_are_ranked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklearn.learner.recommendation.parts.BLOCK_ROWS", 32)
    tree = {
        "model": {"kind": "als", "rank": 3, "loss": "implicit"},
        "data": {"train": {"kind": "file", "path": "x.npz"}},
        "learner": {"ranking": {"users": 100}},
        "out": "run",
    }
    rows = {row.name: row for row in learner(RankingEvaluation(users=100)).plan().rows}
    found = rows["largest products"]
    assert found.shape == (25, 10)
    assert list(settings_of(found, RunConfig.model_validate(tree))) == [
        "learner.ranking.users: 100",
        "learner.ranking.top: 10",
    ]


def test_backends_share_a_driver() -> None:
    driver = HostDriver()
    first = Cuda(driver)
    second, third = first.beside(), first.beside()
    caches = [MatCache(backend=backend) for backend in (first, second, third)]
    for cache in caches:
        assert not driver.closed
        cache.close()
        cache.close()  # twice is fine
    assert driver.closed
    assert isinstance(learner().backend_beside(), CPU)
