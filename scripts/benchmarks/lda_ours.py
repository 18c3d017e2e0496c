"""blocklearn's LDA as a system of the benchmark: recipes, and the process that runs one.

A recipe is what a configuration file of `learn` says: `model`, `optimizer`, `data.block_rows`,
`learner.passes`, `learner.seed`; other keys of such a file do not matter here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from ruamel.yaml import YAML

import blocklearn as bl
from blocklearn.models import LDA
from blocklearn.optimizers import OPTIMIZERS

from .lda_job import Job
from .process import Clock

PASSES = {"vb": 5, "cvb0": 5, "gibbs": 30}  # where no recipe says how many


def default_recipes() -> dict[str, dict[str, Any]]:
    """One for each inference, with the package's defaults."""
    inferences = get_args(LDA.model_fields["inference"].annotation)
    return {name: {"model": {"inference": name}} for name in inferences}


def read_recipe(text: str) -> tuple[str, dict[str, Any]]:
    """Name and recipe from a YAML file, or from YAML text with an optional `name`.

    >>> read_recipe("{name: short, model: {inference: vb}, learner: {passes: 2}}")
    ('short', {'model': {'inference': 'vb'}, 'learner': {'passes': 2}})
    """
    path = Path(text)
    is_file = "{" not in text and ":" not in text
    found = YAML(typ="safe").load(path.read_text() if is_file else StringIO(text))
    if not isinstance(found, Mapping) or not isinstance(found.get("model"), Mapping):
        raise ValueError(f"--recipe {text}: it needs a mapping with the key `model`.")
    recipe = dict(found)
    inference = recipe["model"].get("inference", LDA().inference)
    return str(recipe.pop("name", path.stem if is_file else inference)), recipe


def passes_of(recipe: dict[str, Any]) -> int:
    """How often a recipe goes through the data."""
    inference = recipe["model"].get("inference", LDA().inference)
    return int(recipe.get("learner", {}).get("passes", PASSES.get(inference, 5)))


def checkpoints(passes: int) -> list[float]:
    """Passes after which topics are kept: dense at first, where the peers' perplexity is reached.

    >>> checkpoints(3)
    [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]
    """
    marks = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, *(float(p) for p in range(3, passes + 1))]
    return [m for m in marks if m <= passes]


class Keeper(bl.Hook):
    """Keeps the topics after the blocks that the checkpoints name; the clock stops meanwhile."""

    def __init__(self, job: Job, clock: Clock) -> None:
        self.job = job
        self.clock = clock

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Keep lambda, normalised, if this block is one to do so after."""
        blocks = progress.blocks
        done = progress.pass_ * blocks + progress.block
        if done in {max(1, round(mark * blocks)) for mark in self.job.checkpoints}:
            self.clock.__exit__(None, None, None)
            lam = learner.model.parameters["lambda"].numpy()
            self.job.keep(round(done / blocks, 4), self.clock, (lam / lam.sum(0)).T)
            self.clock.__enter__()


def make_learner(job: Job, X: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """The learner that the job's recipe describes."""
    recipe = job.recipe
    model = LDA(**({"kind": "lda"} | recipe["model"] | {"topics": job.topics}))
    step = recipe.get("optimizer")
    optimizer = OPTIMIZERS[step["kind"]](**step) if step else None
    return bl.Learner(
        model,
        train=X,
        passes=passes,
        block_rows=recipe.get("data", {}).get("block_rows", job.batch),
        seed=recipe.get("learner", {}).get("seed", 0),
        threads=job.threads,
        optimizer=optimizer,
        hooks=hooks,
    )


def run_ours(job: Job, X: Any) -> None:
    """Compile, outside the clock, by training on two blocks; then train, from matrix to topics."""
    if job.cold:
        os.environ["BLOCKLEARN_CACHE"] = str(job.path("kernels"))
    start = time.perf_counter()
    warm = make_learner(job, X[: 2 * job.batch], 2, [])
    warm.fit()
    warm.close()
    compiling = time.perf_counter() - start
    clock = Clock()
    with clock:
        learner = make_learner(job, X, job.passes, [Keeper(job, clock)])
        learner.fit()
    progress = learner.progress
    job.settings |= learner.model.model_dump(exclude={"kind", "topics"})
    job.settings |= {
        "optimizer": None if learner.optimizer is None else learner.optimizer.model_dump(),
        "block_rows": learner.block_rows,
        "compile_seconds" if job.cold else "load_seconds": round(compiling, 2),
        "gflops": round(progress.gflops, 2),
        "allocations_after_warmup": progress.allocations_after_warmup,
    }
