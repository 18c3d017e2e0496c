"""Whole trainings on a stand-in for a CUDA device: what they learn is what the CPU learns.

Models with their own optimizers are in tests/models/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.yaml_config import resolve
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.learner import Learner
from blocklearn.learner.recommendation.recommend import recommend, similar_items
from blocklearn.learner.runs.memory_check import check_room
from blocklearn.learner.runs.training import RunOptions, train
from blocklearn.matcache import DeviceError, MemoryPlanError
from blocklearn.matcache.cuda import devices
from blocklearn.matcache.emit.cuda_header import TEAMS
from blocklearn.mixins import MIXINS
from blocklearn.optimizers import OPTIMIZERS
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins
from tests.support.model_variants import OneSided
from tests.support.often import first_often

pytestmark = needs_compiler


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Those that were opened."""
    return stand_ins(monkeypatch)


ROWS, COLUMNS = 130, 30


def counts() -> sp.csr_array:
    rng = np.random.default_rng(0)
    return sp.csr_array(rng.poisson(0.3, (ROWS, COLUMNS)).astype(np.float32))


def labels() -> Any:
    return (np.random.default_rng(1).random((ROWS, 3)) < 0.4).astype(np.float32)


def one_hot() -> Any:
    return np.eye(3, dtype=np.float32)[np.random.default_rng(1).integers(0, 3, ROWS)]


WHOLE = {"group-lasso", "cosine-similarity"}  # need the whole table in each step: dense data


def mixin(kind: type[bl.mixins.Mixin]) -> Any:
    return kind(**({"weight": 0.01} if "weight" in kind.model_fields else {}))


NEEDED: dict[str, dict[str, Any]] = {"sgld": {"rows": 60.0}}  # fields without a default
CASES: dict[str, Callable[[], tuple[Any, Any, dict[str, Any]]]] = {
    "lda": lambda: (bl.models.LDA(topics=4, inference="vb", inner_iterations=3), counts(), {}),
    "cvb0": lambda: (bl.models.LDA(topics=4, inference="cvb0", inner_iterations=3), counts(), {}),
    "nmf": lambda: (bl.models.NMF(components=3), counts(), {}),
    "nmf, kl": lambda: (bl.models.NMF(components=3, loss="kullback-leibler"), counts(), {}),
    "lda, gibbs": lambda: (bl.models.LDA(topics=4, sweeps=2), counts(), {}),
    "als": lambda: (bl.models.ALS(rank=3), counts(), {}),
    "als, cholesky": lambda: (bl.models.ALS(rank=3, solver="cholesky"), counts(), {}),
    "als, rows of users": lambda: (bl.models.ALS(rank=3), counts(), {"one_sided": True}),
    "als, steps of items": lambda: (
        bl.models.ALS(rank=3, item_equations_mib=0),
        counts(),
        {"one_sided": True, "optimizer": bl.optimizers.AdaGrad(rate=0.1)},
    ),
    "als, implicit": lambda: (bl.models.ALS(rank=3, loss="implicit"), counts(), {}),
    "glm": lambda: (
        bl.models.GLM(l1=0.001),
        (counts(), labels()),
        {"optimizer": bl.optimizers.AdaGrad(rate=0.5)},
    ),
    "glm, by row": lambda: (
        bl.models.GLM(),
        (counts(), labels()),
        {"optimizer": bl.optimizers.AdaGrad(rate=0.7, initial=0.1, step_per="row")},
    ),
    "glm, dense": lambda: (bl.models.GLM(), (counts().toarray(), labels()), {}),
    "glm, dense, full passes": lambda: (
        bl.models.GLM(l2=1e-3),
        (counts().toarray(), labels()),
        {"optimizer": bl.optimizers.LBFGS()},
    ),
    **{
        f"glm, {name}": lambda name=name, kind=kind: (
            bl.models.GLM(l2=0.01),
            (counts(), labels()),
            {"optimizer": kind(**NEEDED.get(name, {}))},
        )
        for name, kind in OPTIMIZERS.items()
        if kind.meaning == "gradients" and name not in ("adagrad", "lbfgs")
    },
    **{
        f"lda, {name}": lambda kind=kind: (
            bl.models.LDA(
                topics=4, inference="cvb0" if kind.normalises else "vb", inner_iterations=3
            ),
            counts(),
            {"optimizer": kind()},
        )
        for name, kind in OPTIMIZERS.items()
        if kind.meaning == "estimates" and name != "streaming-average"
    },
    **{
        f"glm, {link}": lambda link=link: (
            bl.models.GLM(link=link),
            (counts(), one_hot() if link == "softmax" else labels()),
            {"optimizer": bl.optimizers.AdaGrad(rate=0.2)},
        )
        for link in ("linear", "hinge", "poisson", "softmax")
    },
    **{
        f"glm, {name}": lambda name=name, kind=kind: (
            bl.models.GLM(),
            (counts().toarray() if name in WHOLE else counts(), labels()),
            {"optimizer": bl.optimizers.SGD(rate=0.1), "mixins": [mixin(kind)]},
        )
        for name, kind in MIXINS.items()
    },
    "glm, l-bfgs": lambda: (
        bl.models.GLM(l2=0.1),
        (counts(), labels()),
        {"optimizer": bl.optimizers.LBFGS()},
    ),
}


