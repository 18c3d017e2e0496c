"""Start the workers of a command on this machine, where no launcher has done so."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "SLURM_PROCID")
"""How the names of variables begin that launchers of MPI give to the processes they start."""


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

    >>> launched({"PMI_RANK": "0"}), launched({"HOME": "/root"})
    (True, False)
    """
    return any(name.startswith(LAUNCHERS) for name in environment)


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
