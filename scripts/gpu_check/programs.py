"""The row-wise programs of trainings, as texts of CUDA modules. Needs pydantic, but no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from blocklearn.matcache.cuda import devices
from blocklearn.matcache.cuda.idle import IdleDriver
from scripts.benchmarks.data import power_law

ROWS, COLUMNS = 64, 600  # of the data: texts do not depend on them
TOPICS, RANK, TARGETS = 256, 100, 300


def of_trainings() -> Iterator[tuple[str, str, str]]:
    """Yield the main programs of LDA, ALS and GLM: name, width, text."""
    import blocklearn as bl

    X = power_law(ROWS, COLUMNS)
    Y = (np.random.default_rng(0).random((ROWS, TARGETS)) < 0.1).astype(np.float32)
    topics, rank, targets = f"K = {TOPICS}", f"K = {RANK}", f"{TARGETS} targets"
    by_block = {"optimizer": bl.optimizers.AdaGrad()}
    vb, cvb0 = (bl.models.LDA(topics=TOPICS, inference=way) for way in ("vb", "cvb0"))
    yield from _texts(["infer_vb"], topics, vb, X)
    yield from _texts(["infer_cvb0"], topics, cvb0, X)
    yield from _texts(["conjugate_gradients"], rank, bl.models.ALS(rank=RANK, solver="cg"), X)
    steps = ["mean_derivatives", "adagrad step"]
    yield from _texts(steps, targets, bl.models.GLM(), (X, Y), **by_block)


def _texts(
    names: list[str], width: str, model: Any, data: Any, **options: Any
) -> Iterator[tuple[str, str, str]]:
    """Yield the first text of each program that a training asks for."""
    import blocklearn as bl

    found: dict[str, str] = {}

    class Noting(IdleDriver):
        def function(self, source: str, name: str) -> str:
            found.setdefault(source.partition("\n")[0].removeprefix("// "), source)
            return name

    with patch.object(devices, "open_driver", Noting):
        learner = bl.Learner(model, data, passes=1, device="cuda:0", verbose=False, **options)
        learner.fit()
        learner.close()
    yield from ((name, width, found[name]) for name in names)