def trained(name: str, device: str | list[str], passes: int = 3, **options: Any) -> Learner:
    model, data, own = CASES[name]()
    if own.pop("one_sided", False):
        data = OneSided(MatrixSource(data, block_rows=30))
    options = {"passes": passes, "block_rows": 30, "threads": 1, "seed": 3, **own, **options}
    return bl.Learner(model, train=data, device=device, **options).fit()


def learnt(name: str, learner: Learner) -> dict[str, Any]:
    """Everything that comes out of it."""
    data = CASES[name]()[1]
    found = {p: learner.parameter(p) for p in learner.model.parameters}
    found |= {s: learner.row_state(s).copy() for s in learner.model.row_states}
    found["predicted"] = learner.predict(data[0] if isinstance(data, tuple) else data)
    found["scores"] = np.array(list(learner.evaluate(data).values()))
    return found


OFTEN = {"lda", "cvb0", "nmf", "lda, gibbs", "als", "als, cholesky", "als, rows of users", "glm"}
OFTEN |= {"glm, by row", "glm, dense"}
UNDER_CONTRACT = {"nmf, kl", "als, implicit", "als, steps of items", "glm, l-bfgs"}
"""Cases that are variants of models in tests/models/test_contract.py, too."""
SLOW = CASES.keys() - OFTEN - UNDER_CONTRACT


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name in SLOW])
def test_a_device_learns_what_the_cpu_learns(
    name: str, drivers: list[HostDriver], every_block_is_scored: None
) -> None:
    cpu = trained(name, "cpu")
    expected = learnt(name, cpu)
    assert cpu.team is not None
    flops = cpu.team.flops
    cpu.close()
    learner = trained(name, "cuda")
    for what, numbers in learnt(name, learner).items():
        np.testing.assert_allclose(
            numbers, expected[what], rtol=1e-3, atol=1e-4 * abs(expected[what]).max(), err_msg=what
        )
    (driver,) = drivers
    assert learner.team is not None
    stats = learner.team.first.cache.stats()
    assert driver.allocations == stats.allocations == 1  # the slab
    assert stats.allocations_after_warmup == 0
    assert driver.replayed > 0
    learner.team.first.cache.backend.drain()
    assert learner.team.flops == flops
    assert learner.progress.device_bytes == stats.bytes
    learner.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "teams"),
    [("lda", False), ("nmf", False), ("lda", True), ("als", True), ("als, cholesky", True)],
)
def test_long_rows_are_shared(name: str, teams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all threads of a block, which take turns: lanes, shuffles, barriers are as on a card."""
    monkeypatch.setattr("blocklearn.matcache.cuda.order.MOST", 1 if teams else 6)
    if teams:
        monkeypatch.setattr("blocklearn.matcache.cuda.order.SHARED", 1)
    drivers = stand_ins(monkeypatch, threads=256)
    expected = learnt(name, trained(name, "cpu", passes=1))
    for what, numbers in learnt(name, trained(name, "cuda", passes=1)).items():
        np.testing.assert_allclose(
            numbers, expected[what], rtol=1e-3, atol=1e-4 * abs(expected[what]).max(), err_msg=what
        )
    assert any(TEAMS in source for source in drivers[0].sources) == teams


def test_lists_are_made_on_the_device(drivers: list[HostDriver]) -> None:
    cpu, cuda = (trained("als, cholesky", device) for device in ("cpu", "cuda"))
    for make in (recommend, similar_items):
        wanted, found = (list(make(learner, n=5)) for learner in (cpu, cuda))
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b.scores, a.scores, rtol=1e-3, atol=1e-4)
            assert (a.ids == b.ids).mean() > 0.9  # others are as good
        assert "top_products" in drivers[-1].launched
    assert len(drivers) == 1


def test_graphs_change_no_bit(drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    with_graphs = learnt("nmf", trained("nmf", "cuda"))
    monkeypatch.setattr("blocklearn.matcache.cuda.launcher.FEWEST", 10**9)
    without = learnt("nmf", trained("nmf", "cuda"))
    for what, numbers in with_graphs.items():
        np.testing.assert_array_equal(numbers, without[what])
    assert drivers[0].replayed > 0
    assert drivers[1].replayed == 0


def test_replicas_on_two_devices_are_merged(drivers: list[HostDriver]) -> None:
    expected = learnt("glm", trained("glm", "cpu", replicas=2, sync_every=1))
    found = learnt("glm", trained("glm", ["cuda:0", "cuda:1"], replicas=2, sync_every=1))
    for what, numbers in found.items():
        np.testing.assert_allclose(numbers, expected[what], rtol=1e-3, atol=1e-4, err_msg=what)
    assert len(drivers) == 2


@pytest.mark.parametrize(
    "device, count", first_often([("cuda", 2), ("cuda:1", 1), ("auto", 2), ("cuda", 1)], 2)
)
def test_as_many_replicas_as_devices(
    device: str, count: int, drivers: list[HostDriver], tmp_path: Path, monkeypatch: Any
) -> None:
    """The run records how many, so it resumes with as many on any machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "count", lambda: 1 if device == "cuda" and count == 1 else 2)
    sp.save_npz("counts.npz", counts())
    given: Any = {
        "model": {"kind": "nmf", "components": 3},
        "data": {"train": {"kind": "file", "path": "counts.npz"}, "block_rows": 30},
        "learner": {"device": device, "replicas": "auto", "threads": 1, "sync_every": 1},
        "out": "run",
    }
    train(RunConfig.model_validate(given), RunOptions(quiet=True))
    assert len(drivers) == 2 * count  # the plan looks at each
    written = resolve(RunConfig, [Path("run/config.yaml")], {})
    assert written.learner.replicas == count
    assert written.learner.devices == (["cuda:0", "cuda:1"] if count == 2 else None)
    given["learner"]["passes"] = 2
    again = RunConfig.model_validate(given)
    assert train(again, RunOptions(resume=True, quiet=True)) is not None
    monkeypatch.setattr(devices, "count", lambda: 3)
    given["learner"] = written.learner.model_copy(update={"passes": 3}).model_dump()
    assert train(RunConfig.model_validate(given), RunOptions(resume=True, quiet=True)) is not None
    if device != "cuda:1":
        with pytest.raises(ConfigError, match=f"replicas: 3, but the run was started with {count}"):
            train(again, RunOptions(resume=True, quiet=True))


