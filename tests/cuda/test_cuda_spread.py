"""Tables that are larger than a device, on a stand-in: the bits of tables that fit there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.errors import DivergedError
from blocklearn.learner.runs.memory_check import check_room
from blocklearn.learner.runs.training import RunOptions, train
from blocklearn.learner.training.plans.plan import ON_HOST, Plan
from blocklearn.matcache import DeviceError, MemoryPlanError
from blocklearn.matcache.cuda import advice, devices
from blocklearn.matcache.cuda.backend import Cuda
from blocklearn.optimizers import CombinationError
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins
from tests.support.often import first_often, rarely

pytestmark = needs_compiler

FEATURES, ROWS, BLOCK = 3000, 200, 32
FEW = 20_000  # bytes: a part of every table below


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Those that were opened."""
    return stand_ins(monkeypatch)


def clicks(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = sp.random_array((ROWS, FEATURES), density=0.003, rng=rng, dtype=np.float32, format="csr")
    return X, (rng.random((ROWS, 2)) < 0.3).astype(np.float32)


def words(seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    X = sp.random_array((ROWS, FEATURES), density=0.004, rng=rng, dtype=np.float32, format="csr")
    X.data = rng.integers(1, 4, X.nnz).astype(np.float32)
    return X


GLM = {"model": {"kind": "glm"}}
ROW_STEPS = {"kind": "adagrad", "step_per": "row", "initial": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "glm, adagrad": {**GLM, "optimizer": "adagrad"},
    "glm, by row": {**GLM, "optimizer": ROW_STEPS},
    "glm, ftrl": {**GLM, "optimizer": {"kind": "ftrl", "l1": 0.01}},
    "glm, adam": {**GLM, "optimizer": "adam"},
    "glm, resting": {"model": {"kind": "glm", "l1": 0.01, "l2": 0.1}, "optimizer": "adagrad"},
    "fm": {"model": {"kind": "fm", "factors": 3}, "optimizer": "adagrad"},
    "fm, resting": {"model": {"kind": "fm", "factors": 3, "l2": 0.1}, "optimizer": "adagrad"},
    "lda, vb": {"model": {"kind": "lda", "topics": 4, "inference": "vb"}},
    "lda, kept": {"model": {"kind": "lda", "topics": 4}},
    "nmf": {"model": {"kind": "nmf", "components": 3}},
    "k-means": {"model": {"kind": "kmeans", "clusters": 4}},
    "glm, lbfgs": {**GLM, "optimizer": "lbfgs"},
}


def learner(name: str, most: int | None = FEW, **settings: Any) -> bl.Learner:
    case = CASES[name]
    labelled = case["model"]["kind"] in ("glm", "fm")
    data, held = (clicks(), clicks(2)) if labelled else (words(), words(3))  # other columns, too
    given: dict[str, Any] = {
        "block_rows": BLOCK, "passes": 2, "threads": 1, "device": "cuda", "verbose": False,
        "optimizer": case.get("optimizer"), **settings,
    }  # fmt: skip
    held = None if name == "nmf" else held
    return bl.Learner(case["model"], data, held, device_tables=most, **given)


def numbers(found: bl.Learner) -> dict[str, bytes]:
    return {name: found.parameter(name).tobytes() for name in found.model.parameters}


OFTEN = ["glm, resting", "fm", "lda, kept", "k-means"]


@pytest.mark.parametrize("name", [*OFTEN, *rarely(*(name for name in CASES if name not in OFTEN))])
def test_they_have_the_bits_of_tables_on_the_device(name: str, drivers: list[HostDriver]) -> None:
    whole = learner(name, None).fit()
    found = learner(name).fit()
    files = found.placed_tables
    assert files is not None and files.tables, "all tables fit"
    on_host = [sum(driver._far.values()) for driver in drivers]
    assert on_host[0] == 0 < on_host[1]
    live, far = drivers[1]._live, drivers[1]._far
    assert 0 < sum(live[address][0] for address in far) - on_host[1] <= FEW
    assert numbers(found) == numbers(whole)
    assert found.progress.scores == whole.progress.scores
    X = clicks(4)[0] if CASES[name]["model"]["kind"] in ("glm", "fm") else words(5)
    if name != "nmf":
        assert found.predict(X[:70]).tobytes() == whole.predict(X[:70]).tobytes()
    assert found.team is not None
    stats = found.team.first.cache.stats()
    assert stats.allocations_after_warmup == 0
    kept = numbers(found)
    found.close()
    assert numbers(found) == kept
    whole.close()


@pytest.mark.parametrize("name", first_often(["glm, resting", "lda, vb", "glm, adagrad", "fm"], 2))
def test_a_run_resumes_with_the_same_bits(name: str, tmp_path: Path) -> None:
    """Checkpoints have the rows that changed; another budget changes nothing."""
    whole = learner(name).fit()
    settings: dict[str, Any] = {"checkpoint": tmp_path / "c", "every_blocks": 3}

    class Stop(bl.Hook):
        def block(self, learner: bl.Learner, progress: Any) -> None:
            progress.stop = (progress.pass_, progress.block) == (1, 4)

    first = learner(name, hooks=[Stop()], **settings).fit()
    assert (first.progress.pass_, first.progress.block) == (1, 4)
    first.close()
    logs = [path.name for path in (tmp_path / "c").rglob("pages-*")]
    assert logs
    again = learner(name, FEW // 2, **settings).fit()
    assert numbers(again) == numbers(whole)
    again.close()
    state = learner(name, passes=1).fit().state()
    for most in (None, FEW):
        third = learner(name, most)
        third.restore(state)
        assert numbers(third.fit()) == numbers(whole)
        third.close()
    whole.close()


def test_small_tables_lie_on_the_device(drivers: list[HostDriver]) -> None:
    found = learner("glm, adagrad", 10**6).fit()
    assert found.placed_tables is not None and not found.placed_tables.tables
    assert drivers[0]._far == {}
    found.close()


def test_the_cpu_ignores_it() -> None:
    found = learner("glm, adagrad", device="cpu")
    assert found.placed_tables is None
    found.close()


def test_tables_that_do_not_fit_at_all_fit_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has room for the blocks and a part of the tables."""
    plan = learner("glm, adagrad", None, device_blocks=0).plan().on_device
    tables = 2 * 4 * 2 * FEATURES

    def small(number: int) -> HostDriver:
        return HostDriver(memory=plan - tables // 2, number=number)

    monkeypatch.setattr(devices, "open_driver", small)
    with pytest.raises(MemoryPlanError, match="bytes of a stand-in"):
        learner("glm, adagrad", None, device_blocks=0).fit()
    found = learner("glm, adagrad", tables // 4, device_blocks=0)
    planned = {row.name: row for row in found.plan().rows}
    near, far = planned["W"], planned["W (rows on the host)"]
    assert near.device == "cuda:0" and near.shape == (FEATURES // 4, 2)
    assert not far.device and far.shape == (FEATURES - FEATURES // 4, 2)
    assert far.held == 4 * 2 * far.shape[0]
    found.fit().close()


def test_what_needs_whole_tables_is_refused() -> None:
    for settings, told in (
        ({"replicas": 2}, "one replica"),
        ({"tables": "bfloat16"}, "tables='float32'"),
        ({"evaluation": "auc"}, "keep_best=False"),
    ):
        with pytest.raises(CombinationError, match=told) as error:
            learner("glm, adagrad", **settings)
        assert "tables.device" in str(error.value)


def test_a_table_that_is_not_finite_is_not_saved(tmp_path: Path) -> None:
    """Also where no check of a block was due."""

    class Spoil(bl.Hook):
        def pass_end(self, learner: bl.Learner, progress: Any) -> None:
            assert learner.placed_tables is not None
            table = learner.placed_tables.tables["W"]
            table.array[np.array([FEATURES - 1])] = np.full((1, 2), np.nan, np.float32)

    spoiled = learner("glm, adagrad", checkpoint=tmp_path / "c", hooks=[Spoil()])
    with pytest.raises(DivergedError, match="W is not finite"):
        spoiled.fit()
    assert not list((tmp_path / "c").glob("pass-*"))
    spoiled.close()


def test_rows_are_read_and_set_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklearn.matcache.cuda.bounce.BOUNCE", 200)
    backend = Cuda(HostDriver(), graphs=False)
    spread = backend.spread()
    for dtype, width in ((np.float32, 5), (np.float64, 1), (np.uint32, 3)):
        table = spread.new((50, width), dtype, 7)
        given = (1 + np.arange(33 * width)).reshape(33, width).astype(dtype)
        rows = np.random.default_rng(0).permutation(50)[:33].astype(np.int64)
        spread.write(table, rows, given)
        wanted = np.zeros((50, width), dtype)
        wanted[rows] = given
        assert spread.read(table, np.arange(50)).tobytes() == wanted.tobytes()
        assert spread.read(table, rows[:0]).shape == (0, width)
        twice = np.array([3, 49, 3])
        assert spread.read(table, twice).tobytes() == wanted[twice].tobytes()
    backend.close()


def config(tmp_path: Path, passes: int = 2, out: str = "", **tables: Any) -> RunConfig:
    X, Y = clicks()
    with (tmp_path / "clicks.svm").open("w") as file:
        for row, label in enumerate(Y[:, 0]):
            part = slice(X.indptr[row], X.indptr[row + 1])
            entries = zip(X.indices[part], X.data[part], strict=True)
            print(int(label), *(f"{1 + i}:{value}" for i, value in entries), file=file)
    return RunConfig.model_validate(
        {
            "model": {"kind": "glm"},
            "optimizer": {"kind": "adagrad"},
            "data": {
                "train": {"kind": "libsvm", "path": tmp_path / "clicks.svm"},
                "eval": {"kind": "holdout", "share": 0.2},
                "block_rows": BLOCK,
            },
            "out": tmp_path / (out or ("part" if tables else "whole")),
            "learner": {"passes": passes, "device": "cuda", "tables": tables or "float32"},
        }
    )


def test_a_configuration_says_how_much_of_a_device_they_take(tmp_path: Path) -> None:
    found = []
    for tables in ({}, {"device": FEW // 2}):
        given = config(tmp_path, **tables)
        train(given, RunOptions(quiet=True))
        found.append(bl.load(given.out).parameter("W").tobytes())
    assert found[0] == found[1]
    plan = Plan.from_json((tmp_path / "part" / "plan.json").read_text())
    assert [row.name for row in plan.rows if row.name.endswith(ON_HOST)]


@pytest.mark.slow
def test_a_run_may_resume_with_another_budget(tmp_path: Path) -> None:
    whole = config(tmp_path, device=FEW // 2)
    train(whole, RunOptions(quiet=True))
    wanted = bl.load(whole.out).parameter("W").tobytes()
    for passes, budget in ((1, FEW // 2), (2, FEW // 3)):
        part = config(tmp_path, passes, "again", device=budget)
        train(part, RunOptions(quiet=True, resume=passes > 1))
    assert bl.load(part.out).parameter("W").tobytes() == wanted


def test_memory_limits_the_rows_on_the_host(tmp_path: Path) -> None:
    limited = config(tmp_path, device=FEW, memory=1000)
    found = learner("glm, adagrad")
    with pytest.raises(MemoryPlanError, match=r"learner\.tables\.memory: 1\.0 kB: .* need"):
        check_room(found.plan(), limited)
    check_room(found.plan(), config(tmp_path, device=FEW, memory="1MB"))
    found.close()


@pytest.mark.parametrize("tables", [{"device": FEW, "folder": "t"}, {"memory": FEW}], ids=str)
def test_places_that_do_not_go_together_are_refused(tables: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Leave out one of them|needs a folder"):
        config(tmp_path, **tables)


def test_advice_is_given_for_both_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of cuMemAdvise, and an error of it."""
    told: list[tuple[int, ...]] = []
    status = 0

    class Library:
        def cuMemAdvise(self, *args: Any) -> int:
            told.append(tuple(arg.value for arg in args))
            return status

    monkeypatch.setattr(advice, "_library", Library)
    advice.keep(4096, 100, 2)
    advice.keep(4196, 50, advice.HOST)
    advice.keep(4246, 0, advice.HOST)
    advice.map_to(4096, 150, 2)
    assert told == [(4096, 100, 3, 2), (4196, 50, 3, -1), (4096, 150, 5, 2)]
    status = 801
    with pytest.raises(DeviceError, match="CUDA error 801"):
        advice.map_to(4096, 150, 2)
