"""A worker of MPI, for tests: trains with checkpoints, and may be killed while one is written.

mpiexec -n 2 python -m tests.support.mpi_parts OUT [--tables NAME] [--kill RANK WHEN]
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint, parts
from blocklearn.learner.engines.open import opened
from blocklearn.learner.storage import page_logs
from tests.engines.test_workers import CASES, learnt, trained
from tests.support.filed_workers import made, whole

WHEN = {
    "writing": (parts, "write_tensors"),
    "writing logs": (page_logs, "write_tensors"),
    "all logs are written": (parts, "_check_sizes"),
    "all parts are written": (checkpoint, "write_manifest"),
    "all is written": (checkpoint, "write_folder"),
}
"""Function that the worker calls last, for the checkpoint of the second pass."""


def killed_after(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that kills this process, once it has done what `call` does."""

    def kill(path: Path, *given: Any, **named: Any) -> Any:
        found = call(path, *given, **named)
        if "pass-0002" in str(path):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return kill


def main() -> None:
    """Train, and write all that comes out of it to `OUT/worker-RANK`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", metavar="NAME", help="train this one, with tables in files")
    parser.add_argument("--kill", nargs=2, metavar=("RANK", "WHEN"))
    given = parser.parse_args()
    own: Any = opened("auto", task=lambda: lambda own: None)
    if given.kill is not None and own.rank == int(given.kill[0]):
        module, name = WHEN[given.kill[1]]
        setattr(module, name, killed_after(getattr(module, name)))
    hooks = [bl.Checkpoints(given.out / "saved")] if own.rank == 0 else []
    if given.tables is None:
        found = learnt(trained(CASES["nmf frobenius"], engine=own, hooks=hooks))
    else:
        tables = given.out / "tables"
        found = whole(made(given.tables, engine=own, hooks=hooks, table_folder=tables).fit())
    (given.out / f"worker-{own.rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main()
