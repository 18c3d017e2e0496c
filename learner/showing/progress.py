"""Describe the progress of training in text, as lines and tables."""

from rich.progress_bar import ProgressBar
from rich.table import Table

from blocklearn.models.topic_quality import QUALITY

from ..figures import duration, number, overall, size
from ..memory import resident_bytes
from ..training.settings.progress import Progress
from ..training.settings.work import Work


def done_of(progress: Progress) -> tuple[int, int]:
    """Return the blocks that are done, and those of all passes."""
    done = progress.pass_ * progress.blocks + progress.block
    return done, max(1, progress.passes * progress.blocks)


def seconds_left(progress: Progress) -> float | None:
    """Return the seconds of training that are left at the speed so far; None: unknown.

    Evaluations to come are not counted.
    """
    done, total = done_of(progress)
    return progress.seconds * (total - done) / done if done else None


def time_left(progress: Progress) -> str:
    """Return `about 12 s left`, or a dash before the first block."""
    left = seconds_left(progress)
    return "-" if left is None else f"about {duration(left)} left" if left else "none left"


def table(progress: Progress) -> Table:
    """Return progress as a bar over all passes and a table of two columns."""
    done, total = done_of(progress)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("progress", ProgressBar(total=total, completed=done, width=40))
    grid.add_row("pass", f"{passes(progress)}, block {progress.block} of {progress.blocks}")
    grid.add_row("time", f"{progress.seconds:.1f} s, {time_left(progress)}")
    grid.add_row("speed", speed(progress))
    grid.add_row("data", f"{progress.work.gb_per_s:.2f} GB/s, {queue(progress.work)}")
    grid.add_row("held out", scores(progress))
    grid.add_row("memory", memory(progress))
    grid.add_row("allocations after warm-up", str(progress.allocations_after_warmup))
    return grid


def line(progress: Progress) -> Table:
    """Return progress as a bar and a line of text."""
    done, total = done_of(progress)
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=total, completed=done, width=20), text(progress))
    return grid


def text(progress: Progress) -> str:
    """Return `pass 3 of 9, 71,204 rows/s, perplexity 1,290.1, about 12 s left`."""
    parts = [f"pass {passes(progress)}", f"{progress.rows_per_s:,.0f} rows/s"]
    if progress.scores:
        parts.append(scores(progress))
    return ", ".join([*parts, time_left(progress)])


def passes(progress: Progress) -> str:
    """Return `3 of 9`."""
    return f"{min(progress.pass_ + 1, progress.passes)} of {progress.passes}"


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
    """Return memory of all workers, of arrays of training, and of accelerators."""
    device = f", device {size(progress.device_bytes)}" if progress.device_bytes else ""
    host = resident_bytes() + progress.bytes_elsewhere
    return f"host {size(host)}, cache {size(progress.cache_bytes)}{device}"


def scores(progress: Progress) -> str:
    """Return `perplexity 1,290.1, elbo_per_token -7.163`; a dash before the first evaluation."""
    return ", ".join(f"{name} {number(value)}" for name, value in main(progress).items()) or "-"


def main(progress: Progress) -> dict[str, float]:
    """Return the scores that are shown during training.

    Those of single targets are left out, and the quality of topics, which is for reports and for
    `learn evaluate`.
    """
    return {n: value for n, value in overall(progress.scores).items() if n not in QUALITY}
