"""Show training: a live table on a terminal, plain lines elsewhere."""

from typing import TextIO

from rich.console import Console

from ..figures import size
from ..hooks import Hook, Progress
from ..learner import Learner
from ..showing.live import Shown, TerminalScreen
from ..showing.progress import heartbeat, scores, speed, table
from ..training.settings.schedule import Interval
from ..training.settings.work import Work


def display(stream: TextIO, every: float) -> Hook:
    """Return the display that suits `stream`.

    every: least seconds between two plain lines.
    """
    console = Console(file=stream)  # honours NO_COLOR, TERM=dumb and the width of the terminal
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveTable(console)
    return PlainLines(stream, every)


class PlainLines(Hook):
    """Print one line per interval and per evaluation; for log files."""

    def __init__(self, stream: TextIO, every: float) -> None:
        """Print to `stream` and flush each line."""
        self.stream, self.interval = stream, Interval(every)
        self.shown = False  # whether scores were printed
        self.unshown = False  # whether the latest ones were not
        self._before = Work()  # work at the latest line of a block

    def start(self, learner: Learner, progress: Progress) -> None:
        """Print nothing yet."""
        self._before = progress.work

    def block(self, learner: Learner, progress: Progress) -> None:
        """Print a line if it is time for one, so that a long pass does not look like a hang.

        Its speed is the mean since the line before.
        """
        if self.interval.due():
            done, self._before = progress.work - self._before, progress.work
            self._print(
                progress, f"block {progress.block}/{progress.blocks}", heartbeat(done, progress)
            )

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """Print the first and last held-out scores, and those when a line is due."""
        last = progress.pass_ + 1 >= progress.passes
        self.unshown = not (self.interval.due() or last or not self.shown)
        if not self.unshown:
            self.shown = True
            self._print(progress, f"held out: {scores(progress)}")

    def end(self, learner: Learner, progress: Progress) -> None:
        """Print the last scores, if training ended early, and the cost of training."""
        if self.unshown:
            self._print(progress, f"held out: {scores(progress)}")
        memory = (
            f"cache {size(progress.cache_bytes)}, "
            f"{progress.allocations_after_warmup} allocations after warm-up"
        )
        self._print(progress, f"done: {progress.rows:,} rows, {memory}")

    def _print(self, progress: Progress, text: str, more: str = "") -> None:
        head = f"[{progress.seconds:7.1f} s] pass {progress.pass_ + 1}/{progress.passes}"
        print(f"{head}, {text}, {more or speed(progress)}", file=self.stream, flush=True)


class LiveTable(Hook):
    """A table that is redrawn in place and stays when training ends."""

    def __init__(self, console: Console) -> None:
        """Prepare a table, drawn on `console` from the first block on."""
        self._screen = TerminalScreen(console, table)
        self._shown = Shown(self._screen)

    def start(self, learner: Learner, progress: Progress) -> None:
        """Begin drawing."""
        self._shown.hear("start", progress)

    def block(self, learner: Learner, progress: Progress) -> None:
        """Redraw a few times a second."""
        self._shown.hear("block", progress)

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """Redraw with the new scores."""
        self._shown.hear("evaluated", progress)

    def end(self, learner: Learner, progress: Progress) -> None:
        """Leave the last table on the screen."""
        self._shown.hear("end", progress)
        self.close()

    def close(self) -> None:
        """Give the terminal back, also after a failure; may be called more than once."""
        self._screen.close()
