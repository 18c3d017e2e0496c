"""The contract of models: every model of the registry keeps it, so a new one is under test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checking.contract import CHECKS
from blocklearn.models import MODELS, NMF
from tests.support import model_variants
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins
from tests.support.model_variants import (
    ALIKE,
    VARIANTS,
    Variant,
    data_for,
    features_of,
    trained,
    variants,
)
from tests.support.often import rarely

CASES = variants()
ON_DEVICE = [
    "lda vb", "glm block", "als explicit cg", "nmf frobenius", "gaussian-mixture",
    "ranking softmax",
]  # fmt: skip
"""Variants whose kernels most of the others have, too: on a device, these are slow."""


def test_every_model_is_under_test() -> None:
    assert {name.split()[0] for name in CASES} == MODELS.keys()
    assert VARIANTS.keys() <= MODELS.keys(), "variants of a model that does not exist"
    assert ALIKE <= CASES.keys()


def test_a_new_model_is_under_test_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_variants, "MODELS", {**MODELS, "new": NMF})
    assert variants()["new"] == Variant(NMF())


@pytest.mark.parametrize(
    "name", [*(name for name in CASES if name not in ALIKE), *rarely(*sorted(ALIKE))]
)
def test_a_model_keeps_the_contract(name: str) -> None:
    variant = CASES[name]
    applied = bl.check_model(
        variant.model, data_for(variant), optimizer=variant.optimizer, mixins=variant.mixins
    )
    without = {"gradients"} if variant.model.meaning != "gradients" else set()
    if variant.optimizer is not None and variant.optimizer.keeps_rows:
        without.add("replicas")
    assert set(applied) == CHECKS.keys() - without


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Stand-ins for devices that were opened."""
    return stand_ins(monkeypatch)


def learnt(learner: bl.Learner, data: Any) -> dict[str, Any]:
    """All that comes out of a training."""
    found: dict[str, Any] = {p: learner.parameter(p) for p in learner.model.parameters}
    found |= {s: learner.row_state(s).copy() for s in learner.model.row_states}
    found["predicted"] = learner.predict(features_of(data))
    found["scores"] = np.array(list(learner.evaluate(data).values()))
    return found


@needs_compiler
@pytest.mark.parametrize(
    "name",
    [*ON_DEVICE, *rarely(*(name for name in CASES if name not in {*ON_DEVICE, *ALIKE}))],
)
def test_a_device_learns_what_the_cpu_learns(
    name: str, drivers: list[HostDriver], every_block_is_scored: None
) -> None:
    variant = CASES[name]
    data = data_for(variant)
    cpu = trained(variant)
    expected, team = learnt(cpu, data), cpu.team
    assert team is not None
    flops = team.flops
    cpu.close()
    learner = trained(variant, device="cuda")
    for what, numbers in learnt(learner, data).items():
        np.testing.assert_allclose(
            numbers, expected[what], rtol=1e-3, atol=1e-4 * abs(expected[what]).max(), err_msg=what
        )
    (driver,) = drivers
    team = learner.team
    assert team is not None
    stats = team.first.cache.stats()
    assert driver.allocations == stats.allocations == 1  # the slab
    assert stats.allocations_after_warmup == 0
    few = ("components", "triangles")  # which converge before launches repeat, or read sizes
    assert driver.replayed > 0 or name in few
    team.first.cache.backend.drain()
    if name != "lda kept":  # of which a device makes phi in a kernel of its own
        assert team.flops == flops
    assert learner.progress.device_bytes == stats.bytes
    learner.close()
