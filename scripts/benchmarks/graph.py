"""How fast are pages ranked, components found, and triangles counted, beside SciPy?

    scripts/bench graph
    scripts/bench graph --what components
    scripts/bench graph --what triangles --scale 14 --edges 200000
    scripts/bench graph --data edges.npz
    scripts/bench graph --disk folder

Of ranks, each row is one power iteration: the median over passes of trainings in turns. SciPy's is
the plain one, with the rows in one part for each thread. Of components it is a whole training, all
passes included, beside `connected_components`. Of triangles it is a masked product, beside
`(A @ A).multiply(A)`, both of links that lead to the page with more of them, and a training of the
model, which counts them for each page. Without data the graph is RMAT (Chakrabarti, Zhan, Faloutsos
2004).

With --disk, ranks are also of a block dataset in that folder. Before each pass its files are
dropped from the page cache; "the disk" reads the same files and does nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.blocks import BlockSource, write_blocks
from blocklearn.models import PageRank

from .edges import read, rmat
from .graph_whole import System, Times, components, triangles
from .machine import describe
from .memory_limit import forget
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ("scipy",)
DAMPING, PIECE = 0.85, 2**23
WARM = 4  # the last pass that is not timed


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--what", choices=("ranks", "components", "triangles"), default="ranks")
    parser.add_argument("--data", type=Path, help=".npz with src, dst and n_nodes [RMAT]")
    parser.add_argument("--scale", type=int, default=20, help="RMAT: 2**scale pages")
    parser.add_argument("--edges", type=int, default=16_000_000, help="RMAT: before repeats merge")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=20, help="power iterations of a training")
    parser.add_argument("--rounds", type=int, default=3, help="trainings, in turns")
    parser.add_argument("--disk", type=Path, help="folder for blocks: measure out of memory, too")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Rank the pages by every system, in turns."""
    if args.quick:
        args.scale, args.edges, args.passes, args.rounds = 8, 2000, 2, 1
    links = rmat(args.scale, args.edges) if args.data is None else read(args.data)
    about = {"name": str(args.data or "RMAT"), "pages": links.shape[0], "links": links.nnz}
    timed = "a power iteration" if args.what == "ranks" else "all of the work"
    report = Report("graph", f"{timed}, on the clock", about, describe())
    systems = SYSTEMS[args.what](links, args)
    if "scipy" not in peers:
        systems = [system for system in systems if system[0] != "SciPy"]
    stored = None
    if args.disk is not None and args.what == "ranks":
        stored = written(links.T.tocsr(), args.disk, args.quick)
        systems.append(("blocklearn, blocks", bl.__version__, lambda: from_disk(stored, args)))
        systems.append(("the disk", "", lambda: ([only_read(stored)], None)))
    found: list[Times] = [[] for _ in systems]
    scores: list[Any] = [None] * len(systems)
    for _ in range(args.rounds):
        for n, (_, _, train) in enumerate(systems):
            times, scores[n] = train()
            found[n] += times
    for (name, version, _), times, ranks in zip(systems, found, scores, strict=True):
        seconds, processor = np.median(times, axis=0).tolist()
        quality = {"processor_seconds": processor, "fastest": min(times)[0], "l1_to_first": None}
        if ranks is not None:
            quality["l1_to_first"] = float(np.abs(ranks - scores[0]).sum())
        if stored is not None and name in ("blocklearn, blocks", "the disk"):
            quality["bytes"] = sum(file.stat().st_size for file in files(stored))
        report.rows.append(Row(name, version, {"threads": args.threads}, seconds, quality))
    return report


def ranks(links: Any, args: argparse.Namespace) -> list[System]:
    """Return the systems that rank pages."""
    turned, step = links.T.tocsr(), power_iteration(links, args.threads)
    return [
        ("blocklearn, rows are targets", bl.__version__, lambda: ours(turned, "targets", args)),
        ("blocklearn, rows are sources", bl.__version__, lambda: ours(links, "sources", args)),
        ("SciPy", scipy.__version__, lambda: iterated(step, links, args)),
    ]


SYSTEMS: dict[str, Callable[..., list[System]]]
SYSTEMS = {"ranks": ranks, "components": components, "triangles": triangles}


