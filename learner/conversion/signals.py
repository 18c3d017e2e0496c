"""Stopping a conversion on request."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ..errors import RunInterrupted


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Ctrl-C, and the TERM of batch systems, become a `RunInterrupted` that says how to go on."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterrupted(f"{folder}: stopped; --resume goes on with it") from None
    finally:
        signal.signal(signal.SIGTERM, before)
