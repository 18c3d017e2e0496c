"""Systems of the GLM benchmark: logistic regression, one target or one-vs-rest.

All peers have the same L2 penalty; ours has the package's defaults. Every `run_*` trains on
X [rows x features] and Y [rows x targets] of 0 and 1, and keeps its weights at the job's
checkpoints. The clock runs during training, not while data are converted to a package's own format.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.models import GLM
from blocklearn.optimizers import OPTIMIZERS

from . import peer_tools, system
from .process import Clock
from .system import Keeper, train_ours


class Timer(Clock):
    """`Clock` that counts this process's processor seconds to the microsecond."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = self._cpu = 0.0

    def __enter__(self) -> Timer:
        super().__enter__()
        self._cpu = time.process_time()
        return self

    def __exit__(self, *error: Any) -> None:
        self.cpu += time.process_time() - self._cpu
        super().__exit__(*error)

    def figures(self) -> dict[str, Any]:
        """Return the seconds so far; child processes count in ticks of 0.01 s."""
        found = super().figures()
        return found | {"own_cpu_seconds": round(max(self.cpu, self.own - 0.02), 4)}


@dataclass(kw_only=True)
class Job(system.Job):
    """A run of one system.

    alpha: weight of the peers' L2 penalty, per row.
    block_rows: rows of our blocks.
    """

    block_rows: int
    alpha: float


