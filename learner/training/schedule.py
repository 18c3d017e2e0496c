"""When something is due that happens again and again while a model is trained."""

from __future__ import annotations

import time

from .progress import Progress


class Interval:
    """True at most once in `seconds`, the first time one interval after it was made."""

    def __init__(self, seconds: float) -> None:
        """The interval begins now."""
        self.seconds = seconds
        self.next = time.monotonic() + seconds

    def restart(self) -> None:
        """The interval begins now."""
        self.next = time.monotonic() + self.seconds

    def due(self) -> bool:
        """Whether the interval is over; if so, the next one begins."""
        now = time.monotonic()
        if now < self.next:
            return False
        self.next = now + self.seconds
        return True


class Cadence:
    """Due every so many passes, blocks or seconds, whichever comes first; None: not by that.

    By passes and blocks it depends on the position alone, so that a run that goes on from a
    checkpoint keeps time with one that never stopped. Seconds are those of a clock that nobody
    sets. What falls on the last block of a pass is due when the pass is complete.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        passes: int | None,
        blocks: int | None,
        seconds: float | None,
    ) -> None:
        """Nothing is due where `progress` is now."""
        self._passes, self._blocks = passes, blocks
        self._interval = None if seconds is None else Interval(seconds)
        at_end = progress.block == progress.blocks and not progress.closed
        self._seen = _blocks_done(progress) - at_end  # what is due there comes with the end

    def due(self, progress: Progress) -> bool:
        """Whether it is time; to be asked once after every block, and at the end of every pass."""
        if progress.block == progress.blocks and not progress.closed:
            return False
        before, self._seen = self._seen, _blocks_done(progress)
        by_pass = self._passes and progress.closed and (progress.pass_ + 1) % self._passes == 0
        by_block = self._blocks and self._seen // self._blocks > before // self._blocks
        in_time = self._interval is not None and self._interval.due()
        return bool(by_pass or by_block or in_time)

    def restart(self) -> None:
        """What was due is done: seconds count from now."""
        if self._interval is not None:
            self._interval.restart()


def _blocks_done(progress: Progress) -> int:
    pass_, block = progress.position
    return pass_ * progress.blocks + block
