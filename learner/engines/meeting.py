"""Where workers of Ray meet, and how they hand over arrays: through its object store.

Small arrays go with the call, large ones are put into the store, and only their references go with
the call. The actors are made of these classes by `ray.py`. Imports ray.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, WorkerLostError
from ..exit_codes import exit_code
from .crew import Crew
from .exchange import Bytes, Exchange

SMALL = 2**14
"""Bytes of an array that goes with the call: the store costs more time than these bytes."""

FOREVER = float("inf")


def imported() -> Any:
    """Import ray, which then sends no statistics, and return it.

    Raises ModuleNotFoundError if it is missing.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ModuleNotFoundError(
            f"engine=ray: needs ray ({error}). pip install 'blocklearn[ray]' brings it."
        ) from error
    return ray


class Meeting:
    """An actor that waits for all workers, then gives each what the others gave to it."""

    def __init__(self, size: int) -> None:
        """size: the number of workers."""
        self._size, self._round = size, _Round()

    async def meet(self, rank: int, failed: bool, parts: Sequence[Any]) -> list[tuple[bool, Any]]:
        """Give `parts[i]` to worker i, and return, by rank, who failed and what each gave."""
        now = self._round
        now.given[rank] = failed, parts
        if len(now.given) == self._size:
            self._round = _Round()
            now.complete.set()
        await now.complete.wait()
        found = [now.given[i] for i in range(self._size)]
        return [(has_failed, given[rank]) for has_failed, given in found]

    async def absent(self) -> list[int]:
        """Return the workers that have not come to the present round."""
        return [rank for rank in range(self._size) if rank not in self._round.given]


class _Round:
    """One exchange of all workers."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[bool, Sequence[Any]]] = {}  # by rank
        self.complete = asyncio.Event()


class MeetingExchange(Exchange):
    """The connection of a worker that is an actor of Ray.

    It waits without a deadline: worker 0 has one, and ends the actors; they also end with it.
    """

    def __init__(self, rank: int, size: int, meeting: Any, patience: float = FOREVER) -> None:
        """meeting: the handle of the actor of class `Meeting`."""
        super().__init__(rank, size, patience)
        self._meeting = meeting
        self._stored: dict[Any, Any] = {}  # what others may still fetch; see `_handed`

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        before, self._stored = self._stored, {}
        try:
            given = [self._handed(part, rank) for rank, part in enumerate(parts)]
            found = self._answer(self._meeting.meet.remote(self.rank, failed, given))
            del before  # all have fetched those arrays, for they came to this round
            return [flag for flag, _ in found], [_taken(part) for _, part in found]
        except imported().exceptions.RayError as error:
            raise WorkerLostError(
                f"worker {self.rank}: another worker has ended: {error}"
            ) from error

    def _answer(self, asked: Any) -> Any:
        """Return the result of a call of the meeting."""
        return imported().get(asked)

    def _handed(self, part: Bytes, rank: int) -> Any:
        """Return what is sent to a worker: an array, or a list with a reference to it."""
        if rank == self.rank:
            return None
        if part.nbytes <= SMALL:
            return part
        key = part.ctypes.data, part.nbytes  # an array for all workers is stored once
        if key not in self._stored:
            self._stored[key] = imported().put(part)
        return [self._stored[key]]  # a bare reference would be fetched by the meeting

    def close(self) -> None:
        """Let go of the arrays in the store."""
        self._stored.clear()


def _taken(part: NDArray[np.uint8] | list[Any] | None) -> Bytes:
    """Return a copy of an array that was handed over: the store needs its memory again."""
    if part is None:
        return np.empty(0, np.uint8)
    return np.array(imported().get(part[0]) if isinstance(part, list) else part)


class Worker:
    """An actor that is a worker. It answers `place` and `stacks` while it works."""

    def place(self) -> tuple[str, int]:
        """Return the id of its machine in the cluster, and that of its process."""
        return imported().get_runtime_context().get_node_id(), os.getpid()

    def work(self, task: list[Any], rank: int, size: int, meeting: Any, folder: str) -> None:
        """Do what worker `rank` does, until it is done or has told the others of its error.

        task: a list of one reference, to the pickled function that takes the connection.
        folder: becomes the working directory, if it exists here.
        """
        ray = imported()
        with suppress(OSError):
            os.chdir(folder)
        exchange = MeetingExchange(rank, size, meeting)
        with suppress(Exception), Crew(exchange).guard(exit_code):
            loaded(ray.get(task[0]))(exchange)

    def stacks(self) -> str:
        """Return the stacks of all threads."""
        frames = sys._current_frames().values()
        return "\n".join("".join(traceback.format_stack(frame)) for frame in frames)


def loaded(task: bytes) -> Callable[[Exchange], None]:
    """Return the pickled function that a worker calls.

    Raises ConfigError if a class that it needs cannot be imported here.
    """
    try:
        found: Callable[[Exchange], None] = imported().cloudpickle.loads(task)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            [
                f"engine=ray: a worker cannot load what the program gives ({error}). Install it on "
                "all machines, or set PYTHONPATH before the program starts."
            ]
        ) from error
    return found


def woken(process: int) -> bool:
    """Let a process of this machine continue if it is stopped, and return whether it was."""
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    if state == "T":
        os.kill(process, signal.SIGCONT)
    return state == "T"
