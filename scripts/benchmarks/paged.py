"""What does training cost when its tables lie in files, larger than memory?

    scripts/bench paged --limit 1.5 --folder /disk/tables --json paged.json

A linear model of 2^28 features and 4 targets, with AdaGrad: 8.6 GB of tables. "Files" trains in a
control group with a limit of memory, pages of files included (root; cgroup v1 or v2), "memory"
without a limit. Both read the same blocks of 39 features a row, and report their last pass. The
numbers of the features that occur follow a power law (exponent 1.1): "ordered" numbers common
features first, "hashed" scatters them over the table, and "uniform" draws every feature alike.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import xxhash

import blocklearn as bl
from blocklearn.datasources import BlockShape, IterableSource

from .machine import describe
from .memory_limit import control_group, forget, join, most
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
ENTRIES, TARGETS = 39, 4  # of a row, as in Criteo's logs
KINDS = ("ordered", "hashed", "uniform")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--bits", type=int, default=28, help="logarithm of the number of features")
    parser.add_argument("--blocks", type=int, default=100, help="of a pass")
    parser.add_argument("--rows", type=int, default=4096, help="of a block")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1.5, help="gigabytes of memory of `files`")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--folder", type=Path, help="for the files; default: where temporary are")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train in files and in memory, each in a process of its own."""
    if args.quick:
        args.bits, args.blocks, args.rows, args.passes, args.limit = 12, 2, 16, 1, 0.0
    size = 2**args.bits * TARGETS * 4 * 2
    folder = Path(tempfile.mkdtemp(prefix="paged-", dir=args.folder))
    free = shutil.disk_usage(folder).free
    if size > 0.9 * free:
        raise ValueError(f"{folder}: {size:,} bytes are needed, {free:,} are free; lower --bits")
    rows = args.rows * args.blocks
    data = {
        "name": "drawn features", "documents": rows, "words": 2**args.bits,
        "nnz": rows * ENTRIES, "tokens": rows * ENTRIES, "table_bytes": size,
    }  # fmt: skip
    report = Report("paged", "a pass", data, describe())
    try:
        report.data["disk_pages_per_second"] = disk_speed(folder, args.bits)
        for kind in args.kinds.split(","):
            for system in ("memory", "files"):
                found = _child(args, kind, system, folder)
                seconds = found.pop("seconds")
                settings = {"features": kind}
                report.rows.append(Row(system, bl.__version__, settings, seconds, found))
            memory, files = report.rows[-2:]
            if memory.quality["digest"] != files.quality["digest"]:
                raise ValueError(f"{kind}: files and memory learn different weights")
            share = round(memory.seconds / files.seconds, 3)
            report.ratios.append(Ratio(f"rows/s, {kind}", "files", "memory", share))
    finally:
        shutil.rmtree(folder)
    return report


def show(report: Report) -> str:
    """Return a table."""
    rows = report.data["documents"]
    lines = [
        [row.settings["features"], row.system, rows / row.seconds, row.quality["processor_seconds"],
         row.quality["read"] / 1e6, row.quality["written"] / 1e6, row.quality["peak"] / 1e6]
        for row in report.rows
    ]  # fmt: skip
    head = ["features", "tables in", "rows/s", "processor s", "MB read", "MB written", "MB at most"]
    return table(head, lines)


