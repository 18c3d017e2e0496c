"""Threads that the system may refuse to start: one error for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ThreadStartError

REFUSED = "can't start new thread"  # how CPython says it, in a RuntimeError
MOMENT = 0.2  # seconds that a wait for another thread lasts before it looks whether that one lives


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Within it threads called `name` may be started.

    Raises `ThreadStartError` where the system refuses.
    """
    try:
        yield
    except RuntimeError as error:
        if str(error) != REFUSED:
            raise
        raise ThreadStartError(
            f"{name}: the system starts no further thread, and {threading.active_count()} of this "
            "process run. Raise the limit of memory (ulimit -v) or of processes (ulimit -u, "
            "pids.max of the control group), or use fewer threads (learner.threads)."
        ) from error


def start(thread: threading.Thread) -> None:
    """Start `thread`. Raises `ThreadStartError` where the system refuses."""
    with starting(thread.name):
        thread.start()
