"""A few threads that run compiled kernels over chunks of rows.

Kernels release the GIL. The caller takes part; chunks are handed out one by one, so uneven chunks
balance; which thread ran a chunk never changes its bits. Each pool belongs to one cache: nothing is
shared with OpenMP or with another learner in the process.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

Task = Callable[[int, int], None]  # (chunk, thread)


class _Job:
    """One call of `run`: the chunks not yet taken, and the first error."""

    def __init__(self, task: Task, chunks: int, helpers: int) -> None:
        self.task = task
        self.chunks = chunks
        self.next: Iterator[int] = itertools.count()
        self.error: BaseException | None = None
        self.done = threading.Semaphore(0)
        self.helpers = helpers

    def work(self, thread: int) -> None:
        try:
            while self.error is None:
                chunk = next(self.next)
                if chunk >= self.chunks:
                    return
                self.task(chunk, thread)
        except BaseException as error:
            self.error = error


class Pool:
    """`threads` threads, the caller included."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"Pool: threads={threads}, but one at least must do the work.")
        self.threads = threads
        self._tasks: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers = [
            threading.Thread(target=self._loop, args=(i,), name=f"blocklearn-{i}", daemon=True)
            for i in range(1, threads)
        ]
        for worker in self._workers:
            worker.start()

    def _loop(self, thread: int) -> None:
        while (job := self._tasks.get()) is not None:
            job.work(thread)
            job.done.release()

    def run(self, task: Task, chunks: int) -> None:
        """Call `task(chunk, thread)` for every chunk in [0, chunks); returns when all are done."""
        helpers = min(self.threads, chunks) - 1
        job = _Job(task, chunks, helpers)
        for _ in range(helpers):
            self._tasks.put(job)
        job.work(0)
        for _ in range(helpers):
            job.done.acquire()
        if job.error is not None:
            raise job.error

    def close(self) -> None:
        """Stop the threads and wait for them."""
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []
