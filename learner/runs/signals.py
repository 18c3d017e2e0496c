"""Stopping a conversion on request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ..errors import RunInterrupted
from ..exit_codes import ExitCode
from ..hooks import Hook, Progress
from ..learner import Learner


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


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
PATIENCE = 1.0  # seconds that threads at work on a block have after a second Ctrl-C


class Requests:
    """What the process was asked to do by signals.

    received: the first one that came. deferred: somebody will look at it; otherwise, because
    nothing would be lost, a signal stops what is being done with a `RunInterrupted`. A second
    Ctrl-C does not wait in any case.
    """

    def __init__(self) -> None:
        """Nothing is caught until `caught` is entered."""
        self.received: signal.Signals | None = None
        self.deferred = False
        self._interrupted = False
        self._over = threading.Event()  # nothing is caught any more

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Within it, signals are requests; what handled them before does so again after.

        A signal that is ignored stays so: a shell does that to what it puts in the background.
        """
        heard = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in heard}
        try:
            yield
        finally:
            self._over.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._interrupted:
            with suppress(RuntimeError):  # without a thread to spare, a wait may need a third one
                threading.Thread(target=self._insist, name="blocklearn-stop", daemon=True).start()
            raise KeyboardInterrupt
        self._interrupted = self._interrupted or number == signal.SIGINT
        self.received = self.received or signal.Signals(number)
        if not self.deferred:
            raise RunInterrupted(f"{self.received.name} before training began")

    def _insist(self) -> None:
        """End the process if it still waits for a thread that is at work on a block."""
        if not self._over.wait(PATIENCE):
            sys.stderr.flush()
            os._exit(ExitCode.KILLED)


class StopOnSignal(Hook):
    """Ends training at the next block after a signal, once it is saved."""

    def __init__(self, requests: Requests, save: Callable[[Learner, Progress], None]) -> None:
        """save: saves a checkpoint."""
        self.requests, self.save = requests, save

    def start(self, learner: Learner, progress: Progress) -> None:
        """From now on something would be lost."""
        self.requests.deferred = True

    def block(self, learner: Learner, progress: Progress) -> None:
        """Stops, if that is asked for."""
        received = self.requests.received
        if received is not None:
            self.save(learner, progress)
            raise RunInterrupted(
                f"{received.name} in pass {progress.pass_ + 1} of {progress.passes}, block "
                f"{progress.block} of {progress.blocks}"
            )

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Stops between two passes. After the last one there is nothing left to stop."""
        if progress.pass_ + 1 < progress.passes and not progress.stop:
            self.block(learner, progress)
