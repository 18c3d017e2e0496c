"""What a system of the GLM benchmark is told, and where it leaves what it learned.

`python -m scripts.benchmarks.glm_job FOLDER` is the process of one system: it reads `job.json`,
`X.npz` and `Y.npz` in the folder, and writes `weights-N.npz` (W [V x T], b [T]) at each checkpoint,
and `result.json`.
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
    """Run the system of the job in the folder that is the argument, `repeats` times."""
    from .glm_ours import run_ours
    from .glm_peers import PEERS

    folder = Path(sys.argv[1])
    job = Job(**json.loads((folder / "job.json").read_text()))
    X = sp.csr_matrix(sp.load_npz(folder / "X.npz"))
    Y = sp.csr_matrix(
        sp.csc_matrix(sp.load_npz(folder / "Y.npz"))[:, job.targets], dtype=np.float32
    )
    run = PEERS[job.system].run if job.system in PEERS else run_ours
    runs = []
    for _ in range(job.repeats):
        job.curve = []
        gc.collect()  # what imports and the run before have left is not to be collected in this one
        run(job, X, Y)
        runs.append(job.curve)
    runs.sort(key=lambda curve: curve[-1]["seconds"])
    job.curve = runs[len(runs) // 2]
    job.settings["seconds_of_runs"] = [curve[-1]["seconds"] for curve in runs]
    (folder / "result.json").write_text(json.dumps(asdict(job)))


if __name__ == "__main__":
    main()
