"""Report where every thread stands when training has not moved for a long time."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from blocklearn.matcache.threads import start

from ..exit_codes import ExitCode
from ..hooks import Progress

LOOKS = 4  # checks within `seconds`

log = logging.getLogger(__name__)


@contextmanager
def watching(
    progress: Progress, seconds: float | None, end_after: float | None = None
) -> Iterator[None]:
    """Log the stacks of all threads when no block was finished for `seconds`.

    A block is finished when it was trained on or scored. The log is repeated after twice, four
    times, ... as long.

    seconds: None: do not watch.
    end_after: seconds after which the process ends as if interrupted. None: never, because a block
    may be slow, and batch systems have time limits. Time in which the process was stopped does
    not count.
    """
    if seconds is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(
        target=_watch,
        args=(progress, seconds, end_after, over),
        name="blocklearn-watchdog",
        daemon=True,
    )
    start(thread)
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(
    progress: Progress, seconds: float, end_after: float | None, over: threading.Event
) -> None:
    seen, quiet, due = _signs(progress), 0.0, seconds
    while not over.wait(seconds / LOOKS):
        now = _signs(progress)
        if now != seen:
            seen, quiet, due = now, 0.0, seconds
            continue
        quiet += seconds / LOOKS  # counted, not timed: a stop of the process counts once
        if quiet >= due:
            due *= 2
            log.error("%s", report(progress, quiet))
        if end_after is not None and quiet >= end_after:
            log.error("no block was finished for %s seconds: the run ends here", f"{quiet:,.0f}")
            sys.stderr.flush()
            os._exit(ExitCode.INTERRUPTED)  # a hanging thread cannot be asked to stop


def _signs(progress: Progress) -> tuple[int, ...]:
    """Return numbers that change while a run is alive."""
    return progress.ahead, progress.scored, progress.pass_, progress.block


def report(progress: Progress, seconds: float) -> str:
    """Return the position of the run and the stacks of all threads but this one."""
    done = progress.block + progress.ahead
    lines = [
        f"no block was finished for {seconds:,.0f} seconds; {done} of {progress.blocks} "
        f"are done in pass {progress.pass_ + 1} of {progress.passes}: block {done} of "
        f"pass {progress.pass_} (both count from 0) is at work or waited for. Stacks of all "
        "threads, latest call last:"
    ]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        calls = [
            f"    {call.f_code.co_filename}:{line} {call.f_code.co_name}"
            for call, line in traceback.walk_stack(frame)
        ]
        lines += [f"  {names.get(ident, ident)}", *reversed(calls)]
    return "\n".join(lines)
