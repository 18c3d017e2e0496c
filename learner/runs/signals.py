"""Stop a conversion, a training or another command when a signal asks for it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ..engines.crew import Crew
from ..errors import RunInterrupted
from ..exit_codes import ExitCode
from ..hooks import Hook, Progress
from ..learner import Learner


@contextmanager
def interruptible(text: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a `RunInterrupted` with this text.

    So what is half-written is removed. Another SIGTERM does not disturb this.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterrupted(text) from None
    finally:
        signal.signal(signal.SIGTERM, before)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
PATIENCE = 1.0  # seconds for threads to finish a block after a second Ctrl-C


class Requests:
    """The signals that ask the process to stop.

    A second Ctrl-C always stops the process without waiting.

    Attributes:
        received: the first signal that came, or None.
        deferred: whether training looks at `received`. If not, nothing can be lost, and a signal
            raises `RunInterrupted` at once.
    """

    def __init__(self) -> None:
        """Catch no signals until `caught` is entered."""
        self.received: signal.Signals | None = None
        self.deferred = False
        self._interrupted = False
        self._over = threading.Event()  # set when signals are no longer caught

    @property
    def name(self) -> str | None:
        """The name of the first signal that came."""
        return None if self.received is None else self.received.name

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch signals as requests; restore the previous handlers at the end.

        Ignored signals stay ignored: shells set this for processes in the background.
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
            with suppress(RuntimeError):  # no thread can start: a third Ctrl-C may be needed
                threading.Thread(target=self._insist, name="blocklearn-stop", daemon=True).start()
            raise KeyboardInterrupt
        self._interrupted = self._interrupted or number == signal.SIGINT
        self.received = self.received or signal.Signals(number)
        if not self.deferred:
            raise RunInterrupted(f"{self.received.name} before training began")

    def _insist(self) -> None:
        """End the process if it still waits for a thread that works on a block."""
        if not self._over.wait(PATIENCE):
            sys.stderr.flush()
            os._exit(ExitCode.KILLED)


class StopOnSignal(Hook):
    """Ends training at the next block after a signal, once a checkpoint is saved."""

    def __init__(
        self,
        requests: Requests,
        save: Callable[[Learner, Progress], None],
        crew: Crew | None = None,
    ) -> None:
        """Take the signals to look for, and the function that saves a checkpoint.

        crew: the workers of the run, each of which may have received a signal; None: there is one.
        """
        self.requests, self.save, self.crew = requests, save, crew or Crew()

    def start(self, learner: Learner, progress: Progress) -> None:
        """Defer signals: from now on, stopping at once would lose work."""
        self.requests.deferred = True

    def block(self, learner: Learner, progress: Progress) -> None:
        """Save and raise `RunInterrupted` if a signal was received."""
        received = self.requests.name or self.crew.asked
        if received is not None:
            self.save(learner, progress)
            raise RunInterrupted(
                f"{received} in pass {progress.pass_ + 1} of {progress.passes}, block "
                f"{progress.block} of {progress.blocks}"
            )

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Stop between two passes; after the last pass, training ends anyway."""
        if progress.pass_ + 1 < progress.passes and not progress.stop:
            self.block(learner, progress)
