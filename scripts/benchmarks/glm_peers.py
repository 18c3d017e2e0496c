"""Other packages' logistic regression, one target or one-vs-rest, with the same L2 penalty.

Every `run_*` trains on X [rows x features], Y [rows x targets] of 0 and 1, and keeps its weights at
the job's checkpoints. The clock runs while it trains; conversion to its own format is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .glm_job import Job, Timer


def run_sgd(job: Job, X: Any, Y: Any) -> None:
    """scikit-learn's SGDClassifier: one for each target, on as many threads as there are."""
    from joblib import Parallel, delayed
    from sklearn.linear_model import SGDClassifier

    warnings.simplefilter("ignore")  # that it did not converge in so few passes
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
        W = np.hstack([model.coef_.T for model in found])
        job.keep(passes, clock, W, np.concatenate([model.intercept_ for model in found]))


def run_liblinear(job: Job, X: Any, Y: Any) -> None:
    """liblinear's primal solver, as scikit-learn calls it, until it has converged.

    Of many targets `SAMPLE` are run and the time is extrapolated to all.
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
    job.keep(0, clock, W, b)
    times = Y.shape[1] / len(chosen)
    for name in ("seconds", "own_cpu_seconds", "others_cpu_seconds"):
        job.curve[-1][name] = round(job.curve[-1][name] * times, 4)


SAMPLE = 10


def sample(targets: int) -> list[int]:
    """The targets that slow systems run, spread over all.

    >>> sample(3)
    [0, 1, 2]
    """
    return sorted({int(t) for t in np.linspace(0, targets - 1, min(SAMPLE, targets))})


def run_vw(job: Job, X: Any, Y: Any) -> None:
    """Vowpal Wabbit from its binary cache; its seconds hold the start of the process, some 0.2 s.

    One target alone: its weights for many cannot be read back as scores.
    """
    data, cache, model = (job.path(f"vw.{s}") for s in ("data", "cache", "model"))
    bits, y = vw_bits(X.shape[1]), Y.toarray().ravel()
    with data.open("w") as file:
        for row, (a, e) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True)):
            pairs = zip(X.indices[a:e], X.data[a:e], strict=True)
            label = "1" if y[row] > 0 else "-1"
            file.write(f"{label} | " + " ".join(f"{c}:{v:.6g}" for c, v in pairs) + "\n")
    _vw(["--noop", "-d", data, "--cache_file", cache, "-b", bits, "--quiet"])
    options = ["--loss_function", "logistic", "-b", bits, "--holdout_off", "--quiet"]
    job.settings |= {"command": "vw " + " ".join(map(str, options)), "threads": "learner + parser"}
    for passes in map(int, job.checkpoints):  # a run for each, from the start
        clock = Timer()
        with clock:
            command = ["-d", data, "--cache_file", cache, "--passes", passes, "-f", model]
            _vw([*options, *command])
        text = job.path("vw.weights")
        _vw(["-i", model, "-t", "-d", os.devnull, "--readable_model", text, "--quiet"])
        job.keep(passes, clock, *read_vw_weights(text, X.shape[1]))
    for file in (data, cache, model):
        file.unlink(missing_ok=True)


def vw_bits(features: int) -> int:
    """Bits of its table of weights: its default, or enough for all features."""
    return max(18, int(np.ceil(np.log2(features + 1))) + 1)


def _vw(arguments: list[Any]) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def read_vw_weights(path: Path, features: int) -> tuple[Any, Any]:
    """W [V x 1] and b [1] of a readable model: lines `index:weight` after the line `:0`."""
    W, b = np.zeros((features, 1), np.float32), np.zeros(1, np.float32)
    for line in path.read_text().splitlines():
        index, colon, weight = line.partition(":")
        if not colon or not index.isdigit():
            continue
        number = int(index)
        if number < features:
            W[number] = float(weight.split()[0])
        elif number == CONSTANT % (1 << vw_bits(features)):
            b[0] = float(weight.split()[0])
    return W, b


CONSTANT = 11650396  # Vowpal Wabbit's hash of its constant feature


@dataclass(frozen=True)
class Peer:
    """A package to compare with. checkpoints: passes; 0: it runs until it has converged."""

    package: str
    module: str
    run: Callable[[Job, Any, Any], None]
    checkpoints: tuple[int, ...]
    single: bool = False  # only for one target

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Version of the package."""
        return version(self.package)


PEERS = {
    "sgd": Peer("scikit-learn", "sklearn", run_sgd, (1, 3)),
    "liblinear": Peer("scikit-learn", "sklearn", run_liblinear, (0,)),
    "vw": Peer("vowpalwabbit", "vowpalwabbit", run_vw, (1, 3), single=True),
}
