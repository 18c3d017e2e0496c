"""One system of a benchmark: its job, its process, and its results.

`python -m scripts.benchmarks.system FOLDER` is that process. `jobs.json` in FOLDER names a file of
systems and their jobs. The jobs run in turns and keep `kept-N.npz` in their job's folder at
checkpoints. `result.json` gets their curves. A file of systems (`als_systems.py`) defines `Job`,
`run_ours` and `PEERS`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

import blocklearn as bl

from .process import Clock, SystemFailed, run_process
from .report import Report


@dataclass(kw_only=True)
class Job:
    """One system's work; benchmarks add fields for their systems.

    data: files of matrices, which the system gets in this order.
    checkpoints: numbers of `unit`s after which results are kept; the last one ends training.
    repeats: number of runs.
    """

    unit: ClassVar[str] = "passes"

    system: str
    folder: str
    data: list[str]
    threads: int
    checkpoints: list[float]
    repeats: int = 1
    recipe: dict[str, Any] = field(default_factory=dict)  # of ours
    version: str = ""  # of the package, filled by the process
    settings: dict[str, Any] = field(default_factory=dict)  # filled by the system
    curve: list[dict[str, Any]] = field(default_factory=list)  # filled by `keep`
    runs: list[list[dict[str, Any]]] = field(default_factory=list)  # the curves of all repeats

    def keep(self, done: float, clock: Clock, **arrays: Any) -> None:
        """Keep learned arrays as float32."""
        kept = {n: np.asarray(a, np.float32) if np.ndim(a) else a for n, a in arrays.items()}
        np.savez(self.path(f"kept-{len(self.curve)}.npz"), **kept)
        self.curve.append({self.unit: done, **clock.figures()})

    def kept(self, number: int) -> Mapping[str, Any]:
        """Return the arrays kept at a checkpoint."""
        with np.load(self.path(f"kept-{number}.npz")) as file:
            return dict(file)

    def path(self, name: str) -> Path:
        """Return a file in the job's folder."""
        return Path(self.folder) / name


@dataclass(frozen=True)
class Peer:
    """A package to compare with.

    checkpoints: up to a point where it gains little more.
    """

    package: str
    module: str
    run: Callable[..., Any]
    checkpoints: tuple[int, ...]

    @property
    def installed(self) -> bool:
        """Return whether it can be imported."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Return the version of the package."""
        return version(self.package)


AnyJob = TypeVar("AnyJob", bound=Job)


def save(folder: str | Path, **matrices: Any) -> list[str]:
    """Write sparse matrices; return their names for `Job.data`."""
    for name, matrix in matrices.items():
        sp.save_npz(Path(folder) / f"{name}.npz", matrix, compressed=False)
    return [str(Path(folder) / f"{name}.npz") for name in matrices]


def run_jobs(
    folder: str, jobs: Sequence[AnyJob], blas_threads: int, more: Mapping[str, str]
) -> tuple[int | None, list[AnyJob]]:
    """Run jobs of one benchmark in a process; return its peak memory and the finished jobs.

    more: further environment variables.

    Raises:
        SystemFailed: the process ended with an error.
    """
    path, kind = Path(folder), type(jobs[0])
    asked = {"systems": kind.__module__, "jobs": [asdict(job) for job in jobs]}
    (path / "jobs.json").write_text(json.dumps(asked))
    memory = run_process(__name__, path, path / "log", blas_threads=blas_threads, more=more)
    return memory, [kind(**found) for found in json.loads((path / "result.json").read_text())]


@contextmanager
def reported(report: Report, label: str, more: str = "") -> Iterator[None]:
    """Announce that a system trains; if it fails, add the error to the report."""
    print(f"{label}{more}: training ...", file=sys.stderr, flush=True)
    try:
        yield
    except SystemFailed as error:
        report.failed[label] = str(error)
        print(f"{label} failed:\n{error}", file=sys.stderr)


def main() -> None:
    """Run the systems of all jobs in turns, `repeats` times."""
    folder = Path(sys.argv[1])
    asked = json.loads((folder / "jobs.json").read_text())
    systems = import_module(asked["systems"])
    jobs: list[Job] = [systems.Job(**found) for found in asked["jobs"]]
    files = {name: sp.csr_matrix(sp.load_npz(name)) for job in jobs for name in job.data}
    for _ in range(jobs[0].repeats):
        for job in jobs:
            job.curve = []
            gc.collect()  # so that garbage of other runs is not collected in this one
            peer = systems.PEERS.get(job.system)
            job.version = bl.__version__ if peer is None else peer.version
            run = systems.run_ours if peer is None else peer.run
            run(job, *(files[name] for name in job.data))
            job.runs.append(job.curve)
    (folder / "result.json").write_text(json.dumps([asdict(job) for job in jobs]))


class Keeper(bl.Hook):
    """Keeps the result of `learned` after the blocks that the checkpoints name.

    The clock stops meanwhile.
    """

    def __init__(
        self, job: Job, clock: Clock, learned: Callable[[bl.Learner], dict[str, Any]]
    ) -> None:
        self.job, self.clock, self.learned = job, clock, learned
        self._due: set[int] = set()  # blocks

    def start(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Find the blocks of the checkpoints: at each block this would take a tenth of its time."""
        self._due = {max(1, round(mark * progress.blocks)) for mark in self.job.checkpoints}

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Keep the result if this block is a checkpoint."""
        done = progress.pass_ * progress.blocks + progress.block
        if done in self._due:
            self.keep(learner, round(done / progress.blocks, 4))

    def keep(self, learner: bl.Learner, done: float) -> None:
        """Keep the result."""
        with self.clock.stopped():
            self.job.keep(done, self.clock, **self.learned(learner))


WARM = 12
"""Passes that compile: LDA keeps topics from its ninth pass on, by other kernels."""


class Warm(bl.Hook):
    """Ends a training that compiles. It has as many passes as the one that counts: they decide."""

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """End after `WARM` passes."""
        progress.stop = progress.stop or progress.pass_ + 1 >= WARM


def train_ours(
    job: Job, learner: Callable[..., bl.Learner], data: Sequence[Any], warm: Any, keeper: Keeper
) -> bl.Learner:
    """Compile, outside the clock, by training on the rows `warm`; then train.

    learner: makes a learner from a job, matrices, passes and hooks.
    """
    passes = int(-(-job.checkpoints[-1] // 1))
    if "compile_seconds" not in job.settings:
        start = time.perf_counter()
        first = learner(job, *(matrix[warm] for matrix in data), passes=passes, hooks=[Warm()])
        first.fit()
        first.close()
        job.settings["compile_seconds"] = round(time.perf_counter() - start, 2)
        gc.collect()  # as before every run
    with keeper.clock:
        made = learner(job, *data, passes=passes, hooks=[keeper])
        made.fit()
    job.settings |= {
        "gflops": round(made.progress.gflops, 2),
        "allocations_after_warmup": made.progress.allocations_after_warmup,
    }
    return made


if __name__ == "__main__":
    main()
