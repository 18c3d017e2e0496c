"""Decide when recurring events of training are due, such as evaluations."""

from __future__ import annotations

import time

from .progress import Progress


class Interval:
    """Is due at most once in `seconds`, first one interval after it was made."""

    def __init__(self, seconds: float) -> None:
        """Begin the first interval now."""
        self.seconds = seconds
        self.next = time.monotonic() + seconds

    def restart(self) -> None:
        """Begin the interval again now."""
        self.next = time.monotonic() + self.seconds

    def due(self) -> bool:
        """Return whether the interval is over; if so, begin the next one."""
        now = time.monotonic()
        if now < self.next:
            return False
        self.next = now + self.seconds
        return True


class Cadence:
    """Is due every so many passes, blocks or seconds; None: not by that.

    Passes and blocks depend on the position alone: a run that continues from a checkpoint stays in
    step with one that never stopped. Seconds are measured by a monotonic clock. An event
    that falls on the last block of a pass is due when the pass is complete.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        passes: int | None,
        blocks: int | None,
        seconds: float | None,
    ) -> None:
        """Begin at `progress`, where nothing is due."""
        self._passes, self._blocks = passes, blocks
        self._interval = None if seconds is None else Interval(seconds)
        at_end = progress.block == progress.blocks and not progress.closed
        self._seen = _blocks_done(progress) - at_end  # an event there is due at the pass's end

    def due(self, progress: Progress) -> bool:
        """Return whether an event is due. Call it once after every block and every pass."""
        if progress.block == progress.blocks and not progress.closed:
            return False
        before, self._seen = self._seen, _blocks_done(progress)
        by_pass = self._passes and progress.closed and (progress.pass_ + 1) % self._passes == 0
        by_block = self._blocks and self._seen // self._blocks > before // self._blocks
        in_time = self._interval is not None and self._interval.due()
        return bool(by_pass or by_block or in_time)

    def restart(self) -> None:
        """Count seconds from now: the event that was due is done."""
        if self._interval is not None:
            self._interval.restart()


def _blocks_done(progress: Progress) -> int:
    pass_, block = progress.position
    return pass_ * progress.blocks + block
