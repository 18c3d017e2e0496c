"""blocklearn's ALS as a system of the benchmark."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import ALS

from .als_job import Job
from .process import Clock

RECIPES: dict[str, dict[str, Any]] = {
    "cg": {},
    "cg without biases": {"biases": False},
    "cholesky": {"solver": "cholesky"},
}
BLOCK_ROWS = 1024
WARM = 64  # rows that are trained on to compile


class Keeper(bl.Hook):
    """Keeps the factors after the passes that the checkpoints name; the clock stops meanwhile."""

    def __init__(self, job: Job, clock: Clock) -> None:
        self.job, self.clock = job, clock
        self.passes = [0.0]  # seconds of training after each pass

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Keep users and items, biases included, if it is after this pass."""
        self.passes.append(progress.seconds)
        done = progress.pass_ + 1
        if done in self.job.checkpoints:
            self.clock.__exit__(None, None, None)
            mean = float(learner.model.parameters["mean"].numpy()[0, 0])
            users, items = learner.row_state("users"), learner.row_state("items")
            self.job.keep(done, self.clock, users, items, mean)
            self.clock.__enter__()


def make_learner(job: Job, X: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """The learner that the job describes."""
    loss: dict[str, Any] = {"loss": job.loss, "alpha": job.alpha}
    if job.loss == "implicit":
        loss["weighted"] = False
    model = ALS(rank=job.rank, reg=job.reg, **loss, **job.recipe)
    return bl.Learner(
        model, train=X, passes=passes, block_rows=BLOCK_ROWS, threads=job.threads, hooks=hooks
    )


def run_ours(job: Job, X: Any) -> None:
    """Compile, outside the clock, by training on a few rows; then train, from matrix to factors:
    checking X and transposing it is inside.
    """
    start = time.perf_counter()
    if "BLOCKLEARN_CACHE" not in os.environ:
        os.environ["BLOCKLEARN_CACHE"] = str(job.path("kernels"))
    X = sp.csr_array(X)
    warm = make_learner(job, X[np.flatnonzero(np.diff(X.indptr))[:WARM]], 1, [])
    warm.fit()
    warm.close()
    compiling = time.perf_counter() - start
    clock = Clock()
    keeper = Keeper(job, clock)
    with clock:
        learner = make_learner(job, X, job.checkpoints[-1], [keeper])
        learner.fit()
    progress = learner.progress
    each = [b - a for a, b in zip(keeper.passes, keeper.passes[1:], strict=False)]
    job.settings |= learner.model.model_dump(include={"solver", "cg_steps", "biases"})
    job.settings |= {
        "block_rows": BLOCK_ROWS,
        "compile_seconds": round(compiling, 2),
        "seconds_each": round(median(each), 5),
        "gflops": round(progress.gflops, 2),
        "allocations_after_warmup": progress.allocations_after_warmup,
    }
