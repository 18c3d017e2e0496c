"""What a system of the LDA benchmark is told, and where it leaves what it learned.

`python -m scripts.benchmarks.lda_job FOLDER` is the process of one system: it reads `job.json` and
`train.npz` in the folder, and writes `topics-N.npy` at each checkpoint, and `result.json`.
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
    """One system's work. alpha, eta: the priors of the peers; ours are in `recipe`.

    checkpoints: passes (or sweeps) after which topics are kept; the last one ends the training.
    """

    system: str
    folder: str
    topics: int
    threads: int
    batch: int
    alpha: float
    eta: float
    checkpoints: list[float]
    recipe: dict[str, Any] = field(default_factory=dict)
    cold: bool = True  # ours: compile the kernels anew, so that the compile time is true
    settings: dict[str, Any] = field(default_factory=dict)  # filled by the system
    curve: list[dict[str, Any]] = field(default_factory=list)  # filled by `keep`

    @property
    def passes(self) -> int:
        """All passes, or sweeps."""
        return int(self.checkpoints[-1])

    def keep(self, passes: float, clock: Clock, phi: Any) -> None:
        """Keep the topics phi [K x V], rows summing to 1, that `passes` passes gave."""
        number = len(self.curve)
        np.save(Path(self.folder) / f"topics-{number}.npy", np.asarray(phi, np.float32))
        self.curve.append({"passes": passes, **clock.figures()})

    def path(self, name: str) -> Path:
        """A file in the job's folder."""
        return Path(self.folder) / name


def main() -> None:
    """Run the system of the job in the folder that is the argument."""
    from .lda_ours import run_ours
    from .lda_peers import PEERS

    folder = Path(sys.argv[1])
    job = Job(**json.loads((folder / "job.json").read_text()))
    X = sp.csr_matrix(sp.load_npz(folder / "train.npz"))
    (PEERS[job.system].run if job.system in PEERS else run_ours)(job, X)
    (folder / "result.json").write_text(json.dumps(asdict(job)))


if __name__ == "__main__":
    main()