class Clock(bl.Hook):
    """Notes when passes end."""

    def __init__(self, between: Callable[[], None] | None = None) -> None:
        """between: called after each pass, outside the times."""
        self.times: Times = []
        self._between = between

    def pass_end(self, learner: Any, progress: Any) -> None:
        """Note the time since the pass before; the first passes compile."""
        if progress.pass_ > WARM:
            seconds, processor = self._begun
            self.times.append((time.perf_counter() - seconds, time.process_time() - processor))
        if self._between is not None:
            self._between()
        self._begun = time.perf_counter(), time.process_time()


def ours(data: Any, rows: Any, args: argparse.Namespace, clock: Clock | None = None) -> Any:
    """Return the times of our passes, and the scores."""
    clock = Clock() if clock is None else clock
    learner = bl.Learner(
        PageRank(rows=rows, damping=DAMPING, tolerance=0),
        data,
        passes=args.passes + WARM + 1,
        threads=args.threads,
        hooks=[clock],
        verbose=False,
    ).fit()
    scores = learner.parameter("scores")[:, 0]
    learner.close()
    return clock.times, scores


def power_iteration(links: Any, threads: int) -> Callable[[Any], Any]:
    """Return a step of power iteration with SciPy's products, in a part for each thread."""
    out, n = np.asarray(links.sum(axis=1)), links.shape[0]
    P = links.T.tocsr()
    P.data = (1.0 / np.maximum(out, 1.0)).astype(np.float32)[P.indices]
    without = np.flatnonzero(out == 0)
    cuts = np.searchsorted(P.indptr, np.linspace(0, P.nnz, threads + 1))
    cuts[0], cuts[-1] = 0, n
    parts = [P[cuts[i] : cuts[i + 1]] for i in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def step(x: Any) -> Any:
        anew = DAMPING * float(x[without].sum()) / n + (1.0 - DAMPING) / n
        y = np.concatenate(list(pool.map(lambda part: part @ x, parts)))
        y *= np.float32(DAMPING)
        y += np.float32(anew)
        return y

    return step


def iterated(step: Callable[[Any], Any], links: Any, args: argparse.Namespace) -> Any:
    """Return the times of SciPy's steps, and the scores."""
    x, times = np.full(links.shape[0], 1.0 / links.shape[0], np.float32), []
    for _ in range(args.passes + WARM):
        seconds, processor = time.perf_counter(), time.process_time()
        x = step(x)
        times.append((time.perf_counter() - seconds, time.process_time() - processor))
    return times[WARM:], x


# ---------------------------------------------------------------- out of memory


def written(turned: Any, folder: Path, quick: bool) -> Path:
    """Return the folder of the blocks of a graph, written if it does not exist."""
    name = f"{turned.shape[0]}-{turned.nnz}"
    if not (folder / name).exists():
        source = MatrixSource(turned, block_rows=100 if quick else 2**17)
        write_blocks(source, [folder / name], codec="raw")
    return folder / name


def from_disk(folder: Path, args: argparse.Namespace) -> Any:
    """Return the times of passes over blocks that are not in the page cache, and the scores."""
    forget(folder)
    return ours(BlockSource([folder]), "targets", args, Clock(lambda: forget(folder)))


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of a dataset."""
    yield from (file for file in sorted(folder.rglob("*")) if file.is_file())


def only_read(folder: Path) -> tuple[float, float]:
    """Return the times of reading the files, dropped from the page cache before."""
    forget(folder)
    seconds, processor, room = time.perf_counter(), time.process_time(), bytearray(PIECE)
    for file in files(folder):
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(room):
                pass
    return time.perf_counter() - seconds, time.process_time() - processor


def show(report: Report) -> str:
    """Return a table."""
    links = report.data["links"]
    lines = [
        [
            row.system,
            1e3 * row.seconds,
            1e3 * row.quality["fastest"],
            1e3 * row.quality["processor_seconds"],
            links / row.seconds / 1e6,
            row.quality["bytes"] / row.seconds / 1e6 if "bytes" in row.quality else None,
        ]
        for row in report.rows
    ]
    head = ["", "ms", "fastest", "processor ms", "M links/s", "MB/s read"]
    return table(head, lines)
