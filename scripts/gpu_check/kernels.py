"""Time each kernel of a block by events: every inference and solver, and lists of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from blocklearn.matcache.cuda import devices, launcher
from scripts.benchmarks.data import power_law

from .clocked import Clocked
from .measure import Row, Scale, floor

PASSES = 3  # timed
USERS = 4096  # whose lists are made at a time
SMALL = 0.005  # share of the time of a training, below which a kernel is not listed
LISTS = {
    "LDA kept, all": False,
    "LDA kept, lists": True,
    "LDA kept, many, all": False,
    "LDA kept, many, lists": True,
}
"""Whether kept topics are drawn by lists: on a card, both ways are to be compared."""
Floor = Callable[[float, float, float, float], tuple[float, float]]
# Bytes and operations of docs/gpu-kernels.md: N non-zeros, R rows, V columns and K numbers a row.
FLOORS: dict[str, Floor] = {
    "infer_vb": lambda n, r, v, k: (4 * n * k * 6 + 12 * n + 8 * r * k, 4 * n * k * 6),
    "infer_cvb0": lambda n, r, v, k: (4 * n * k * 11 + 12 * n + 8 * r * k, 4 * n * k * 11),
    "conjugate_gradients": lambda n, r, v, k: (16 * n * k, 16 * n * k),
    "sample": lambda n, r, v, k: (2 * n * k * 10, 2 * n * k * 10),
    "redraw_topics": lambda n, r, v, k: (4 * n * k + 12 * n, 2 * n * k),
    "sum_words": lambda n, r, v, k: (5 * v * k, 2 * v * k),
    "move_counts": lambda n, r, v, k: (32 * n, 2 * n),
    "topic_counts": lambda n, r, v, k: (34 * n + 4 * v * k, 9 * n),
    "transposed_product": lambda n, r, v, k: (4 * n * k + 4 * v * k + 16 * n, 2 * n * k),
    "solve_rows": lambda n, r, v, k: (4 * n * k + 8 * r * k, n * k * k + r * k**3 / 3),
    "add_outer_32": lambda n, r, v, k: (4 * n * k + 4 * v * k * k + 16 * n, n * k * k),
    "top_products": lambda n, r, v, k: (4 * (v + USERS) * k, 2 * USERS * v * k),
}


def rows(scale: Scale) -> Iterator[Row]:
    """Yield a row for each kernel of each model, the slowest first. Needs pydantic."""
    try:
        import blocklearn.models.base  # noqa: F401
    except ImportError as error:
        yield Row("kernels", note=f"not run: {error}")
        return
    for name, (model, data, k, options) in models(scale).items():
        if scale.late:
            return
        yield from of_model(name, model, data, k, options, scale)


def models(scale: Scale) -> dict[str, tuple[Any, Any, int, dict[str, Any]]]:
    """Return models with their data, numbers a row and options, by name."""
    import blocklearn as bl

    block, k, rank = scale.of(8192, 30), scale.of(256, 5), scale.of(100, 3)
    X = power_law(4 * block, scale.of(50_000, 60))
    R = power_law(4 * block, scale.of(17_770, 30), 200)
    rng, targets = np.random.default_rng(0), scale.of(300, 3)
    Y = (rng.random((X.shape[0], targets)) < 0.1).astype(np.float32)
    by_block = {"optimizer": bl.optimizers.AdaGrad()}
    made = {
        f"LDA {way}": (bl.models.LDA(topics=k, inference=way, assignments="fresh"), X, k, {})
        for way in ("vb", "cvb0")
    }
    made |= {
        f"LDA {name}": (
            bl.models.LDA(topics=k, assignments="fresh", sweeps=9, fresh_counts=counts), X, k, {}
        )
        for name, counts in (("gibbs", "drawn"), ("gibbs of expected topics", "expected"))
    }  # fmt: skip
    many = scale.of(1000, 130)
    kept = {"assignments": "kept", "warm_up": 0, "fresh_passes": 0}
    made |= {
        name: (bl.models.LDA(topics=topics, **kept), X, topics, {})
        for name, topics in zip(LISTS, (k, k, many, many), strict=True)
    }
    made |= {
        f"ALS {solver}": (bl.models.ALS(rank=rank, solver=solver), R, rank, {})
        for solver in ("cg", "cholesky")
    }
    made |= {
        "NMF": (bl.models.NMF(components=rank), X, rank, {}),
        f"GLM {targets} targets": (bl.models.GLM(), (X, Y), targets, by_block),
        "GLM 1 target": (bl.models.GLM(), (X, Y[:, :1]), 1, by_block),
    }
    return {
        name: (model, data, width, {"block_rows": block, **options})
        for name, (model, data, width, options) in made.items()
    }


def of_model(
    name: str, model: Any, data: Any, k: int, options: dict[str, Any], scale: Scale
) -> Iterator[Row]:
    """Yield a row for each kernel of a training, and one for all of a block."""
    import blocklearn as bl

    made: list[Clocked] = []
    opened = devices.open_driver

    def clocked(number: int) -> Any:
        made.append(Clocked(opened(number)))
        return made[-1]

    from blocklearn.models.lda import kept_topics

    one_by_one = patch.object(launcher, "FEWEST", 1 << 30)  # kernels of a graph cannot be timed
    way = patch.dict(kept_topics.MANY, cuda=1 if LISTS.get(name) else 1 << 30)
    with patch.object(devices, "open_driver", clocked), one_by_one, way:
        learner = bl.Learner(model, data, passes=2, device="cuda:0", verbose=False, **options)
        learner.fit()
        made[0].times()
        learner.passes += PASSES
        learner.fit()
        if isinstance(model, bl.models.ALS):
            for _ in bl.recommend(learner, n=10):
                pass
        times = made[0].times()
        blocks = learner.train.blocks * PASSES
        learner.close()
    matrix = data[0] if isinstance(data, tuple) else data
    shape = (matrix.nnz / learner.train.blocks, options["block_rows"], matrix.shape[1], k)
    whole = sum(map(sum, times.values()))
    yield Row(f"{name}: kernels of a block", whole / blocks, note=f"{len(times)} kernels")
    for kernel, spent in sorted(times.items(), key=lambda item: -sum(item[1])):
        if sum(spent) < SMALL * whole:
            return
        least = FLOORS.get(kernel)
        note = f"{len(spent) / blocks:.1f} a block, {100 * sum(spent) / whole:.0f} % of its time"
        seconds = median(spent)
        if least is not None and not scale.quick:
            note += f", {least(*shape)[0] / seconds / 1e9:,.0f} GB/s"
        needed = None if least is None else floor(*least(*shape))
        yield Row(f"{name}: {kernel}", seconds, None, needed, note)
