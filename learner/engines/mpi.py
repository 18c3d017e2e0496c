"""Workers that are processes of MPI, as `mpirun` and `srun` start them. Imports mpi4py."""

from __future__ import annotations

import atexit
import faulthandler
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import WorkerLostError
from ..exit_codes import ExitCode
from .exchange import Bytes, Exchange, Room

PAUSES = 2e-5, 1e-3
"""Least and most seconds between looks at a transfer, which wait longer and longer: workers that
share cores leave them to each other."""

LONGEST = 1e6  # seconds: a timer counts microseconds in 64 bits

ALIGNED = 64  # bytes: parts begin at multiples of it, so that they hold any dtype

SHARED = "/dev/shm/mpich_"
"""How names of MPICH's files in shared memory begin."""


def connect(patience: float) -> Exchange:
    """Return the connection of this process to all that were started with it.

    patience: seconds to wait for other workers.

    Raises ModuleNotFoundError if mpi4py or a library of MPI is missing.
    """
    with _deadline(patience):
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise ModuleNotFoundError(
                f"engine=mpi: needs mpi4py and a library of MPI ({error}). pip install "
                "'blocklearn[mpi]' brings both; on a cluster, build mpi4py with its own MPI."
            ) from error
        return MPIExchange(MPI, patience)


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """End this process, with the stacks of its threads, if a `with` statement takes longer.

    The library starts in it, and makes a communicator: it waits for all workers, and Python can do
    nothing meanwhile. A process has one such timer, so this ends one that the program has set.
    """
    standard_error = 2
    faulthandler.dump_traceback_later(min(seconds, LONGEST), exit=True, file=standard_error)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _forget_names() -> None:
    """Remove the names of shared memory that this process has opened; the memory stays.

    MPICH removes them at the end, so a killed worker would leave them.
    """
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text().splitlines()
        for name in {line.split()[-1] for line in lines if SHARED in line}:
            Path(name).unlink(missing_ok=True)


class MPIExchange(Exchange):
    """The connection of a process of MPI, through a communicator of its own."""

    by_pairs = True

    def __init__(self, mpi: Any, patience: float) -> None:
        """mpi: the module `mpi4py.MPI`."""
        self._mpi, self._comm = mpi, mpi.COMM_WORLD.Dup()
        _forget_names()  # all workers of this machine have opened the file
        self.any_thread = mpi.Query_thread() >= mpi.THREAD_SERIALIZED
        super().__init__(self._comm.Get_rank(), self._comm.Get_size(), patience)

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        """See `Exchange`."""
        return self._transfer(parts, failed)

    def _swap_into(self, parts: list[Bytes], room: Bytes) -> tuple[list[bool], list[Bytes]]:
        """See `Exchange`. Messages arrive where they belong."""
        return self._transfer(parts, False, room=room)

    def _share(self, part: Bytes) -> tuple[list[bool], list[Bytes]]:
        """See `Exchange`. Libraries of MPI know which workers are on one machine."""
        return self._transfer([part] * self.size, False, together=True)

    def _fill(self, room: Room) -> tuple[list[bool], list[Bytes]]:
        """See `Exchange`. Parts are sent from their places, and arrive there."""
        failed, found = self._transfer([np.empty(0, np.uint8)] * self.size, False)
        if any(failed):
            return failed, found
        (whole, parts), byte = room, self._mpi.BYTE
        sizes = [part.stop - part.start for part in parts]
        each = sizes[0] if len(whole) > 1 else 1  # numbers that are counted as one
        nbytes = each * whole.itemsize
        strided = byte.Create_vector(len(whole), nbytes, whole.strides[0])
        kind = strided.Create_resized(0, nbytes).Commit()
        counts = [size // each for size in sizes], [part.start // each for part in parts]
        self._finish(self._comm.Iallgatherv(self._mpi.IN_PLACE, [whole, *counts, kind]))
        strided.Free()
        kind.Free()
        return failed, found

    def _transfer(
        self,
        parts: list[Bytes],
        failed: bool,
        *,
        together: bool = False,
        room: Bytes | None = None,
    ) -> tuple[list[bool], list[Bytes]]:
        """Exchange sizes, then bytes. A size tells of a failure by being negative: -1 - size.

        Where a worker has failed, others may have made different calls: then all go on by pairs.

        together: whether all give one part each to all.
        room: where the parts that arrive lie, one after another, with the own one; None: new memory
            without it.
        """
        sizes = np.array([part.size for part in parts], np.int64)
        if not together and room is None:
            sizes[self.rank] = 0  # the own part stays here
        given, found = (-1 - sizes if failed else sizes), np.empty_like(sizes)
        self._finish(self._comm.Ialltoall(given, found))
        flags = found < 0
        found = np.where(flags, -1 - found, found)
        given_room = room is not None and not flags.any()
        starts = np.concatenate(
            [[0], np.cumsum(found if given_room else -(-found // ALIGNED) * ALIGNED)]
        )
        if not given_room:
            room = np.empty(starts[-1], np.uint8)
        assert room is not None and room.size == starts[-1]
        arriving = [room[a : a + n] for a, n in zip(starts[:-1], found, strict=True)]
        if together and not flags.any():
            places = found.tolist(), starts[:-1].tolist()
            self._finish(self._comm.Iallgatherv(parts[0], [room, *places, self._mpi.BYTE]))
        else:
            for request in self._by_pairs(parts, arriving):
                self._finish(request)
            if arriving[self.rank].size:
                arriving[self.rank][:] = parts[self.rank]
        return flags.tolist(), arriving

    def _by_pairs(self, parts: list[Bytes], arriving: list[Bytes]) -> list[Any]:
        """Begin a message for each pair of workers; empty ones are left out."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        coming = [self._comm.Irecv(arriving[i], i) for i in others if arriving[i].size]
        return coming + [self._comm.Isend(parts[i], i) for i in others if parts[i].size]

    def _finish(self, request: Any) -> None:
        """Wait for a transfer, and let Python deliver signals meanwhile."""
        end, (pause, most) = time.monotonic() + self.patience, PAUSES
        while not request.Test():
            if time.monotonic() > end:
                atexit.register(self._abort)
                raise WorkerLostError(
                    f"worker {self.rank}: another worker did not answer within {self.patience:g} s"
                )
            time.sleep(pause)
            pause = min(1.2 * pause, most)

    def _abort(self) -> None:
        """End all processes: MPI would wait for the lost one for ever, when this one ends."""
        sys.stderr.flush()
        self._comm.Abort(ExitCode.UNAVAILABLE)

    def close(self) -> None:
        """Free the communicator."""
        self._comm.Free()
