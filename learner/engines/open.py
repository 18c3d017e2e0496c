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


def opened(engine: EngineName | Exchange, patience: float = PATIENCE) -> Exchange | None:
    """Return the connection of this process to the other workers; None: it works alone.

    patience: seconds to wait for other workers.

    Raises:
        ConfigError: the engine is unknown.
        ModuleNotFoundError: its package is missing.
    """
    if isinstance(engine, Exchange):
        return engine
    if engine not in get_args(EngineName):
        raise ConfigError([f"engine={engine!r}: must be one of {', '.join(get_args(EngineName))}."])
    if engine == "auto":
        engine = "mpi" if started_together(os.environ) else "local"
    if engine == "local":
        return None
    from .mpi import connect  # MPI starts when it is imported

    return connect(patience)


def started_together(environment: Mapping[str, str]) -> bool:
    """Return whether a launcher of MPI has started this process with others.

    >>> started_together({"PMI_SIZE": "4"}), started_together({"PMI_SIZE": "1"})
    (True, False)
    """
    sizes = [environment.get(name, "1") for name in SIZES]
    return any(size.isdecimal() and int(size) > 1 for size in sizes)
