"""Trains on a block dataset larger than the memory it may have, pages of files included.

    python -m tests.support.larger_than_memory --gigabytes 12 --limit 1.2 --folder /var/tmp/larger

Writes a dense block dataset, uncompressed, into the folder, which must not exist and is removed in
the end. Then a child in a control group of its own (root, cgroup v1 or v2) trains a linear model on
it by AdaGrad and prints seconds and memory of every pass.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import blocklearn as bl
from blocklearn.datasources import BlockSource, BlockWriter

COLUMNS, BLOCK = 1000, 8192
GROUPS = Path("/sys/fs/cgroup")


class Report(bl.Hook):
    """Prints what a pass took. group: folder of the control group."""

    def __init__(self, group: Path) -> None:
        self._group, self._clock, self._busy = group, time.monotonic(), time.process_time()

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """A line."""
        now, busy = time.monotonic(), time.process_time()
        read = int(re.search(r"read_bytes: (\d+)", Path("/proc/self/io").read_text())[1])  # type: ignore[index]
        found = {
            "seconds": f"{now - self._clock:.1f}",
            "of processors": f"{busy - self._busy:.1f}",
            "rows": f"{progress.rows:,}",
            "read from disk so far": f"{read / 1e9:.2f} GB",
            "RssAnon": f"{status('RssAnon') >> 20} MB",
            "most of the group": f"{most(self._group) >> 20} MB",
        }
        print(", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
        self._clock, self._busy = now, busy


def status(name: str) -> int:
    """Bytes of a line of /proc/self/status."""
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]


def most(group: Path) -> int:
    """Bytes that all of it had at most, pages of files included."""
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        if (group / name).exists():
            return int((group / name).read_text())
    return 0


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """A group whose processes have `limit` bytes together."""
    old = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if old else GROUPS) / f"larger-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def write(folder: Path, nbytes: int) -> None:
    """Rows whose label is the side of a plane they are on."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((BLOCK, COLUMNS), dtype=np.float32)
    y = (X @ rng.standard_normal(COLUMNS, dtype=np.float32) > 0).astype(np.float32)[:, None]
    with BlockWriter([folder], block_rows=BLOCK, codec="raw") as writer:
        for number in range(-(-nbytes // X.nbytes)):
            X[number % BLOCK] *= -1  # no two blocks are the same
            y[number % BLOCK] = 1 - y[number % BLOCK]
            writer.append(dense=X, targets=y)
        writer.finish()


def train(folder: Path, group: Path, passes: int) -> None:
    """In the child. What the writer left of the files in memory would be no part of the group."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    source = BlockSource([folder])
    stored = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{source.shape.total_rows:,} rows, {stored / 1e9:.2f} GB on disk", flush=True)
    learner = bl.Learner(
        bl.models.GLM(),
        source,
        passes=passes,
        optimizer=bl.optimizers.AdaGrad(rate=0.1),
        threads=2,
        hooks=[Report(group)],
    )
    learner.fit()
    print({name: round(value, 4) for name, value in learner.progress.scores.items()})


def main() -> int:
    """The exit status of the training."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.larger_than_memory")
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--limit", type=float, default=1.2, help="gigabytes of memory")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.group is not None:
        train(given.folder, given.group, given.passes)
        return 0
    given.folder.mkdir(parents=True)
    try:
        begun = time.monotonic()
        write(given.folder / "data", int(given.gigabytes * 1e9))
        print(f"written in {time.monotonic() - begun:.0f} s", flush=True)
        with control_group(int(given.limit * 1e9)) as group:
            command = [
                sys.executable, "-m", "tests.support.larger_than_memory", "--folder",
                str(given.folder / "data"), "--group", str(group), "--passes", str(given.passes),
            ]  # fmt: skip
            return subprocess.run(command).returncode
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
