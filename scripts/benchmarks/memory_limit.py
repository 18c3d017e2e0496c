"""Limit the memory of processes, pages of files included, and read files from the disk itself.

Control groups take the rights of root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")  # v1 or v2


@contextmanager
def control_group(limit: int, number: int = 0) -> Iterator[Path]:
    """Make a group whose processes have `limit` bytes together; its folder is that of `join`.

    number: tells the groups of a process apart.

    Raises OSError without the right to make one.
    """
    old = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if old else GROUPS) / f"limited-{os.getpid()}-{number}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def join(group: Path) -> None:
    """Make this process one of the group."""
    (group / "cgroup.procs").write_text(str(os.getpid()))


def most(group: Path) -> int:
    """Return the most bytes of all processes of the group; 0: unknown."""
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        if (group / name).exists():
            return int((group / name).read_text())
    return 0


def forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fdatasync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
