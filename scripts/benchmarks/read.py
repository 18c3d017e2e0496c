"""How fast do blocks come from disk, and is training from there as fast as from memory?

scripts/bench read --folders /disk0/bench /disk1/bench
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.datasources import BlockSource, MatrixSource, write_blocks
from blocklearn.models import LDA

from .data import facts, load, power_law
from .machine import describe
from .read_ways import CODECS, Files, ways
from .report import Ratio, Report, Row, table
from .turns import seconds_of, times_in_turns

PEER_NAMES: tuple[str, ...] = ()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "random documents by Zipf's law")  # fmt: skip
    parser.add_argument("--documents", type=int, default=400_000, help="of random ones")
    parser.add_argument("--block-rows", type=int, default=25_000)
    parser.add_argument(
        "--folders",
        type=Path,
        nargs="+",
        help="where to put files, which stay; default: a temporary folder",
    )
    parser.add_argument("--rounds", type=int, default=9, help="the median counts")
    parser.add_argument("--topics", type=int, default=100, help="of the LDA")
    parser.add_argument("--passes", type=int, default=3, help="of the LDA")
    parser.add_argument("--lda-documents", type=int, default=40_000)
    parser.add_argument("--lda-block-rows", type=int, default=1024)


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Write, read in turns, train in turns."""
    if args.quick:
        args.documents, args.block_rows, args.rounds = 400, 64, 2
        args.topics, args.passes, args.lda_documents, args.lda_block_rows = 4, 1, 200, 64
    if args.data is None:
        X, name = power_law(args.documents, 14_391), "power law"
    else:
        X, name = load(args.data)
    report = Report("read", "one pass", facts(X, name), describe())
    with tempfile.TemporaryDirectory() as folder:
        folders = args.folders or [Path(folder)]
        read(report, X, args, folders)
        train(report, X[: args.lda_documents], args, [f / "lda" for f in folders])
    report.machine["load_after"] = describe()["load_before"]
    return report


def read(report: Report, X: Any, args: argparse.Namespace, folders: list[Path]) -> None:
    """Add GB/s of every way, and ratios to `readinto` with as many readers."""
    starts = [*X.indptr[:: args.block_rows].tolist(), X.nnz]
    most = int(np.diff(starts).max())
    decoded = 8 * X.nnz + 16 * X.shape[0]  # indices, values, two offsets, the number of the row
    calls = ways(Files(X, args.block_rows, folders), most, 8 * most + 20 * args.block_rows)
    times = in_turns(calls, args.rounds)
    for (system, readers, indexed), seconds in times.items():
        settings = {"readers": readers, "transposed": indexed, "decoded_bytes": decoded}
        rate = round(decoded / median(seconds) / 1e9, 3)
        report.rows.append(
            Row(system, bl.__version__, settings, median(seconds), {"gb_per_s": rate})
        )
        if system != "readinto" and not indexed:
            pairs = zip(times["readinto", readers, False], seconds, strict=True)
            ratio = round(median(limit / own for limit, own in pairs), 3)
            plural = "s" if readers > 1 else ""
            report.ratios.append(
                Ratio(ratio_name(system), system, "readinto", ratio, f"{readers} reader{plural}")
            )


def ratio_name(system: str) -> str:
    """Return the name of a ratio of rates.

    >>> ratio_name("blocks raw"), ratio_name("pyarrow lz4")
    ('raw_over_readinto', 'pyarrow_lz4_over_readinto')
    """
    return system.removeprefix("blocks ").replace(",", "").replace(" ", "_") + "_over_readinto"


def train(report: Report, X: Any, args: argparse.Namespace, folders: list[Path]) -> None:
    """Add seconds of LDA from blocks on disk and from memory."""
    memory = MatrixSource(X, block_rows=args.lda_block_rows)
    calls: dict[str, Callable[[], None]] = {}
    sources: dict[str, Any] = {"LDA from memory": memory}
    for codec in CODECS:
        paths = [folder / f"{codec}-{i}" for folder in folders for i in range(2)]
        write_blocks(memory, paths, codec=codec, overwrite=True)
        sources[f"LDA from blocks, {codec}"] = BlockSource(paths)
    for name, source in sources.items():
        calls[name] = lambda source=source: fit(source, args)  # type: ignore[misc]
    times = in_turns(calls, args.rounds)
    settings = {"topics": args.topics, "passes": args.passes, "block_rows": args.lda_block_rows}
    for name, seconds in times.items():
        rows = X.shape[0] * args.passes
        quality = {"rows_per_s": round(rows / median(seconds))}
        report.rows.append(Row(name, bl.__version__, settings, median(seconds), quality))
        if name != "LDA from memory":
            pairs = zip(seconds, times["LDA from memory"], strict=True)
            ratio = round(median(own / least for own, least in pairs), 3)
            report.ratios.append(Ratio("blocks_over_memory", name, "LDA from memory", ratio))


def fit(source: Any, args: argparse.Namespace) -> None:
    """Train from scratch."""
    learner = bl.Learner(LDA(topics=args.topics), train=source, passes=args.passes)
    learner.fit()
    learner.close()


def in_turns(calls: dict[Any, Callable[[], None]], rounds: int) -> dict[Any, list[float]]:
    """Return the seconds of every call in each round."""
    for call in calls.values():  # compile, and read files for the first time
        call()
    return times_in_turns({name: partial(seconds_of, call) for name, call in calls.items()}, rounds)


def show(report: Report) -> str:
    """Return a table of rates and one of training."""
    ratio = {(r.of, r.note): r.value for r in report.ratios}
    rates = []
    for row in report.rows:
        if "gb_per_s" in row.quality:
            readers = row.settings["readers"]
            note = f"{readers} reader{'s' if readers > 1 else ''}"
            value = None if row.settings["transposed"] else ratio.get((row.system, note))
            index = "yes" if row.settings["transposed"] else "no"
            rates.append([row.system, readers, index, row.quality["gb_per_s"], value])
    trained = [
        [row.system, row.seconds, row.quality["rows_per_s"], ratio.get((row.system, ""))]
        for row in report.rows
        if "rows_per_s" in row.quality
    ]
    head = ["system", "readers", "transposed", "GB/s decoded", "/ readinto"]
    return (
        f"{table(head, rates)}\n\n"
        f"{table(['system', 's', 'rows/s', '/ memory'], trained)}\n\n"
        f"load {report.machine['load_before']}"
    )
