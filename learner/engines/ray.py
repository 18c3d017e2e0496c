"""Workers that are actors of Ray. The program itself is worker 0, and Ray places the others.

Imports ray.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from blocklearn.matcache import available_threads

from ..errors import ConfigError, WorkerLostError
from .exchange import PATIENCE, Exchange
from .meeting import Meeting, MeetingExchange, Worker, imported, woken
from .ray_cluster import answering, cores, first_line, imported_for, joined, placed, room

Work = Callable[[Exchange], None]

LOCK = type(threading.Lock())

LONGEST = 1e9  # seconds: Ray knows no infinite wait
ANSWER = 60.0  # seconds for a worker that hangs to tell its stacks
PARTING = 30.0  # seconds for workers to remove their files

log = logging.getLogger(__name__)


class RayWorkers(MeetingExchange):
    """The connection of the program that asks Ray for workers: it is worker 0.

    The others start at the first exchange, and end when the connection is closed, or this process
    ends. After `close`, the next exchange starts others.

    task: returns what each of them does; asked when they start.
    """

    starts = True

    def __init__(
        self,
        size: int,
        task: Callable[[], Work],
        *,
        patience: float = PATIENCE,
        threads: int | None = None,
        address: str | None = None,
    ) -> None:
        """Start nothing yet.

        - size: the number of workers, with this one.
        - patience: seconds to wait for a place for the workers, and for their answers.
        - threads: cores of a worker; None: all cores of the cluster, shared out.
        - address: of a cluster, of which this machine is a part; None: a cluster of this machine.

        Raises:
            ModuleNotFoundError: ray is missing.
            ConfigError: the address is that of a client.
        """
        super().__init__(0, size, None, min(patience, LONGEST))
        self.task, self._threads = task, threads
        self._address = None if address in (None, "", "local") else address
        self._workers: list[Any] = []
        self._places: list[Any] = []  # their machines and processes
        self._runs: dict[Any, int] = {}  # what they do, and their ranks
        self._wanted = size
        self._group: Any = None  # the cores of the other workers
        self._cluster = ExitStack()
        self._at_exit = partial(_close, weakref.ref(self))
        if address is not None and address.startswith("ray://"):
            raise ConfigError(
                [
                    f"address={address}: must be that of a cluster which this machine is a part "
                    "of. Start the program on one of its machines, such as by `ray job submit`."
                ]
            )
        imported_for(self._address)

    def exchange(self, parts: Any, into: Any = None) -> Any:
        """See `Exchange`. The first one starts the workers."""
        if self._meeting is None and not self.failed:
            self._start()
        return super().exchange(parts, into)

    def fail(self, code: int, text: str) -> bool:
        """End the other workers, which then need not hear of an error."""
        self.failed = True
        self._end()
        return False

    def threads(self, given: int | None) -> int | None:
        """Return the threads of this worker: those of this machine are shared out."""
        if given is not None or self._address is not None:
            return given
        return max(1, available_threads() // self.size)

    def _start(self) -> None:
        """Start the other workers, where cores are reserved for them.

        Raises WorkerLostError if the cluster has no room, or is gone.
        """
        task = pickled(self.task())
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)  # before Ray's own end, which leaves the cluster's folder
        with answering():
            self._cluster.enter_context(joined(self._address, self.size, len(task)))
            if self._group is None:
                self._reserve(self.size, self.patience)
            self._start_with(task)

    def _reserve(self, fewest: int, seconds: float) -> None:
        """Reserve cores for the other workers: see `Exchange.regroup`."""
        from ray.util.placement_group import placement_group, remove_placement_group

        for size in range(self._wanted, max(1, fewest - 1), -1):
            each = self._cores(size)
            if size < self._wanted and room(each) < size - 1:
                continue
            group = placement_group([{"CPU": each}] * (size - 1), strategy="SPREAD")
            if placed(group, seconds):
                self.size, self._group = size, group
                return
            remove_placement_group(group)
        if fewest > 1:
            raise WorkerLostError(
                f"engine=ray: no room for {fewest - 1} more workers of {self._cores(fewest)} cores "
                f"each within {seconds:g} s: the cluster has {cores()} cores. Lower threads or "
                "workers."
            )
        self.size = 1

    def _cores(self, size: int) -> int:
        """Return the cores of each of so many workers."""
        return self._threads or max(1, cores() // size)

    def _start_with(self, task: bytes) -> None:
        """task: what the workers do, pickled."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray, each = imported(), self._group.bundle_specs[0]["CPU"]
        at_once = 2 * self.size  # calls that wait
        meeting = ray.remote(num_cpus=0, max_concurrency=at_once)(Meeting).remote(self.size)
        worker = ray.remote(max_concurrency=2)(Worker)
        reference, folder = ray.put(task), os.getcwd()
        for rank in range(1, self.size):
            place = PlacementGroupSchedulingStrategy(self._group, rank - 1)
            actor = worker.options(num_cpus=each, scheduling_strategy=place).remote()
            self._places.append(actor.place.remote())
            run = actor.work.remote([reference], rank, self.size, meeting, folder)
            self._workers.append(actor)
            self._runs[run] = rank
        self._meeting = meeting

    def _answer(self, asked: Any) -> Any:
        """Return the result of a call of the meeting, unless another worker has ended or hangs."""
        ray = imported()
        while True:
            ready, _ = ray.wait([asked, *self._runs], timeout=self.patience)
            if not ready:
                raise WorkerLostError(self._hanging())
            if asked in ready:
                return ray.get(asked)
            for run in ready:
                rank = self._runs.pop(run)
                try:
                    ray.get(run)  # it has done its work, or told its error: the round completes
                except ray.exceptions.RayError as error:
                    why = first_line(error)
                    raise WorkerLostError(f"worker {rank} has ended: {why}") from None

    def _hanging(self) -> str:
        """Log the stacks of the workers that did not answer; return a message that names them."""
        ray = imported()
        absent = ray.get(self._meeting.absent.remote(), timeout=ANSWER)
        for rank in absent:
            try:
                stopped = ray.get(self._wake(rank), timeout=ANSWER)
                stacks = ray.get(self._workers[rank - 1].stacks.remote(), timeout=ANSWER)
            except ray.exceptions.RayError as error:
                log.error("the stacks of worker %d could not be read: %s", rank, first_line(error))
                continue
            how = "was stopped by a signal, and continues for now" if stopped else "hangs"
            log.error(
                "worker %d %s. Stacks of its threads, latest call last:\n%s", rank, how, stacks
            )
        names = " and ".join(f"worker {rank}" for rank in absent)
        return f"{names} did not answer within {self.patience:g} s"

    def _wake(self, rank: int) -> Any:
        """Let a worker continue that is stopped: only so can it tell its stacks, before it ends.

        A task on its machine does so; its result is whether it was stopped.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = imported()
        machine, process = ray.get(self._places[rank - 1], timeout=ANSWER)
        there = NodeAffinitySchedulingStrategy(machine, soft=False)
        return ray.remote(num_cpus=0, scheduling_strategy=there)(woken).remote(process)

    def renew(self) -> None:
        """See `Exchange`. The cluster stays."""
        self._end()
        self.failed = False

    def regroup(self, fewest: int, seconds: float) -> None:
        """See `Exchange`. Where there is no cluster, the next exchange starts or joins it first."""
        self.renew()
        if imported().is_initialized():
            with answering():
                self._reserve(fewest, seconds)

    @property
    def running(self) -> bool:
        """See `Exchange`."""
        return self._meeting is not None and not self.failed

    def see_off(self) -> None:
        """See `Exchange`. The cluster may be gone."""
        if self.running and self._runs:
            with suppress(imported().exceptions.RayError):
                imported().wait([*self._runs], num_returns=len(self._runs), timeout=PARTING)

    def dismiss(self) -> None:
        """See `Exchange`."""
        self.renew()
        self._cluster.close()
        atexit.unregister(self._at_exit)

    def close(self) -> None:
        """End the other workers, and the cluster if it was started for them."""
        self.dismiss()

    def _end(self) -> None:
        """End the other workers."""
        from ray.util.placement_group import remove_placement_group

        actors = [*self._workers, self._meeting]
        for actor in actors if self._meeting is not None else []:
            with suppress(Exception):  # its machine may be gone
                imported().kill(actor)
        if self._group is not None:
            with suppress(Exception):
                remove_placement_group(self._group)
        super().close()
        self._workers, self._places, self._runs = [], [], {}
        self._group = self._meeting = None

    def __del__(self) -> None:
        """End the workers of a learner that is deleted."""
        with suppress(Exception):
            self._end()


def _close(workers: weakref.ref[RayWorkers]) -> None:
    """Close workers whose program ends without doing so."""
    if (own := workers()) is not None:
        own.close()


def pickled(task: Work) -> bytes:
    """Return what a worker is to do, as bytes. Locks of sources become new ones.

    Raises ConfigError if it has data that cannot be sent.
    """
    stream, base = io.BytesIO(), imported().cloudpickle.CloudPickler
    table = base.dispatch_table.new_child({LOCK: _new_lock})
    pickler: Any = type("Pickler", (base,), {"dispatch_table": table})
    try:
        pickler(stream).dump(task)
    except Exception as error:
        raise ConfigError(
            [
                "engine=ray: the data must be matrices, or sources that can be pickled "
                f"({first_line(error)}). Give paths or matrices, or train by a configuration."
            ]
        ) from error
    return stream.getvalue()


def _new_lock(lock: Any) -> tuple[Callable[[], Any], tuple[()]]:
    return threading.Lock, ()
