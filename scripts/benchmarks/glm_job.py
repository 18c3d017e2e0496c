"""What a system of the GLM benchmark is told, and where it leaves what it learned.

`python -m scripts.benchmarks.glm_job FOLDER` is the process of one system, or of two whose times
are compared run by run: it reads `jobs.json`, `X.npz` and `Y.npz` in the folder, and writes
`result.json`, and at each checkpoint `weights-N.npz` (W [V x T], b [T]) into the job's own folder.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .process import Clock


class Timer(Clock):
    """`Clock` with processor seconds of this process to the microsecond."""

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
        """The seconds so far; those of child processes count only in ticks of 0.01 s."""
        found = super().figures()
        return found | {"own_cpu_seconds": round(max(self.cpu, self.own - 0.02), 4)}


@dataclass
class Job:
    """One system's work. alpha: weight of the L2 penalty, per row, of peers.

    checkpoints: passes after which weights are kept; the last one ends the training. targets: the
    columns of Y to train on. repeats: how often all of it is done; the run of median time counts.
    """

    system: str
    folder: str
    threads: int
    block_rows: int
    alpha: float
    targets: list[int]
    checkpoints: list[float]
    repeats: int = 3
    recipe: dict[str, Any] = field(default_factory=dict)
    cold: bool = True  # ours: compile the kernels anew, so that the compile time is true
    settings: dict[str, Any] = field(default_factory=dict)  # filled by the system
    curve: list[dict[str, Any]] = field(default_factory=list)  # filled by `keep`

    def keep(self, passes: float, clock: Timer, W: Any, b: Any) -> None:
        """Keep the weights after `passes` passes."""
        number = len(self.curve)
        W, b = np.asarray(W, np.float32), np.asarray(b, np.float32).reshape(-1)
        np.savez(Path(self.folder) / f"weights-{number}.npz", W=W, b=b)
        self.curve.append({"passes": passes, **clock.figures()})

    def path(self, name: str) -> Path:
        """A file in the job's folder."""
        return Path(self.folder) / name


def main() -> None:
    """Run the systems of all jobs in turns, `repeats` times."""
    from .glm_ours import run_ours
    from .glm_peers import PEERS

    folder = Path(sys.argv[1])
    X = sp.csr_matrix(sp.load_npz(folder / "X.npz"))
    Y = sp.csc_matrix(sp.load_npz(folder / "Y.npz"))
    jobs = [Job(**found) for found in json.loads((folder / "jobs.json").read_text())]
    targets = [sp.csr_matrix(Y[:, job.targets], dtype=np.float32) for job in jobs]
    runs: list[list[Any]] = [[] for _ in jobs]
    for _ in range(jobs[0].repeats):
        for job, mine, found in zip(jobs, targets, runs, strict=True):
            job.curve = []
            gc.collect()  # what is left of imports and of other runs is not to be collected in this
            (PEERS[job.system].run if job.system in PEERS else run_ours)(job, X, mine)
            found.append(job.curve)
    for job, found in zip(jobs, runs, strict=True):
        job.curve = sorted(found, key=lambda curve: curve[-1]["seconds"])[len(found) // 2]
        for name in ("seconds", "own_cpu_seconds"):
            job.settings[f"{name}_of_runs"] = [curve[-1][name] for curve in found]
    (folder / "result.json").write_text(json.dumps([asdict(job) for job in jobs]))


if __name__ == "__main__":
    main()
