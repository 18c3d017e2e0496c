"""Measure the memory of this process, and how much more it may take."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from blocklearn.matcache.cpu.processors import ROOT, folders

PROC = Path("/proc")
FREE, GROUP = "free on this machine", "left in the control group"
ADDRESSES = "left of ulimit -v"  # the name of the limit that counts mapped files, too
FOR_THREADS = 64 << 20  # bytes of address space; a thread that gets none ends the process


def resident_bytes(proc: Path = PROC) -> int:
    """Return this process's bytes in memory; without /proc, the most so far."""
    try:
        return int((proc / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Traffic(NamedTuple):
    """What a process has moved between memory and disks since it began.

    read, written: bytes. waits: pages of mapped files that a thread waited for.
    """

    read: int
    written: int
    waits: int


def disk_traffic() -> Traffic | None:
    """Return what this process has read from disks and written to them; None: unknown.

    What memory answered is left out. Pages of mapped files count, also those asked for ahead.
    """
    try:
        lines = (PROC / "self/io").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split(": ") for line in lines)
    waits = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    return Traffic(int(counts["read_bytes"]), int(counts["write_bytes"]), waits)


def seconds_queued() -> float:
    """Return how long this thread has waited for a processor; 0 where that is unknown."""
    try:
        _, queued, _ = (PROC / "thread-self/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(queued) / 1e9


def memory_limits(proc: Path = PROC, root: Path = ROOT) -> dict[str, int]:
    """Return the bytes that this process may still take, by the limit that applies.

    Limits are the free memory of the machine, control groups, and the address space (`ulimit -v`),
    of which some is for the stacks of threads. Unknown limits are left out.

    root: of the control groups.
    """
    limits = {}
    if (free := _free(proc)) is not None:
        limits[FREE] = free
    if groups := list(_left_in_groups(root)):
        limits[GROUP] = min(groups)[0]
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        limits[ADDRESSES] = max(0, most - _address_space(proc) - FOR_THREADS)
    return limits


def shared_limits(proc: Path = PROC, root: Path = ROOT) -> dict[str, str]:
    """Return whose memory it is, for those of `memory_limits` that processes share.

    Processes to which a limit is of the same name here take from the same memory.
    """
    try:
        machine = (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return {}
    found = {FREE: machine}
    if groups := list(_left_in_groups(root)):
        found[GROUP] = f"{machine} {min(groups)[1]}"
    return found


def _free(proc: Path) -> int | None:
    """Return the bytes available without swapping, as the kernel estimates."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def _address_space(proc: Path) -> int:
    try:
        return int((proc / "self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _left_in_groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield the bytes left in each control group, and its number; cached files count as free."""
    for folder in folders("memory", root):
        for most, used, cached in [
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ]:
            try:
                limit = (folder / most).read_text().strip()
                taken = int((folder / used).read_text())
                stat = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
                number = folder.stat().st_ino
            except (OSError, ValueError):
                continue
            if limit.isdigit() and int(limit) < 2**62:  # version 1 writes more for "no limit"
                yield max(0, int(limit) - taken + int(stat.get(cached, 0))), number
