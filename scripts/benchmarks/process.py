"""Run a system in a process of its own, watch its memory, read its clocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
INTERVAL = 0.1  # seconds between two looks at a process's memory
_TICK = os.sysconf("SC_CLK_TCK")


class SystemFailed(Exception):
    """A system's process failed; the message is the end of its output."""


def run_process(
    module: str,
    argument: Path,
    log: Path,
    *,
    blas_threads: int,
    more: Mapping[str, str] | None = None,
) -> int | None:
    """Run `python -m module argument` alone; return its peak memory in bytes, with children.

    The peak is that of the summed resident sizes, sampled every 0.1 s; None on systems without
    /proc.

    log: file for its output.
    more: further environment variables.

    Raises:
        SystemFailed: the process ended with an error.
    """
    environment = os.environ | {
        name: str(blas_threads)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    }
    environment |= more or {}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    peak = 0
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(argument)],
            stdout=file, stderr=file, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                peak = max(peak, sum(resident(pid) for pid in tree(process.pid)))
                time.sleep(INTERVAL)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise SystemFailed("\n".join(lines[-8:]) or f"exit code {process.returncode}")
    return peak or None


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants, on Linux; elsewhere the process alone."""
    found, at = [pid], 0
    while at < len(found):
        for children in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue  # the process has ended
        at += 1
    return found


def resident(pid: int) -> int:
    """Return the bytes of a process in memory; 0 if it is gone or the size is unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Clock:
    """Wall and processor seconds of training, and processor seconds of all other processes.

    Use it as a context manager; entering it again resumes.
    """

    def __init__(self) -> None:
        self.wall = self.own = self.busy = 0.0
        self._start = (0.0, 0.0, 0.0)

    def __enter__(self) -> Clock:
        self._start = (own_seconds(), busy_seconds(), time.perf_counter())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        own, busy, wall = self._start
        self.wall += time.perf_counter() - wall
        self.busy += busy_seconds() - busy
        self.own += own_seconds() - own

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock within a with-statement."""
        self.__exit__(None, None, None)
        yield
        self.__enter__()

    def figures(self) -> dict[str, Any]:
        """Return the seconds so far."""
        return {
            "seconds": round(self.wall, 4),
            "own_cpu_seconds": round(self.own, 2),
            "others_cpu_seconds": round(max(0.0, self.busy - self.own), 2),
        }


def own_seconds() -> float:
    """Return processor seconds of this process and all its children, living and ended."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    for pid in tree(os.getpid())[1:]:
        try:
            # after the name, which may contain blanks: utime, stime, cutime, cstime
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / _TICK
        except (OSError, ValueError):
            continue
    return total


def busy_seconds() -> float:
    """Return processor seconds of the machine since its start; 0 if not on Linux."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:
        return 0.0
    return sum(int(fields[n]) for n in (0, 1, 2, 5, 6, 7)) / _TICK