def make_learner(job: Job, X: Any, Y: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """Return the learner of the job's recipe: logistic targets, and its `optimizer`."""
    step = job.recipe.get("optimizer")
    optimizer = OPTIMIZERS[step["kind"]](**step) if step else None
    model = GLM(**job.recipe.get("model", {}))
    source = MatrixSource(X, targets=Y, block_rows=job.block_rows, shuffle="blocks")
    return bl.Learner(
        model, source, passes=passes, threads=job.threads, optimizer=optimizer, hooks=hooks
    )


def learned(learner: bl.Learner) -> dict[str, Any]:
    """Return W [V x T] and b [1 x T]."""
    found = learner.state().tensors
    return {"W": found["W"], "b": found["intercept"]}


def run_ours(job: Job, X: Any, Y: Any) -> None:
    """Run ours, compiled by training on two blocks."""
    Y = Y.toarray() if Y.shape[1] == 1 else Y  # dense, as the peers get one target
    keeper = Keeper(job, Timer(), learned)
    learner = train_ours(job, make_learner, [X, Y], slice(2 * job.block_rows), keeper)
    progress, optimizer, passes = learner.progress, learner.optimizer, learner.passes
    assert optimizer is not None
    seconds, by_rows = progress.seconds, optimizer.takes_rows
    active = 0 if by_rows else features_of_blocks(X, job.block_rows) * passes
    moved = bytes_moved(X.nnz * passes, active, Y.shape[1], X.shape[0] * passes, by_rows=by_rows)
    job.settings |= {
        "optimizer": optimizer.model_dump(),
        "block_rows": job.block_rows,
        "passes": passes,
        "flops": round(progress.gflops * seconds * 1e9),
        "bytes": moved,
        "gb_per_s": round(moved / seconds / 1e9, 3),
        "seconds_in_blocks": round(seconds, 4),
    }
    learner.close()


def features_of_blocks(X: Any, block_rows: int) -> int:
    """Return the number of features that occur in a block, summed over the blocks of a pass.

    >>> import scipy.sparse as sp
    >>> features_of_blocks(sp.csr_array([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), 2)
    3
    """
    edges = range(0, X.shape[0], block_rows)
    return sum(len(np.unique(X[start : start + block_rows].indices)) for start in edges)


def bytes_moved(nnz: int, active: int, targets: int, rows: int, *, by_rows: bool) -> int:
    """Return the bytes that products and AdaGrad's steps read and write, also in caches.

    Steps by block: on the way there, each non-zero reads its column, its value and a row of W. On
    the way back, it reads its row, position, value and a row of residuals. Each active feature has
    its number, offset, and rows of W and of the state, read and written. Each row has labels and
    residuals.

    Steps by row: each non-zero has its column and value, and its rows of W and of the state, read
    and written. Each row has its labels.
    """
    if by_rows:
        return nnz * (8 + 16 * targets) + rows * 4 * targets
    there, back = 8 + 4 * targets, 12 + 4 * targets
    return nnz * (there + back) + active * (12 + 16 * targets) + rows * 12 * targets


def run_sgd(job: Job, X: Any, Y: Any) -> None:
    """Run scikit-learn's SGDClassifier, one for each target, on all threads."""
    from joblib import Parallel, delayed
    from sklearn.linear_model import SGDClassifier

    warnings.simplefilter("ignore")  # its warnings that so few passes did not converge
    labels = [Y[:, [t]].toarray().ravel() for t in range(Y.shape[1])]

    def one(t: int, passes: int) -> Any:
        model = SGDClassifier(
            loss="log_loss", alpha=job.alpha, max_iter=passes, tol=None, random_state=0
        )
        return model.fit(X, labels[t])

    job.settings |= {"loss": "log_loss", "alpha": job.alpha, "dtype": "float32"}
    for passes in map(int, job.checkpoints):  # a run for each, from the start
        clock = Timer()
        if len(labels) == 1:
            with clock:
                found = [one(0, passes)]
        else:
            with clock:
                work = (delayed(one)(t, passes) for t in range(len(labels)))
                found = Parallel(n_jobs=job.threads, prefer="threads")(work)
        W, b = (np.stack([getattr(m, n).ravel() for m in found]).T for n in ("coef_", "intercept_"))
        job.keep(passes, clock, W=W, b=b)


def run_liblinear(job: Job, X: Any, Y: Any) -> None:
    """Run liblinear's primal solver, as scikit-learn calls it, until it converges.

    Of many targets only `SAMPLE` are run, and the time is extrapolated to all.
    """
    from sklearn.linear_model import LogisticRegression

    chosen = sample(Y.shape[1])
    C = 1.0 / (job.alpha * X.shape[0])
    clock, W, b = Timer(), np.zeros((X.shape[1], Y.shape[1]), np.float32), np.zeros(Y.shape[1])
    X = X.astype(np.float64)
    for t in chosen:
        model = LogisticRegression(solver="liblinear", C=C, tol=0.01)  # liblinear's default
        y = Y[:, [t]].toarray().ravel()
        with clock:
            model.fit(X, y)
        W[:, t], b[t] = model.coef_[0], model.intercept_[0]
    job.settings |= {"C": C, "dtype": "float64", "targets_run": len(chosen)}
    job.keep(0, clock, W=W, b=b)
    times = Y.shape[1] / len(chosen)
    for name in ("seconds", "own_cpu_seconds", "others_cpu_seconds"):
        job.curve[-1][name] = round(job.curve[-1][name] * times, 4)


SAMPLE = 10


def sample(targets: int) -> list[int]:
    """Return the targets that slow systems run, spread over all.

    >>> sample(3)
    [0, 1, 2]
    """
    return sorted({int(t) for t in np.linspace(0, targets - 1, min(SAMPLE, targets))})


def run_vw(job: Job, X: Any, Y: Any) -> None:
    """Run Vowpal Wabbit on one target.

    Its weights for many targets cannot be read back as scores.
    """
    bits = ["-b", vw_bits(X.shape[1]), "--quiet"]
    options = ["--loss_function", "logistic", *bits[:2], "--holdout_off", "--quiet"]
    labels = ["1 " if y > 0 else "-1 " for y in Y.toarray().ravel()]
    peer_tools.run_vw(
        job, X, labels, ["--noop", *bits], options, Timer,
        lambda lines: read_vw_weights(lines, X.shape[1]),
    )  # fmt: skip


def vw_bits(features: int) -> int:
    """Return the bits of its table of weights: its default, or enough for all features."""
    return max(18, int(np.ceil(np.log2(features + 1))) + 1)


def read_vw_weights(lines: Sequence[str], features: int) -> dict[str, Any]:
    """Return W [V x 1] and b [1] of a readable model.

    Its lines are `index:weight` after the line `:0`.
    """
    table = np.zeros(1 << vw_bits(features), np.float32)
    for line in lines:
        index, _, weight = line.partition(":")
        if index.isdigit() and weight:
            table[int(index)] = float(weight.split()[0])
    return {"W": table[:features, None], "b": table[[CONSTANT % len(table)]]}


CONSTANT = 11650396  # Vowpal Wabbit's hash of its constant feature


@dataclass(frozen=True)
class Peer(system.Peer):
    """A package; checkpoints are passes; 0: it runs until it has converged.

    single: it runs on one target only.
    """

    single: bool = False


PEERS = {
    "sgd": Peer("scikit-learn", "sklearn", run_sgd, (1, 3)),
    "liblinear": Peer("scikit-learn", "sklearn", run_liblinear, (0,)),
    "vw": Peer("vowpalwabbit", "vowpalwabbit", run_vw, (1, 3), single=True),
}
