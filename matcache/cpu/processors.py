"""Count the processors that this process may use, control groups included."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield folders that may hold limits of `controller` ("cpu", "memory").

    root: of control groups.

    They lead from the process's own group to the outermost, for both versions of control groups.
    They need not exist.
    """
    yield from (root, root / controller)
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        group = Path(path.lstrip("/"))
        yield from (base / part for part in (group, *group.parents))


VARIABLES = ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK")


def available_threads(environ: Mapping[str, str] = os.environ, root: Path = ROOT) -> int:
    """Return the least of `thread_limits`, at least 1."""
    return max(1, min(thread_limits(environ, root).values()))


def thread_limits(environ: Mapping[str, str] = os.environ, root: Path = ROOT) -> dict[str, int]:
    """Return limits on the number of threads, by name.

    environ: environment variables.
    root: of control groups.

    The limits are the processors that the scheduler allows, the quota of the control group (rounded
    up), SLURM_CPUS_PER_TASK and OMP_NUM_THREADS, if they are set. A process reads its quota once.
    """
    limits = {"processors": _allowed()}
    if (quota := _quota(root)) is not None:
        limits["control group"] = quota
    for name in VARIABLES:
        first = environ.get(name, "").split(",")[0].strip()  # OMP_NUM_THREADS may be a list
        if first.isdigit() and int(first) > 0:
            limits[name] = int(first)
    return limits


def _allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _quota(root: Path) -> int | None:
    """Return the least quota, None if there is none; a millisecond to read, as long as a fit."""
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[int]:
    """Yield processor quotas of this process's control group and its parents."""
    for folder in folders("cpu", root):
        try:  # version 2: "max 100000" or "150000 100000"
            quota, period = (folder / "cpu.max").read_text().split()
        except (OSError, ValueError):
            try:
                quota = (folder / "cpu.cfs_quota_us").read_text().strip()
                period = (folder / "cpu.cfs_period_us").read_text().strip()
            except OSError:
                continue
        if quota.isdigit() and period.isdigit() and int(period):
            yield math.ceil(int(quota) / int(period))
