"""Workers that are threads of one process."""

from __future__ import annotations

import threading

import numpy as np

from blocklearn.learner.engines.exchange import PATIENCE, Bytes, Exchange
from blocklearn.learner.errors import WorkerLostError


class ThreadExchange(Exchange):
    """The connection of a worker that is a thread. Make them with `thread_exchanges`."""

    def __init__(self, rank: int, meeting: _Meeting, patience: float) -> None:
        super().__init__(rank, meeting.size, patience)
        self._meeting = meeting

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        meeting = self._meeting
        meeting.given[self.rank] = failed, parts
        self._meet()
        flags = [given[0] for given in meeting.given]
        found = [np.array(given[1][self.rank]) for given in meeting.given]
        self._meet()  # all have their copies: the givers may change the arrays
        return flags, found

    def _meet(self) -> None:
        try:
            self._meeting.barrier.wait(self.patience)
        except threading.BrokenBarrierError:
            raise WorkerLostError(
                f"worker {self.rank}: another worker did not answer within {self.patience:g} s, "
                "or has ended"
            ) from None

    def close(self) -> None:
        """End the meeting: workers that still wait raise `WorkerLostError`."""
        self._meeting.barrier.abort()


class _Meeting:
    """What the threads share: what each gives, and where they wait for each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.given: list[tuple[bool, list[Bytes]]] = [(False, [])] * size
        self.barrier = threading.Barrier(size)


def thread_exchanges(size: int, patience: float = PATIENCE) -> list[ThreadExchange]:
    """Return the connections of `size` workers, one for each thread.

    >>> import numpy as np
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> def work(own):
    ...     given = [np.array([10 * own.rank + to]) for to in range(own.size)]
    ...     return [int(part[0]) for part in own.exchange(given)]
    >>> with ThreadPoolExecutor(2) as threads:
    ...     list(threads.map(work, thread_exchanges(2)))
    [[0, 10], [1, 11]]
    """
    meeting = _Meeting(size)
    return [ThreadExchange(rank, meeting, patience) for rank in range(size)]
