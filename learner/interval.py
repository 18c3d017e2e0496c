"""A clock for things that should not happen too often."""

import time


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
