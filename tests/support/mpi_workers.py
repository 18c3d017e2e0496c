"""A worker of MPI, for tests: exchanges tables, trains variants of models, and writes what it has.

mpiexec -n 2 python -m tests.support.mpi_workers OUT NAME ...
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from blocklearn.learner.engines.open import opened
from blocklearn.learner.training.teams.lane import Lane
from tests.engines.test_workers import CASES, learnt, trained
from tests.support import exchange_cases, needed_cases
from tests.support.filed_workers import filed
from tests.support.workers import few_travel

FILED = ["factors", "vb", "kmeans", "nmf", "kept"]


def main(out: Path, *names: str) -> None:
    """Write what comes out of merges, of rows fetched, and of each variant to `out/worker-RANK`.

    Rows that blocks need, and those of states, travel in all variants, small as they are. Some
    models keep their tables in files of the folder.
    """
    own: Any = opened("auto", task=lambda: lambda own: None)
    found: dict[str, Any] = {
        "merged": [exchange_cases.merged(case, own) for case in exchange_cases.CASES],
        "filled": exchange_cases.filled(own),
    }
    lane = Lane("pieces")
    with few_travel():
        fetched = [
            needed_cases.by_workers(case, own, aside=lane.ask) for case in needed_cases.CASES
        ]
        found["fetched"] = fetched
        found["learnt"] = {name: learnt(trained(CASES[name], engine=own)) for name in names}
    found["filed"] = {name: filed(name, out / "tables", own) for name in FILED}
    (out / f"worker-{own.rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
