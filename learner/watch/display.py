"""Show training: a live table on a terminal, plain lines elsewhere."""

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from blocklearn.models.topic_quality import QUALITY

from ..figures import number, overall, size
from ..hooks import Hook, Progress
from ..learner import Learner
from ..memory import resident_bytes
from ..training.schedule import Interval
from ..training.work import Work

REFRESH_SECONDS = 0.25


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
        if self.interval.due() or last or not self.shown:
            self.shown = True
            self._print(progress, f"held out: {scores(progress)}")

    def end(self, learner: Learner, progress: Progress) -> None:
        """Print the last line: the cost of training."""
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
        self.live = Live(console=console, auto_refresh=False)
        self.interval = Interval(0.0)

    def start(self, learner: Learner, progress: Progress) -> None:
        """Begin drawing."""
        self.live.start()
        self._draw(progress)
        self.interval = Interval(REFRESH_SECONDS)

    def block(self, learner: Learner, progress: Progress) -> None:
        """Redraw a few times a second."""
        if self.interval.due():
            self._draw(progress)

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """Redraw with the new scores."""
        self._draw(progress)

    def end(self, learner: Learner, progress: Progress) -> None:
        """Leave the last table on the screen."""
        self._draw(progress)
        self.close()

    def close(self) -> None:
        """Give the terminal back, also after a failure; may be called more than once."""
        self.live.stop()

    def _draw(self, progress: Progress) -> None:
        self.live.update(table(progress), refresh=True)


def table(progress: Progress) -> Table:
    """Return progress as a bar over all passes and a table of two columns."""
    done = progress.pass_ * progress.blocks + progress.block
    total = max(1, progress.passes * progress.blocks)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("progress", ProgressBar(total=total, completed=done, width=40))
    where = f"{progress.pass_ + 1} of {progress.passes}"
    grid.add_row("pass", f"{where}, block {progress.block} of {progress.blocks}")
    grid.add_row("time", f"{progress.seconds:.1f} s")
    grid.add_row("speed", speed(progress))
    grid.add_row("data", f"{progress.work.gb_per_s:.2f} GB/s, {queue(progress.work)}")
    grid.add_row("held out", scores(progress))
    grid.add_row("memory", memory(progress))
    grid.add_row("allocations after warm-up", str(progress.allocations_after_warmup))
    return grid


def speed(progress: Progress) -> str:
    """Return `71,204 rows/s, 9.8 gflops`."""
    return f"{progress.rows_per_s:,.0f} rows/s, {progress.gflops:.1f} gflops"


def heartbeat(done: Work, progress: Progress) -> str:
    """Return speed, queue and memory as text.

    `71,204 rows/s, 0.31 GB/s, 9.8 gflops, queue 90% full, host 1.2 GB, cache 42.1 MB`
    """
    speeds = f"{done.rows_per_s:,.0f} rows/s, {done.gb_per_s:.2f} GB/s, {done.gflops:.1f} gflops"
    return f"{speeds}, {queue(done)}, {memory(progress)}"


def queue(work: Work) -> str:
    """Return how full the reader's queue was."""
    return f"queue {work.queue:.0%} full"


def memory(progress: Progress) -> str:
    """Return memory of the process, of arrays of training, and of accelerators."""
    device = f", device {size(progress.device_bytes)}" if progress.device_bytes else ""
    return f"host {size(resident_bytes())}, cache {size(progress.cache_bytes)}{device}"


def scores(progress: Progress) -> str:
    """Return `perplexity 1,290.1, elbo_per_token -7.163`; a dash before the first evaluation.

    The quality of topics is left out: its scores are for reports and for `learn evaluate`.
    """
    shown = {n: value for n, value in overall(progress.scores).items() if n not in QUALITY}
    return ", ".join(f"{name} {number(value)}" for name, value in shown.items()) or "-"
