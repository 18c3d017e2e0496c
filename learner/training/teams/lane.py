"""A thread of a replica, which works on one piece after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from blocklearn.matcache.threads import MOMENT, start

Result = TypeVar("Result")


class Numbered(Protocol):
    """A piece of work for a replica: a block of data, or another piece."""

    @property
    def pass_(self) -> int:
        """The pass over the data."""

    @property
    def index(self) -> int:
        """The number of the piece in its pass."""


Piece = TypeVar("Piece", bound=Numbered)


class Errand(Generic[Result]):
    """A call that a lane makes."""

    def __init__(self, work: Callable[..., Result], args: tuple[Any, ...]) -> None:
        """Note the call `work(*args)`."""
        self._call = work, args
        self._found: list[Result] = []
        self._error: BaseException | None = None
        self._over = False
        self._working = threading.Lock()
        self._working.acquire()

    def run(self) -> None:
        """Make the call, and keep its result or its error."""
        work, args = self._call
        try:
            self._found.append(work(*args))
        except BaseException as error:
            self._error = error
        self._over = True
        self._working.release()

    def wait(self) -> None:
        """Wait until the call is over, in short slices.

        Python delivers a signal only between waits, so one long wait could swallow a Ctrl-C.
        """
        while not self._over:
            self._working.acquire(timeout=MOMENT)

    def result(self) -> Result:
        """Return the result, or raise the error, when the call is over."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]


class Lane:
    """A thread that makes calls in the order in which they are asked for.

    It starts with the first call, and stops at `close`, or when the lane is garbage-collected.
    """

    def __init__(self, name: str) -> None:
        """Make the lane. name: of its thread."""
        self._name = name
        self._errands: SimpleQueue[Errand[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stop = weakref.finalize(self, self._errands.put, None)

    def ask(self, work: Callable[..., Result], *args: Any) -> Errand[Result]:
        """Ask for the call `work(*args)`. Raises `ThreadStartError` if no thread can start."""
        if self._thread is None:
            thread = threading.Thread(
                target=_loop, args=(self._errands,), name=self._name, daemon=True
            )
            start(thread)
            self._thread = thread
        errand = Errand(work, args)
        self._errands.put(errand)
        return errand

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop()
        if self._thread is not None:
            self._thread.join()


def _loop(errands: SimpleQueue[Errand[Any] | None]) -> None:
    while (errand := errands.get()) is not None:
        errand.run()
        del errand  # a waiting thread must not keep a block alive
