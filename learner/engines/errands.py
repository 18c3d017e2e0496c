"""Calls that another thread makes, so that one may be under way while this thread works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Protocol, TypeVar

from blocklearn.matcache.threads import MOMENT

Result = TypeVar("Result")


class Errand(Generic[Result]):
    """A call that another thread makes."""

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


class Aside(Protocol):
    """Begins calls one after the other, in a thread of its own or `at_once`."""

    def __call__(self, work: Callable[..., Result], /, *args: Any) -> Errand[Result]:
        """Begin the call `work(*args)` when those before are over."""


def at_once(work: Callable[..., Result], /, *args: Any) -> Errand[Result]:
    """Make the call `work(*args)` in this thread."""
    errand = Errand(work, args)
    errand.run()
    return errand


def one_ahead(errands: Iterable[Errand[Result]]) -> Generator[Result]:
    """Yield the result of each errand when the next one has begun; none is left when it ends."""
    last: Errand[Result] | None = None
    try:
        for errand in errands:
            before, last = last, errand
            if before is not None:
                yield before.result()
        if last is not None:
            yield last.result()
    finally:
        if last is not None:
            last.wait()
