"""Show the progress of a conversion: a bar on a terminal, elsewhere lines."""

import time
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..figures import size
from ..training.settings.schedule import Interval


class Watch:
    """Receives the progress of a conversion during a `with` statement, and shows nothing."""

    def begin(self, total: int) -> None:
        """Take note that about `total` bytes will be read; 0: unknown."""

    def read(self, count: int) -> None:
        """Take note that `count` more bytes were read."""

    def rows(self, count: int) -> None:
        """Take note that `count` more rows were written."""

    def finishing(self) -> None:
        """Take note that rows are written; other orientation and names follow."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""


class ConversionDisplay(Watch):
    """Shows bytes, rows and seconds on `stream`; at the end the terminal is as before.

    Without a terminal it prints a line every `every` seconds at most.
    """

    def __init__(self, stream: TextIO, every: float = 10.0) -> None:
        """Set up the bar, but show nothing yet."""
        console = Console(file=stream)
        self._stream, self._interval, self._start = stream, Interval(every), time.monotonic()
        self._total = self._read = self._rows = 0
        self._bar: Progress | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._bar = Progress(
                BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
            )
            self._task = self._bar.add_task("", total=None)

    def begin(self, total: int) -> None:
        """See `Watch`."""
        self._total = total
        self._show()

    def read(self, count: int) -> None:
        """See `Watch`."""
        self._read += count
        self._show()

    def rows(self, count: int) -> None:
        """See `Watch`."""
        self._rows += count
        self._show()

    def finishing(self) -> None:
        """See `Watch`."""
        self._interval = Interval(0.0)
        self._show("; names and other orientation")

    def _show(self, more: str = "") -> None:
        again = " in several passes over" if self._read > self._total else " of"
        of = f"{again} {size(self._total)}" if self._total else ""
        read = f"read {size(self._read)}{of}, " if self._read else ""  # some sources do not tell
        text = f"{read}{self._rows:,} rows{more}"
        if self._bar is not None:
            near = 0 < self._read <= self._total
            known = self._total if near else None  # in later passes the end is unknown
            self._bar.update(self._task, description=text, total=known, completed=self._read)
        elif self._interval.due():
            seconds = time.monotonic() - self._start
            print(f"[{seconds:7.1f} s] {text}", file=self._stream, flush=True)

    def __enter__(self) -> Self:
        """Start the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._bar is not None:
            self._bar.stop()
