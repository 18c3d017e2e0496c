"""Choose the engine that connects the workers of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from ..errors import ConfigError
from .crew import Crew
from .exchange import PATIENCE, Exchange

EngineName = Literal["local", "auto", "mpi", "ray"]
"""How workers find each other: there is one; as the environment says; by MPI; by Ray."""

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Variables in which launchers of MPI tell a process how many were started."""

TASKS = "SLURM_STEP_NUM_TASKS"
"""Variable in which `srun` tells a task how many there are, also without MPI."""


def opened(
    engine: EngineName | Exchange,
    workers: int | None = None,
    patience: float = PATIENCE,
    *,
    task: Callable[[], Callable[[Exchange], None]],
    threads: int | None = None,
    address: str | None = None,
) -> Exchange | None:
    """Return the connection of this process to the other workers; None: it works alone.

    - workers: how many there must be; None: those that were started.
    - patience: seconds to wait for other workers.
    - task: returns what workers do that the engine starts itself: "ray".
    - threads: cores of each of these; None: all cores, shared out.
    - address: of the cluster for these; None: that of RAY_ADDRESS, or else of this machine.

    Raises:
        ConfigError: the engine is unknown, there are other workers, or MPI does not find them.
        ModuleNotFoundError: its package is missing.
    """
    name = engine if isinstance(engine, Exchange) else chosen(engine, workers, os.environ)
    if name == "ray" and workers != 1:
        from .ray import RayWorkers

        if workers is None:
            raise ConfigError(["workers: must be given with engine=ray, such as workers=4."])
        place = address or os.environ.get("RAY_ADDRESS")
        return RayWorkers(workers, task, patience=patience, threads=threads, address=place)
    found: Exchange | None = None
    if isinstance(name, Exchange):
        found = name
    elif name == "mpi":
        from .mpi import connect  # MPI starts when it is imported

        found = connect(patience)
        check_started_together(found.size, os.environ)
    check_count(engine, workers, 1 if found is None else found.size)
    return found


def chosen(engine: str, workers: int | None, environment: Mapping[str, str]) -> str:
    """Return the engine that `engine` means in this environment: "local", "mpi" or "ray".

    Raises ConfigError if it is unknown.
    """
    if engine not in get_args(EngineName):
        raise ConfigError([f"engine={engine!r}: must be one of {', '.join(get_args(EngineName))}."])
    if engine != "auto":
        return engine
    if started_together(environment):
        return "mpi"
    return "ray" if environment.get("RAY_ADDRESS") and (workers or 1) > 1 else "local"


def crew_of(
    engine: EngineName | Exchange,
    workers: int | None,
    task: Callable[[], Callable[[Exchange], None]],
    threads: int | None,
) -> Crew:
    """Return the workers of a learner, which follow it if its engine starts them: see `opened`."""
    exchange = opened(engine, workers, task=task, threads=threads)
    return Crew(exchange, followed=exchange is not None and exchange.starts)


def check_devices(crew: Crew, devices: Sequence[str]) -> None:
    """Raise ConfigError if the workers cannot use these devices."""
    if crew.exchange.starts and set(devices) != {"cpu"}:
        raise ConfigError(
            [f"device={devices[0]}: must be cpu with engine=ray. Choose engine=mpi for GPUs."]
        )


def check_count(engine: str | Exchange, workers: int | None, found: int) -> None:
    """Raise ConfigError if there are not as many workers as were asked for.

    workers: how many there must be; None: any number. found: how many there are.
    """
    if workers in (None, found):
        return
    raise ConfigError(
        [
            f"workers={workers}: must be {found}, so many run here by engine={engine}. Start the "
            f"program with `mpirun -n {workers}` and engine=mpi, or choose engine=ray."
        ]
    )


def check_started_together(found: int, environment: Mapping[str, str]) -> None:
    """Raise ConfigError if a launcher has started others, but MPI does not find them.

    Each would train alone, and write the same files.

    found: how many workers MPI finds.
    """
    for name in (*SIZES, TASKS) if found == 1 else ():
        if _count(environment, name) > 1:
            raise ConfigError(
                [
                    f"engine=mpi: {name}={environment[name]} processes were started together, but "
                    "each finds only itself by MPI. Start them with the mpirun of the library "
                    "that mpi4py uses, or with `srun --mpi=pmi2`; or build mpi4py with the "
                    "library of this launcher: pip install --no-binary mpi4py mpi4py."
                ]
            )


def started_together(environment: Mapping[str, str]) -> bool:
    """Return whether a launcher of MPI has started this process with others.

    >>> started_together({"PMI_SIZE": "4"}), started_together({"PMI_SIZE": "1"})
    (True, False)
    """
    return any(_count(environment, name) > 1 for name in SIZES)


def _count(environment: Mapping[str, str], name: str) -> int:
    """Return the number in a variable; 1: it has none."""
    text = environment.get(name, "1")
    return int(text) if text.isdecimal() else 1
