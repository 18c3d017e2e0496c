"""Choose the engine that connects the workers of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, get_args

from ..errors import ConfigError
from .exchange import PATIENCE, Exchange

EngineName = Literal["local", "auto", "mpi"]
"""How workers find each other: there is one; as the environment says; by MPI."""

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Variables in which launchers of MPI tell a process how many were started."""


def opened(
    engine: EngineName | Exchange, workers: int | None = None, patience: float = PATIENCE
) -> Exchange | None:
    """Return the connection of this process to the other workers; None: it works alone.

    workers: how many there must be; None: those that were started.
    patience: seconds to wait for other workers.

    Raises:
        ConfigError: the engine is unknown, or there are other workers.
        ModuleNotFoundError: its package is missing.
    """
    if isinstance(engine, Exchange):
        found: Exchange | None = engine
    elif chosen(engine, os.environ) == "local":
        found = None
    else:
        from .mpi import connect  # MPI starts when it is imported

        found = connect(patience)
    check_count(engine, workers, 1 if found is None else found.size)
    return found


def chosen(engine: str, environment: Mapping[str, str]) -> str:
    """Return the engine that `engine` means in this environment: "local" or "mpi".

    Raises ConfigError if it is unknown.
    """
    if engine not in get_args(EngineName):
        raise ConfigError([f"engine={engine!r}: must be one of {', '.join(get_args(EngineName))}."])
    if engine == "auto":
        return "mpi" if started_together(environment) else "local"
    return engine


def check_count(engine: str | Exchange, workers: int | None, found: int) -> None:
    """Raise ConfigError if there are not as many workers as were asked for.

    workers: how many there must be; None: any number. found: how many there are.
    """
    if workers in (None, found):
        return
    raise ConfigError(
        [
            f"workers={workers}: must be {found}, so many run here by engine={engine}. Start the "
            f"program with `mpirun -n {workers}` and engine=mpi."
        ]
    )


def started_together(environment: Mapping[str, str]) -> bool:
    """Return whether a launcher of MPI has started this process with others.

    >>> started_together({"PMI_SIZE": "4"}), started_together({"PMI_SIZE": "1"})
    (True, False)
    """
    sizes = [environment.get(name, "1") for name in SIZES]
    return any(size.isdecimal() and int(size) > 1 for size in sizes)
