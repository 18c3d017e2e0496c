"""Stopping on request: Ctrl-C, or the TERM that batch systems send before they kill."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .errors import RunInterrupted
from .hooks import Hook, Progress
from .learner import Learner

STOPPING = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(Hook):
    """Ends training at the next block after a signal; the last checkpoint is what remains.

    The handler only sets a flag: saving inside a handler deadlocks. A second signal does not wait
    for the block.
    """

    def __init__(self) -> None:
        """Nothing is caught until `catching` is entered."""
        self.received: signal.Signals | None = None

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Signals set the flag inside the `with`; what handled them before does so again after.

        A signal that is ignored stays so: a shell does that to what it puts in the background.
        """
        heard = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)

    def block(self, learner: Learner, progress: Progress) -> None:
        """Stops in mid-pass; a pass that is just complete is left to reach its checkpoint."""
        if self.received and progress.block < progress.blocks:
            self._stop(progress)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Stops between two passes. After the last one there is nothing left to stop."""
        if self.received and progress.pass_ + 1 < progress.passes:
            self._stop(progress)

    def _stop(self, progress: Progress) -> None:
        assert self.received is not None
        raise RunInterrupted(
            f"{self.received.name} in pass {progress.pass_ + 1} of {progress.passes}, "
            f"block {progress.block} of {progress.blocks}"
        )
