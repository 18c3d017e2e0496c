"""Trains models of very large tables under a limit of memory, pages of files included.

    python -m tests.support.large_tables --folder /var/tmp/tables

First a linear model of 20 million features, then a factorization machine, then an NMF with a state
of 10 million rows, then 200 topics of 2 million words, then 50 parts of as many words by NMF, then
64 centres of 4 million columns by k-means, then ALS of 20 million users and 2 million items;
factors, states, topics, parts and centres lie in files of the folder. Rows are drawn while they are
read. Last comes a linear model on a block dataset, dense and not compressed. Each model has a child
in a control group of its own (root, cgroup v1 or v2), which prints rows per second, memory, and
bytes read and written in every pass; of ALS, every so many seconds.

    python -m tests.support.large_tables --workers 2 --only factors --folder /var/tmp/tables

Workers of MPI, each in a control group with the limit, save a checkpoint after each pass. Worker 0
prints the lines, and what a checkpoint took.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import BlockShape, BlockSource, BlockWriter, IterableSource
from blocklearn.learner.command_line.launching import mpiexec
from blocklearn.learner.memory import disk_traffic
from scripts.benchmarks.memory_limit import control_group, forget, join, most

BLOCK, ENTRIES, WORDS = 4096, 20, 2000
TABLES = ("features", "factors", "rows", "words", "parts", "centres", "ratings", "blocks")
OF_WORKERS = ("features", "factors", "words", "parts", "centres")
FACTORS = 16  # of a factorization machine
EACH, RANK, RATINGS_BLOCK = 5, 32, 32_768  # ratings of a user; factors; rows of a block
DENSE, DENSE_BLOCK = 1000, 8192  # columns and rows of a stored block


class Report(bl.Hook):
    """Prints what a pass took. group: folder of the control group.

    every: seconds between further lines; 0: none. most: seconds after which training stops.
    """

    def __init__(self, group: Path, every: float = 0.0, most: float = 0.0) -> None:
        self._group, self._rows, self._every, self._most = group, 0, every, most
        self._begun = 0.0
        self._clock, self._busy = time.monotonic(), time.process_time()

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """A line now and then."""
        self._begun = self._begun or time.monotonic()
        if self._every and time.monotonic() >= self._clock + self._every:
            print(f"block {progress.block:,} of {progress.blocks:,}", end=", ")
            self.pass_end(learner, progress)
        late = 0 < self._most < time.monotonic() - self._begun
        progress.stop = progress.stop or late

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """A line."""
        rows = progress.rows - self._rows
        clock, busy = time.monotonic(), time.process_time()
        found = {
            "rows": f"{rows:,}",
            "rows/s": f"{rows / (clock - self._clock):,.0f}",
            "rows per second of processors": f"{rows / (busy - self._busy):,.0f}",
            "RssAnon": f"{rss_anon() >> 20} MB",
            "most resident": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB",
            "most of the group": f"{most(self._group) >> 20} MB",
        }
        if (disk := disk_traffic()) is not None:
            found |= {
                "read so far": f"{disk.read / 1e9:.2f} GB",
                "written": f"{disk.written / 1e9:.2f} GB",
                "pages waited for": f"{disk.waits:,}",
            }
        print(", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
        self._rows, self._clock, self._busy = progress.rows, clock, busy


def rss_anon() -> int:
    """Bytes of this process that are not pages of files."""
    return int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]


def batches(rows: int, columns: int, targets: int, block: int) -> Iterator[Any]:
    """Rows of ENTRIES ones in random columns; the same ones in every pass."""
    rng = np.random.default_rng(0)
    ones = np.ones(block * ENTRIES, np.float32)
    starts = np.arange(0, ones.size + 1, ENTRIES)
    labels = (np.arange(block) % 2).astype(np.float32)[:, None] if targets else None
    for start in range(0, rows, block):
        step = rng.integers(1, columns // ENTRIES, (block, ENTRIES), dtype=np.int32)
        indices = np.cumsum(step, axis=1, dtype=np.int32) - 1  # ascending, below `columns`
        X = sp.csr_array((ones, indices.ravel(), starts), shape=(block, columns))
        count = min(block, rows - start)
        yield (X[:count], labels[:count]) if labels is not None else X[:count]


def source(rows: int, columns: int, targets: int = 0, block: int = BLOCK) -> IterableSource:
    """These rows as blocks, of known sizes."""
    shape = BlockShape(
        rows=block, columns=columns, nnz=block * ENTRIES, total_rows=rows, targets=targets
    )
    return IterableSource(lambda pass_: batches(rows, columns, targets, block), shape)


class Ratings(IterableSource):
    """EACH ratings of every user, in both orientations: user u rates the items u k + c_j mod n."""

    STEP, FIRST = 7_368_787, (0, 11, 237, 5_003, 99_991)

    def __init__(self, users: int, items: int, rows: int, *, side: int = 0) -> None:
        """users: a multiple of items. rows: of a block. side: 1: rows are items."""
        assert users % items == 0
        self._users, self._items, self._side, self._rows = users, items, side, rows
        total, columns = (items, users) if side else (users, items)
        each = EACH * users // items if side else EACH
        shape = BlockShape(rows=rows, columns=columns, nnz=rows * each, total_rows=total)
        super().__init__(lambda pass_: self._blocks(total, columns, each), shape)

    def _blocks(self, rows: int, columns: int, each: int) -> Iterator[Any]:
        first = np.array(self.FIRST)
        for start in range(0, rows, self._rows):
            own = np.arange(start, min(start + self._rows, rows))[:, None]
            if self._side:
                least = (own - first) * pow(self.STEP, -1, self._items) % self._items
                rounds = np.arange(0, self._users, self._items)
                found = (least[:, :, None] + rounds).reshape(len(own), -1)
            else:
                found = (own * self.STEP + first) % self._items
            found.sort(axis=1)
            values = (1 + found * 7 % 5).astype(np.float32)
            starts = np.arange(0, found.size + 1, each)
            given = (values.ravel(), found.astype(np.int32).ravel(), starts)
            yield sp.csr_array(given, shape=(len(own), columns))

    def transposed(self) -> IterableSource:
        """The items, with their users."""
        return Ratings(self._users, self._items, self._rows, side=1 - self._side)


def write_dense(folder: Path, nbytes: int) -> None:
    """Rows whose label is the side of a plane they are on."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((DENSE_BLOCK, DENSE), dtype=np.float32)
    y = (X @ rng.standard_normal(DENSE, dtype=np.float32) > 0).astype(np.float32)[:, None]
    with BlockWriter([folder], block_rows=DENSE_BLOCK, codec="raw") as writer:
        for number in range(-(-nbytes // X.nbytes)):
            X[number % DENSE_BLOCK] *= -1  # no two blocks are the same
            y[number % DENSE_BLOCK] = 1 - y[number % DENSE_BLOCK]
            writer.append(dense=X, targets=y)
        writer.finish()


class Saving(bl.Checkpoints):
    """Saves after each pass, and prints how long it took, and how much of it was computing."""

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Save, and print a line."""
        clock, busy = time.monotonic(), time.process_time()
        super().pass_end(learner, progress)
        seconds, busy = time.monotonic() - clock, time.process_time() - busy
        print(f"a checkpoint takes {seconds:.1f} s, {busy:.2f} s of the processor", flush=True)


def train(
    table: str, size: int, folder: Path, group: Path, passes: int, seconds: float, workers: int
) -> None:
    """In the child. size: features, rows of an NMF's state, words, or 1e9 bytes of blocks."""
    if table == "blocks":
        write_dense(folder / "blocks", size * 10**9)
        forget(folder / "blocks")  # pages of the writer would be no part of the group
    join(group)
    options: dict[str, Any] = {"passes": passes, "threads": 2, "hooks": [Report(group)]}
    if workers > 1:
        hooks = [Report(group), Saving(folder / "saved")]
        options |= {"engine": "mpi", "workers": workers, "threads": 1, "hooks": hooks}
        if table in ("words", "parts", "centres"):
            options["sync_every"] = 1  # files then have the rows of one block
    wide = source(16_384, size, block=1024) if workers > 1 else source(40_960, size)
    if table in ("features", "factors"):
        model = bl.models.GLM() if table == "features" else bl.models.FM(factors=FACTORS)
        kept = folder if workers > 1 or table == "factors" else None
        step, data = bl.optimizers.AdaGrad(rate=0.1), source(200_000, size, targets=1)
        learner = bl.Learner(model, data, optimizer=step, table_folder=kept, **options)
    elif table == "blocks":
        step, data = bl.optimizers.AdaGrad(rate=0.1), BlockSource([folder / "blocks"])
        learner = bl.Learner(bl.models.GLM(), data, optimizer=step, **options)
    elif table == "ratings":
        options["hooks"] = [Report(group, every=10.0, most=seconds)]
        als = bl.models.ALS(rank=RANK)
        data = Ratings(size, size // 10, RATINGS_BLOCK)
        learner = bl.Learner(als, data, row_folder=folder, **options)
    elif table == "parts":
        nmf = bl.models.NMF(components=50, loss="kullback-leibler")
        learner = bl.Learner(nmf, wide, table_folder=folder, **options)
    elif table == "centres":
        kmeans = bl.models.KMeans(clusters=64)
        learner = bl.Learner(kmeans, wide, table_folder=folder, **options)
    elif table == "words":
        lda = bl.models.LDA(topics=200, inference="vb")
        learner = bl.Learner(lda, wide, table_folder=folder, **options)
    else:
        data = source(size, WORDS)
        learner = bl.Learner(bl.models.NMF(components=8), data, row_folder=folder, **options)
    print(f"{table}: {size:,}; planned {learner.plan().total >> 20} MB", flush=True)
    learner.fit().close()


def main() -> int:
    """The first exit status that is not 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.large_tables")
    parser.add_argument("--features", type=int, default=20_000_000)
    parser.add_argument("--factors", type=int, default=2_000_000, help="features with factors")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--parts", type=int, default=2_000_000, help="words of NMF")
    parser.add_argument("--centres", type=int, default=4_000_000, help="columns of k-means")
    parser.add_argument("--ratings", type=int, default=20_000_000, help="users")
    parser.add_argument("--blocks", type=int, default=12, help="gigabytes")
    parser.add_argument("--workers", type=int, default=1, help=f"of MPI, for {OF_WORKERS}")
    parser.add_argument("--only", choices=TABLES, action="append", help="[all]")
    parser.add_argument("--limit", type=float, default=0.8, help="gigabytes of memory")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=150.0, help="of ALS, at most")
    parser.add_argument("--folder", type=Path, required=True, help="new; removed in the end")
    parser.add_argument("--table", choices=TABLES, help=argparse.SUPPRESS)
    parser.add_argument("--group", type=Path, nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table is not None:
        train(
            given.table,
            getattr(given, given.table),
            given.folder,
            given.group[int(os.environ.get("PMI_RANK", 0))],
            given.passes,
            given.seconds,
            given.workers,
        )
        return 0
    given.folder.mkdir(parents=True)
    try:
        for table in given.only or (TABLES if given.workers == 1 else OF_WORKERS):
            with ExitStack() as stack:
                limited = [control_group(int(given.limit * 1e9), i) for i in range(given.workers)]
                groups = [str(stack.enter_context(group)) for group in limited]
                command = [
                    sys.executable, "-m", "tests.support.large_tables", *sys.argv[1:],
                    "--table", table, "--group", *groups,
                ]  # fmt: skip
                if given.workers > 1:
                    command = mpiexec(given.workers, command)
                found = subprocess.run(command).returncode
            if found:
                return found
        return 0
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
