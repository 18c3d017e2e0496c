"""blocklearn's GLM as a system of the benchmark: logistic targets, the package's defaults."""

from __future__ import annotations

import os
import time
from typing import Any

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.models import GLM
from blocklearn.optimizers import OPTIMIZERS

from .glm_job import Job, Timer


class Keeper(bl.Hook):
    """Keeps the weights after the blocks that the checkpoints name; the clock stops meanwhile."""

    def __init__(self, job: Job, clock: Timer) -> None:
        self.job, self.clock, self.active = job, clock, 0

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Keep W and the intercept, if this block is one to do so after; count active features."""
        replica = learner._replica
        assert replica is not None
        self.active += replica._X.pattern.active_count
        done = progress.pass_ * progress.blocks + progress.block
        if done in {max(1, round(mark * progress.blocks)) for mark in self.job.checkpoints}:
            self.clock.__exit__(None, None, None)
            found = replica.model.parameters
            passes = round(done / progress.blocks, 4)
            self.job.keep(passes, self.clock, found["W"].numpy(), found["intercept"].numpy())
            self.clock.__enter__()


def make_learner(job: Job, X: Any, Y: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """The learner that the job's recipe describes: logistic targets, `optimizer` if it has one."""
    step = job.recipe.get("optimizer")
    optimizer = OPTIMIZERS[step["kind"]](**step) if step else None
    model = GLM(**job.recipe.get("model", {}))
    source = MatrixSource(X, targets=Y, block_rows=job.block_rows, shuffle="blocks")
    return bl.Learner(
        model, source, passes=passes, threads=job.threads, optimizer=optimizer, hooks=hooks
    )


def run_ours(job: Job, X: Any, Y: Any) -> None:
    """Compile, outside the clock, by training on two blocks; then train, from matrix to weights."""
    if "compile_seconds" not in job.settings:
        if job.cold:
            os.environ["BLOCKLEARN_CACHE"] = str(job.path("kernels"))
        start = time.perf_counter()
        warm = make_learner(job, X[: 2 * job.block_rows], Y[: 2 * job.block_rows], 2, [])
        warm.fit()
        warm.close()
        job.settings["compile_seconds"] = round(time.perf_counter() - start, 2)
    clock = Timer()
    keeper = Keeper(job, clock)
    passes = int(-(-job.checkpoints[-1] // 1))
    with clock:
        learner = make_learner(job, X, Y, passes, [keeper])
        learner.fit()
    replica, seconds = learner._replica, learner.progress.seconds
    assert replica is not None
    moved = bytes_moved(X.nnz * passes, keeper.active, Y.shape[1], X.shape[0] * passes)
    job.settings |= {
        "optimizer": None if learner.optimizer is None else learner.optimizer.model_dump(),
        "block_rows": job.block_rows,
        "passes": passes,
        "gflops": round(replica.cache.flops / seconds / 1e9, 2),
        "flops": replica.cache.flops,
        "bytes": moved,
        "gb_per_s": round(moved / seconds / 1e9, 2),
        "seconds_in_blocks": round(seconds, 4),
        "allocations_after_warmup": learner.progress.allocations_after_warmup,
    }
    learner.close()


def bytes_moved(nnz: int, active: int, targets: int, rows: int) -> int:
    """Bytes that the two products and AdaGrad's step read and write, wherever they lie.

    A non-zero: its column, its value and a row of W on the way there; its row, position and value
    and a row of residuals on the way back. An active feature: number, offset, and its rows of W and
    of the state, read and written. A row: its labels and residuals. Much of it is in caches.
    """
    there, back = 8 + 4 * targets, 12 + 4 * targets
    return nnz * (there + back) + active * (12 + 16 * targets) + rows * 12 * targets
