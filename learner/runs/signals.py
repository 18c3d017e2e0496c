"""Stop a conversion, a training or another command when a signal asks for it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ..engines.crew import Crew
from ..engines.exchange import Exchange
from ..errors import RunInterrupted
from ..exit_codes import ExitCode
from ..hooks import Hook, Progress
from ..learner import Learner


@contextmanager
def interruptible(text: str, exchange: Exchange | None = None) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a `RunInterrupted` with this text.

    So what is half-written is removed. Only another Ctrl-C disturbs this.

    exchange: with other workers. While it is under way, a first signal waits for its end.
    """
    came = list[int]()

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        waits = exchange is not None and exchange.under_way
        if came.count(signal.SIGINT) > 1 or (len(came) == 1 and not waits):
            raise KeyboardInterrupt

    def after() -> None:
        if came:
            raise KeyboardInterrupt

    try:
        with handled([signal.SIGINT, signal.SIGTERM], stop, exchange, after):
            yield
    except KeyboardInterrupt:
        raise RunInterrupted(text) from None


@contextmanager
def handled(
    numbers: Iterable[signal.Signals],
    handler: Callable[[int, FrameType | None], None],
    exchange: Exchange | None,
    after: Callable[[], None],
) -> Iterator[None]:
    """Handle signals in a `with` statement, and restore their handlers at the end.

    Ignored signals stay ignored: shells set this for processes in the background.

    after: called after each exchange with other workers: see `Exchange`.
    """
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    if exchange is not None:
        exchange.after = after
    try:
        yield
    finally:
        if exchange is not None:
            exchange.after = None
        for number, old in before.items():
            signal.signal(number, old)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
PATIENCE = 1.0  # seconds for threads to finish a block after a second Ctrl-C


class Requests:
    """The signals that ask the process to stop.

    A second Ctrl-C always stops the process without waiting.

    Attributes:
        received: the first signal that came, or None.
        deferred: whether training looks at `received`. If not, nothing can be lost, and a signal
            raises `RunInterrupted` at once, or after the exchange that is under way.
    """

    def __init__(self) -> None:
        """Catch no signals until `caught` is entered."""
        self.received: signal.Signals | None = None
        self.deferred = False
        self._interrupted = False
        self._exchange: Exchange | None = None
        self._over = threading.Event()  # set when signals are no longer caught

    @property
    def name(self) -> str | None:
        """The name of the first signal that came."""
        return None if self.received is None else self.received.name

    @contextmanager
    def caught(self, exchange: Exchange | None = None) -> Iterator[None]:
        """Catch signals as requests. exchange: with other workers."""
        self._exchange = exchange
        try:
            with handled(STOPPING, self._handle, exchange, self._stop):
                yield
        finally:
            self._over.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._interrupted:
            with suppress(RuntimeError):  # no thread can start: a third Ctrl-C may be needed
                threading.Thread(target=self._insist, name="blocklearn-stop", daemon=True).start()
            raise KeyboardInterrupt
        self._interrupted = self._interrupted or number == signal.SIGINT
        self.received = self.received or signal.Signals(number)
        if self._exchange is None or not self._exchange.under_way:
            self._stop()

    def _stop(self) -> None:
        """Raise `RunInterrupted` if a signal came before training began."""
        if self.received is not None and not self.deferred:
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
