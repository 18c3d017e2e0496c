"""A thread of a replica, which works on one piece after another."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from blocklearn.matcache.threads import start

from ...engines.errands import Errand

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

    def ask(self, work: Callable[..., Result], /, *args: Any) -> Errand[Result]:
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
