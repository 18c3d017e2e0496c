"""Start the workers of a command on this machine, where no launcher has done so."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""Variables in which launchers of MPI tell a process its number."""


def launch(engine: str, workers: int | None) -> None:
    """Replace this process by `mpiexec` with `workers` processes of the same command.

    It does nothing if the engine is not MPI, no number is given, or a launcher has started this
    process already.

    Raises FileNotFoundError if there is no `mpiexec`.
    """
    if engine != "mpi" or workers is None or launched(os.environ):
        return
    command = mpiexec(workers, [sys.executable, *sys.orig_argv[1:]])
    os.execv(command[0], command)


def launched(environment: Mapping[str, str]) -> bool:
    """Return whether a launcher of MPI has started this process.

    >>> launched({"PMI_RANK": "0"}), launched({"OMPI_ALLOW_RUN_AS_ROOT": "1"})
    (True, False)
    """
    return any(name in environment for name in RANKS)


def mpiexec(workers: int, command: Sequence[str]) -> list[str]:
    """Return the command that starts `workers` processes: `mpiexec` beside Python, or on the path.

    Raises FileNotFoundError if there is none.
    """
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    if found is None:
        raise FileNotFoundError(
            f"engine=mpi: no mpiexec beside {sys.executable} or on the path. pip install "
            "'blocklearn[mpi]' brings one."
        )
    return [found, "-n", str(workers), *command]
