"""A worker of MPI, for tests: trains a variant of a model, and writes what it learned.

mpiexec -n 2 python -m tests.support.mpi_workers OUT NAME ...
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from blocklearn.learner.engines.open import opened
from tests.engines.test_workers import CASES, learnt, trained
from tests.support.workers import few_travel


def main(out: Path, *names: str) -> None:
    """Train each variant, and write all that comes out of it to `out/worker-RANK`.

    Rows that blocks need, and those of states, travel in all variants, small as they are.
    """
    own: Any = opened("auto", task=lambda: lambda own: None)
    with few_travel():
        found = {name: learnt(trained(CASES[name], engine=own)) for name in names}
    (out / f"worker-{own.rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