def disk_speed(folder: Path, bits: int, pages: int = 20_000) -> int:
    """Return the random pages per second that the disk gives if it is asked for many at once."""
    from blocklearn.learner.files.paging import PAGE, PagedArray

    file, size = folder / "speed", min(2**bits * 16, 2**29)
    with file.open("wb") as out:
        for _ in range(max(1, size // 2**22)):
            out.write(os.urandom(2**22))
    forget(folder)
    array = np.memmap(file, np.uint8, "r+", shape=(max(size, 2**22) // PAGE, PAGE))
    chosen = np.unique(np.random.default_rng(0).integers(0, len(array), pages))
    begun = time.perf_counter()
    PagedArray(array).fetch(chosen, 1)
    array[chosen, 0].sum()  # waits for them
    speed = len(chosen) / (time.perf_counter() - begun)
    file.unlink()
    return int(speed)


def _child(args: argparse.Namespace, kind: str, system: str, folder: Path) -> dict[str, Any]:
    given = {
        "bits": args.bits, "blocks": args.blocks, "rows": args.rows, "passes": args.passes,
        "kind": kind, "folder": str(folder) if system == "files" else None,
    }  # fmt: skip
    limited = system == "files" and args.limit > 0
    with control_group(int(args.limit * 1e9)) if limited else nullcontext() as group:
        given["group"] = None if group is None else str(group)
        command = [sys.executable, "-m", "scripts.benchmarks.paged", json.dumps(given)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(f"{kind}, {system}: ended with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- in the child --------------------------------------------------------------------------------


def columns_of(kind: str, bits: int, shape: tuple[int, int], seed: int) -> Any:
    """Return the columns of the entries of a block [rows x ENTRIES], some of them twice."""
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.integers(0, 2**bits, shape)
    # the inverse of the continuous distribution with density x^-1.1 from 1 to 2^bits
    power = 1.0 - 1.1
    least = 2.0 ** (bits * power)
    found = ((1.0 - rng.random(shape) * (1.0 - least)) ** (1.0 / power)).astype(np.int64) - 1
    found = np.minimum(found, 2**bits - 1)
    if kind == "ordered":
        return found
    return found * 0x9E3779B1 % 2**bits  # odd: each feature goes to a place of its own


def block_of(kind: str, bits: int, rows: int, number: int) -> tuple[Any, Any]:
    """Return a block of ones, and its labels."""
    columns = np.sort(columns_of(kind, bits, (rows, ENTRIES), number), axis=1)
    new = np.diff(columns, axis=1, prepend=-1) > 0
    starts = np.append(0, np.cumsum(new.sum(axis=1)))
    indices = columns[new].astype(np.int32)
    X = sp.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=(rows, 2**bits))
    Y = np.random.default_rng(number).random((rows, TARGETS)) < 0.25
    return X, Y.astype(np.float32)


class Watch(bl.Hook):
    """Notes clocks and the process's disk traffic at the start of the last pass, and its end."""

    def __init__(self) -> None:
        self.marks: list[dict[str, float]] = [now()]

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Note them."""
        self.marks.append(now())


def now() -> dict[str, float]:
    """Return clocks and bytes so far."""
    io = dict(re.findall(r"(\w+): (\d+)", Path("/proc/self/io").read_text()))
    return {
        "seconds": time.perf_counter(),
        "processor_seconds": time.process_time(),
        "read": int(io["read_bytes"]),
        "written": int(io["write_bytes"]),
    }


def child(given: dict[str, Any]) -> dict[str, Any]:
    """Train, and return the figures of the last pass."""
    bits, rows = given["bits"], given["rows"]
    group = None if given["group"] is None else Path(given["group"])
    if group is not None:
        join(group)
    blocks = [block_of(given["kind"], bits, rows, number) for number in range(given["blocks"])]
    shape = BlockShape(
        rows=rows, columns=2**bits, nnz=rows * ENTRIES, total_rows=rows * len(blocks),
        targets=TARGETS,
    )  # fmt: skip
    watch = Watch()
    learner = bl.Learner(
        bl.models.GLM(intercept=False),
        IterableSource(lambda pass_: iter(blocks), shape),
        optimizer=bl.optimizers.AdaGrad(rate=0.1),
        passes=given["passes"], threads=2, hooks=[watch], verbose=False,
        table_folder=given["folder"],
    ).fit()  # fmt: skip
    before, after = watch.marks[-2:]
    learned = learner.predict(blocks[0][0])
    figures: dict[str, Any] = {name: after[name] - before[name] for name in after}
    figures["digest"] = xxhash.xxh3_64_hexdigest(learned.tobytes())
    figures["peak"] = peak(group)
    return figures


def peak(group: Path | None) -> int:
    """Return the most bytes of the control group, or else of this process."""
    own = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return (group and most(group)) or (0 if own is None else int(own[1]) << 10)


if __name__ == "__main__":
    print(json.dumps(child(json.loads(sys.argv[1]))))
