"""Start threads, with one error for all cases in which the system refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ThreadStartError

REFUSED = "can't start new thread"  # the text of CPython's RuntimeError
MOMENT = 0.2  # seconds between two checks whether an awaited thread is still alive


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Turn a refusal to start a thread into `ThreadStartError`.

    name: of the threads started in this `with` block.
    """
    try:
        yield
    except RuntimeError as error:
        if str(error) != REFUSED:
            raise
        raise ThreadStartError(
            f"{name}: the system refuses another thread; {threading.active_count()} of this "
            "process run. Raise the limit of memory (ulimit -v) or of processes (ulimit -u, "
            "pids.max of the control group), or use fewer threads (learner.threads)."
        ) from error


def start(thread: threading.Thread) -> None:
    """Start `thread`. Raises `ThreadStartError` if the system refuses."""
    with starting(thread.name):
        thread.start()
