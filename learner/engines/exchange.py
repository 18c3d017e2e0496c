"""The one primitive of several workers: each gives an array to each, and gets one from each.

All workers make the same calls in the same order. A worker that fails answers the next call of the
others with its error, so none of them waits for it.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.closing import Closing

from ..errors import WorkerError, WorkerLostError

Bytes = NDArray[np.uint8]

PATIENCE = 1800.0
"""Seconds that a worker waits for the others: longer than any evaluation or checkpoint."""


class Room(NamedTuple):
    """Memory that all workers fill together.

    - whole: [rounds x numbers of a round], contiguous, of the same shape and dtype on all workers.
    - parts: which numbers of each round are those of a worker, by rank. If there are several
      rounds, all have as many.
    """

    whole: NDArray[Any]
    parts: Sequence[slice]


class Exchange(Closing):
    """A worker's connection to all workers.

    - rank: the number of this worker, from 0.
    - size: the number of workers.
    - patience: seconds that a call waits for the other workers.

    failed: whether a failure of any worker has ended the exchanges.
    after: called after each exchange, so that signals that came meanwhile can stop this worker; an
        exchange that a signal cuts short would leave the others out of step.
    """

    starts = False
    """Whether it starts the other workers itself, at the first exchange."""

    by_pairs = False
    """Whether each pair of workers exchanges a message of its own, empty ones left out."""

    any_thread = True
    """Whether other threads than the first may make calls, one by one."""

    def __init__(self, rank: int, size: int, patience: float = PATIENCE) -> None:
        self.rank, self.size, self.patience = rank, size, patience
        self.failed = False
        self.after: Callable[[], None] | None = None
        self._one = threading.Lock()  # calls of several threads of a worker come one by one

    def exchange(
        self, parts: Sequence[NDArray[Any]], into: NDArray[Any] | None = None
    ) -> list[NDArray[Any]]:
        """Give `parts[i]` to worker i, and return what each worker gave to this one, by rank.

        parts: one array for each worker, of one dtype, which all workers use in this call.
        into: flat, of this dtype and of the size of all that this worker gets: it lies there
            afterwards, in the order of the workers. None: the engine finds memory.

        The arrays returned are flat, and valid until the next call. The own part is returned
        as it is, without a copy.

        Raises:
            WorkerError: another worker has failed.
            WorkerLostError: another worker did not answer in time.
        """
        own = np.ascontiguousarray(parts[self.rank]).reshape(-1)
        given = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts]
        if into is None:
            return self._viewed(self._checked(lambda: self._swap(given, False)), own)
        room = into.view(np.uint8)
        found = self._checked(lambda: self._swap_into(given, room))
        return [part.view(own.dtype) for part in found]

    def share(self, part: NDArray[Any]) -> list[NDArray[Any]]:
        """Give `part` to all workers, and return what each gave, by rank: see `exchange`.

        All workers call this together. An engine may know a better way than to give it to each:
        one that sends it to a machine once, whose workers hand it on.
        """
        own = np.ascontiguousarray(part).reshape(-1)
        return self._viewed(self._checked(lambda: self._share(own.view(np.uint8))), own)

    def fill(self, room: Room) -> None:
        """Give the own part of a room to all workers, and fill in theirs.

        All workers call this together. An engine may know how parts arrive in their places without
        a copy.
        """
        self._checked(lambda: self._fill(room))

    def _viewed(self, found: list[Bytes], own: NDArray[Any]) -> list[NDArray[Any]]:
        return [own if i == self.rank else part.view(own.dtype) for i, part in enumerate(found)]

    def _checked(self, work: Callable[[], tuple[list[bool], list[Bytes]]]) -> list[Bytes]:
        """Return the bytes that an exchange gives, unless a worker has failed."""
        with self._one:
            if self.failed:
                raise WorkerLostError(
                    f"worker {self.rank}: a worker was lost before. Make the learner again: it "
                    "resumes from its checkpoints."
                )
            try:
                failed, found = work()
            except WorkerLostError:
                self.failed = True
                raise
            for rank, part in enumerate(found):
                if failed[rank]:
                    self.failed = True
                    told = json.loads(part.tobytes())
                    raise WorkerError(rank, told["code"], told["text"])
        if self.after is not None:
            self.after()
        return found

    @property
    def under_way(self) -> bool:
        """Whether an exchange has begun and not ended."""
        return self._one.locked()

    def fail(self, code: int, text: str) -> bool:
        """Tell the other workers that this one has failed, at the call that they make next.

        Returns whether worker 0 tells the same of itself meanwhile. It does nothing after another
        failure: the others know already, or are lost.

        code: exit code of the error. text: its message.
        """
        told = np.frombuffer(json.dumps({"code": code, "text": text}).encode(), np.uint8)
        with self._one:
            if self.failed or self.size == 1:
                return False
            self.failed = True
            failed, found = self._swap([told] * self.size, True)
            return self.rank > 0 and failed[0] and found[0].tobytes() == told.tobytes()

    def threads(self, given: int | None) -> int | None:
        """Return the threads that this worker may use; None: all. given: by the user."""
        return given

    def renew(self) -> None:
        """End the workers that this one has started: the next exchange starts others."""

    def regroup(self, fewest: int, seconds: float) -> None:
        """End the workers that this one has started, and find room for others.

        If there is none for all within so many seconds, there are fewer: `size` says how many.

        fewest: workers, with this one.

        Raises WorkerLostError if there is no room for so many.
        """
        self.renew()

    @property
    def running(self) -> bool:
        """Whether workers are at work that this one has started."""
        return False

    def see_off(self) -> None:
        """Wait some seconds until the workers that this one has started have ended their work."""

    def dismiss(self) -> None:
        """End the workers that this one has started, and their cluster; others go on."""

    def _share(self, part: Bytes) -> tuple[list[bool], list[Bytes]]:
        """Do what `_swap` does, where all workers get the same."""
        return self._swap([part] * self.size, False)

    def _swap_into(self, parts: list[Bytes], room: Bytes) -> tuple[list[bool], list[Bytes]]:
        """Do what `_swap` does, and leave what this worker gets in `room`, with its own part.

        An engine may know how it arrives there without a copy.
        """
        failed, found = self._swap(parts, False)
        found[self.rank] = parts[self.rank]
        if not any(failed):
            np.concatenate(found, out=room)
        return failed, found

    def _fill(self, room: Room) -> tuple[list[bool], list[Bytes]]:
        """Do what `fill` asks for; return what `_swap` returns, of workers that have failed."""
        whole, parts = room
        failed, found = self._share(whole[:, parts[self.rank]].reshape(-1).view(np.uint8))
        for rank, part in enumerate(found if not any(failed) else []):
            if rank != self.rank:
                whole[:, parts[rank]] = part.view(whole.dtype).reshape(len(whole), -1)
        return failed, found

    @abstractmethod
    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        """Exchange bytes, and whether a worker has failed.

        Returns for each worker whether it failed, and its bytes. Those of this worker may be empty.
        """


class Alone(Exchange):
    """The connection of a worker without others."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        return [failed], parts

    def close(self) -> None:
        """Do nothing."""
