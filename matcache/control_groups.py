"""Control groups of Linux: where the limits of this process are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Folders that may hold limits of `controller` ("cpu", "memory"), from the process's own group
    to the outermost; of both versions of control groups, there or not.
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
