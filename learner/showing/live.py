"""Show the progress of `fit` where it is seen: in a terminal or a notebook, never in a pipe."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from ..training.settings.progress import Progress
from ..training.settings.schedule import Interval
from .progress import done_of, line, text

REFRESH_SECONDS = 0.25
compiling = logging.getLogger("blocklearn.compile")


class Screen(Protocol):
    """A place where progress is drawn."""

    def draw(self, progress: Progress) -> None:
        """Replace the last drawing."""

    def close(self) -> None:
        """Leave the last drawing; may be called more than once."""


class _Lines(logging.Handler):
    """Prints what is logged above the drawing."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False, highlight=False)


class TerminalScreen:
    """Draws in place in a terminal, and says when kernels took long to compile."""

    def __init__(self, console: Console, render: Any = line) -> None:
        """Draw on `console` what `render` makes of progress."""
        self._live = Live(console=console, auto_refresh=False)
        self._render = render
        self._lines = _Lines(console)
        compiling.addHandler(self._lines)
        compiling.setLevel(logging.INFO)

    def draw(self, progress: Progress) -> None:
        """Draw, from the first call on."""
        if not self._live.is_started:
            self._live.start()
        shown: RenderableType = self._render(progress)
        self._live.update(shown, refresh=True)

    def close(self) -> None:
        """Give the terminal back."""
        compiling.removeHandler(self._lines)
        self._live.stop()


class NotebookScreen:
    """Draws a bar below a cell of a notebook."""

    def __init__(self) -> None:
        """Draw nothing yet."""
        self._handle: Any = None

    def draw(self, progress: Progress) -> None:
        """Draw, from the first call on."""
        notebook: Any = import_module("IPython.display")
        shown = notebook.HTML(bar(progress))
        if self._handle is None:
            self._handle = notebook.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        """Leave the bar."""


def bar(progress: Progress) -> str:
    """Return progress as HTML: a bar and a line of text."""
    done, total = done_of(progress)
    return (
        f'<div style="font:13px system-ui,sans-serif"><progress value="{done}" max="{total}">'
        f"</progress> {escape(text(progress))}</div>"
    )


def screen(stream: TextIO) -> Screen | None:
    """Return where progress is seen: the notebook, or the terminal `stream`; None: nowhere."""
    if in_notebook():
        return NotebookScreen()
    console = Console(file=stream)  # honours NO_COLOR, TERM=dumb and the width of the terminal
    if console.is_terminal and not console.is_dumb_terminal:
        return TerminalScreen(console)
    return None


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Shown:
    """Hears events of training, and draws progress a few times a second."""

    def __init__(self, where: Screen | None) -> None:
        """Draw on `where`; None: nowhere."""
        self._screen, self._interval = where, Interval(0.0)
        self.seen = where is not None

    def hear(self, event: str, progress: Progress) -> None:
        """Draw if the event is not one of many blocks."""
        if self._screen is None or (event == "block" and not self._interval.due()):
            return
        self._screen.draw(progress)
        if event == "start":
            self._interval = Interval(REFRESH_SECONDS)


@contextmanager
def shown(verbose: bool) -> Iterator[Shown]:
    """Yield what hears events of training; False: it draws nothing."""
    where = screen(sys.stderr) if verbose else None
    try:
        yield Shown(where)
    finally:
        if where is not None:
            where.close()
