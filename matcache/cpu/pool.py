"""A pool of threads that run compiled kernels over chunks of rows.

Kernels release the GIL, and the caller takes part. Chunks are handed out one by one, so uneven
chunks balance. A chunk has the same bits on any thread. Each pool belongs to one cache: it shares
nothing with OpenMP or with another learner in the process.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from ..threads import MOMENT, start

Task = Callable[[int, int], None]  # (chunk, thread)


class _Job:
    """One call of `run`: chunks not yet taken, threads at work, and the first error."""

    def __init__(self, task: Task, chunks: int) -> None:
        """Start with all chunks and no threads."""
        self.task = task
        self.chunks = chunks
        self.next = itertools.count()
        self.error: BaseException | None = None
        self._helpers = 0
        self._over = False
        self._changed = threading.Condition()

    def work(self, thread: int) -> None:
        """Take chunks until none are left or one failed."""
        try:
            while self.error is None and (chunk := next(self.next)) < self.chunks:
                self.task(chunk, thread)
        except BaseException as error:
            self.error = self.error or error

    def help(self, thread: int) -> None:
        """Run `work` on another thread; does nothing once the job is over."""
        with self._changed:
            if self._over:
                return
            self._helpers += 1
        try:
            self.work(thread)
        finally:
            with self._changed:
                self._helpers -= 1
                self._changed.notify()

    def finish(self) -> None:
        """Let no more helpers in, and wait for those at work. May be called repeatedly."""
        with self._changed:
            self._over = True
            while self._helpers:
                self._changed.wait(MOMENT)  # a helper that runs out of memory may fail to notify


class Pool:
    """A pool of `threads` threads, the caller included.

    They start with the first job that has chunks for them. They stop at `close`, or when the pool
    is garbage-collected.
    """

    def __init__(self, threads: int) -> None:
        """Make the pool; threads start later."""
        if threads < 1:
            raise ValueError(f"threads={threads}: must be at least 1.")
        self.threads = threads
        self._closed = False
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers: list[threading.Thread] = []
        self._stop = weakref.finalize(self, _stop, self._jobs, threads - 1)

    def run(self, task: Task, chunks: int) -> None:
        """Call `task(chunk, thread)` for every chunk in [0, chunks), and wait for all.

        Raises the first error of any thread, or an interrupt of the caller. In both cases no
        further chunk starts, and running ones are awaited. Raises `ThreadStartError` if a thread
        cannot be started.
        """
        self.check_open()
        helpers = min(self.threads, chunks) - 1
        if helpers <= 0:
            for chunk in range(chunks):
                task(chunk, 0)
            return
        job = _Job(task, chunks)
        try:
            self._start()
            for _ in range(helpers):
                self._jobs.put(job)
            job.work(0)
        except BaseException as error:
            job.error = job.error or error
        while True:
            try:
                job.finish()
                break
            except BaseException as error:  # an interrupt while waiting: wait on, then raise it
                job.error = job.error or error
        if job.error is not None:
            raise job.error

    def check_open(self) -> None:
        """Raise RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("MatCache: used after close().")

    def _start(self) -> None:
        """Start all missing threads."""
        for i in range(len(self._workers) + 1, self.threads):
            worker = threading.Thread(
                target=_loop, args=(self._jobs, i), name=f"blocklearn-{i}", daemon=True
            )
            self._workers.append(worker)  # first, so that no interrupt can duplicate a number
            start(worker)

    def rest(self) -> None:
        """Stop the threads and wait for them. The next job starts them again."""
        _stop(self._jobs, len(self._workers))
        self._join()
        self._workers.clear()

    def close(self) -> None:
        """Stop the threads and wait for them."""
        self._closed = True
        self._stop()
        self._join()

    def _join(self) -> None:
        """Wait until the threads have ended."""
        for worker in self._workers:
            if worker.is_alive():
                worker.join()


def _loop(jobs: SimpleQueue[_Job | None], thread: int) -> None:
    while (job := jobs.get()) is not None:
        job.help(thread)
        del job  # a waiting thread must not keep a job's arrays alive


def _stop(jobs: SimpleQueue[_Job | None], workers: int) -> None:
    for _ in range(workers):
        jobs.put(None)
