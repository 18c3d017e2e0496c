"""What a system of the ALS benchmark is told, and where it leaves what it learned.

`python -m scripts.benchmarks.als_job FOLDER` is the process of one system: it reads `job.json` and
`train.npz` in the folder, and writes `factors-N.npz` at each checkpoint, and `result.json`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .process import Clock


@dataclass
class Job:
    """One system's work. reg: of a row's factors, times the number of its ratings; with the loss
    "implicit" reg alone, and alpha: what an entry of 1 adds to its confidence.

    checkpoints: alternations after which factors are kept; the last one ends the training.
    """

    system: str
    folder: str
    loss: str
    rank: int
    reg: float
    alpha: float
    threads: int
    checkpoints: list[int]
    recipe: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # filled by the system
    curve: list[dict[str, Any]] = field(default_factory=list)  # filled by `keep`

    def keep(self, done: int, clock: Clock, U: Any, V: Any, mean: float = 0.0) -> None:
        """Keep the factors after `done` alternations: the prediction is mean + U V'."""
        path = Path(self.folder) / f"factors-{len(self.curve)}.npz"
        np.savez(path, U=np.asarray(U, np.float32), V=np.asarray(V, np.float32), mean=mean)
        self.curve.append({"alternations": done, **clock.figures()})

    def path(self, name: str) -> Path:
        """A file in the job's folder."""
        return Path(self.folder) / name


def with_biases(U: Any, V: Any, users: Any, items: Any) -> tuple[Any, Any]:
    """U and V with two more columns each, such that U V' includes the biases."""
    ones = np.ones
    U = np.column_stack([U, users, ones(len(U))]).astype(np.float32)
    return U, np.column_stack([V, ones(len(V)), items]).astype(np.float32)


def main() -> None:
    """Run the system of the job in the folder that is the argument."""
    from .als_ours import run_ours
    from .als_peers import PEERS

    folder = Path(sys.argv[1])
    job = Job(**json.loads((folder / "job.json").read_text()))
    X = sp.csr_matrix(sp.load_npz(folder / "train.npz"))
    (PEERS[job.system].run if job.system in PEERS else run_ours)(job, X)
    (folder / "result.json").write_text(json.dumps(asdict(job)))


if __name__ == "__main__":
    main()