@pytest.mark.parametrize("name", first_often(["glm", "als"]))
def test_a_run_goes_on_on_a_device(name: str, drivers: list[HostDriver]) -> None:
    whole, half = (trained(name, "cuda", passes=passes) for passes in (4, 2))
    model, data, own = CASES[name]()
    rest = bl.Learner(model, train=data, device="cuda", passes=4, block_rows=30, seed=3, **own)
    rest.restore(half.state())
    found = rest.fit().state().tensors
    for what, numbers in whole.state().tensors.items():
        np.testing.assert_array_equal(found[what], numbers, err_msg=what)


def test_too_small_a_device_is_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "open_driver", lambda number: HostDriver(memory=5000))
    with pytest.raises(MemoryPlanError, match="5,000 of its 5,000 are free. Lower block_rows"):
        trained("nmf", "cuda")


def test_a_run_says_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "open_driver", lambda number: HostDriver(memory=30_000))
    model, data, own = CASES["nmf"]()
    learner = bl.Learner(model, train=data, device="cuda", block_rows=30, **own)
    data = {"train": {"kind": "python-docs"}, "block_rows": 30}
    given = {"model": {"kind": "nmf", "components": 3}, "data": data}
    config = RunConfig.model_validate(given)
    with pytest.raises(MemoryPlanError) as error:
        check_room(learner.plan(), config)
    message = str(error.value)
    assert "of the memory of cuda:0, and 30.0 kB are free" in message
    assert "data.block_rows: 30" in message
    assert "model.components: 3" in message


def test_the_plan_says_what_is_on_the_device(drivers: list[HostDriver]) -> None:
    model, data, own = CASES["nmf"]()
    learner = bl.Learner(model, train=data, device="cuda", block_rows=30, **own)
    plan = learner.plan()
    cpu = bl.Learner(model, train=data, block_rows=30, **own).plan()
    assert plan.on_device > 0 == cpu.on_device
    names = {row.name for row in plan.rows}
    assert "W of the block (on the device)" in names
    assert "W (on the device)" in names  # all rows have room there
    learner.fit()
    assert learner.team is not None
    held = learner.team.first.cache.stats().bytes
    assert plan.on_device <= held < plan.on_device + 256 * len(plan.rows)
    assert plan == type(plan).from_json(plan.json())


def test_devices_that_are_not_there() -> None:
    if devices.count():
        pytest.skip("there is one")
    with pytest.raises(DeviceError, match="cuda:0, but .*pip install cupy-cuda12x"):
        trained("nmf", "cuda")
    assert trained("nmf", "auto", passes=1).execution.devices == ["cpu"]
    with pytest.raises(DeviceError, match="cpu, cuda, cuda:N"):
        trained("nmf", "gpu")
    with pytest.raises(DeviceError, match="1 devices for 2 replicas"):
        trained("nmf", ["cuda"], replicas=2)
    with pytest.raises(DeviceError, match="all on the CPU or all on GPUs"):
        trained("nmf", ["cuda", "cpu"], replicas=2)
