"""How fast is logistic regression, of one target or of hundreds, at the AUC of other packages?

    scripts/bench glm --data docword.npz --target y.npy
    scripts/bench glm --data X.npz --target Y.npz

AMD EPYC 2.6 GHz (AVX-512), 2 threads, 2026-11-21; AUC of a tenth held out; the package's defaults
against L2 1e-5 of the peers.

                                              seconds      AUC    ours gets there in    ratio
    380 tags of 27,270 package descriptions (0.93 M non-zeros), macro AUC
    scikit-learn SGD, one-vs-rest, 3 passes      3.09    .9658               0.177 s       17
    liblinear, converged (10 of the 380)        28.87    .9762               0.239 s      121
    300 targets over 1, 5 passes, in turns: 4.7 times the wall seconds, 6.3 times the processor
    seconds; the medians of seven runs of this benchmark were 4.1 to 5.3 and 5.7 to 7.3

One target, rows stepping one by one, against scikit-learn's SGD after 3 passes; a quiet machine,
medians of nine runs, and in brackets four runs while others used 20 to 95 % of the machine:

                                                        times as fast, by
                                              AUC   processor seconds    wall seconds
    34,886 abstracts (2.65 M non-zeros)     .8376    3.5 (2.3 to 3.1)      3.9 (1.7 to 3.9)
    57,299 descriptions (1.84 M)            .9398    1.4 (1.4 to 1.8)      2.0 (1.0 to 1.8)

5 ms pass before the first block and 3 ms more in it than in others, which take 0.5 ms (4096 rows).
Fresh memory had made ours, but not SGD, half as fast for minutes: where a host lends memory to
virtual machines, the first touch may take 2 ms for each MB. Rows are now kept for later passes only
if their transposed index is read.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from blocklearn.models import GLM
from blocklearn.models.glm.scoring.areas import area

from .data import load
from .glm_systems import PEERS, Job, sample
from .machine import describe, limits
from .report import Ratio, Report, Row, mib, others, reached, table
from .system import reported, run_jobs, save

PEER_NAMES = tuple(PEERS)
TO_FINAL = "seconds to the peer's final AUC"
MANY = 300
OURS = "blocklearn"
ROWS, ROWS_OF_STEPS = 1024, 4096
REPEATS, REPEATS_OF_ONE, TURNS = 3, 9, 9


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, rows x features; whole numbers "
                        "are taken for counts and become (1 + log tf) idf, rows of length 1; "
                        "default: the docstrings of Python's standard library")  # fmt: skip
    parser.add_argument("--target", type=Path, help=".npy or .npz of 0 and 1, rows x targets; "
                        "default: --made targets")  # fmt: skip
    parser.add_argument("--made", type=int, default=20, metavar="T", help="targets to make up: the "
                        "rows above the 90th percentile of random linear scores")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--block-rows", type=int, help="of ours; default: "
                        f"{ROWS_OF_STEPS} for one target, whose rows step one by one, so that "
                        f"blocks only carry them, else {ROWS}")  # fmt: skip
    parser.add_argument("--passes", type=int, default=5, help="of ours")
    parser.add_argument("--alpha", type=float, default=1e-5, help="L2 weight of the peers")
    parser.add_argument("--repeats", type=int, help="runs of each; the median counts; default: "
                        f"{REPEATS_OF_ONE} for one target, which takes little time, and for "
                        f"{MANY} beside one, else {REPEATS}")  # fmt: skip
    parser.add_argument(
        "--recipe",
        type=json.loads,
        default={},
        metavar="JSON",
        help='of ours, {"optimizer": {...}, "model": {...}}; default: the package\'s',
    )


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Run every system in turn, then find the AUC of all kept weights."""
    if args.quick:
        args.block_rows, args.passes, args.repeats = 64, 2, 1
        args.made = min(args.made, 3)
    X, name = load(args.data, 400 if args.quick else 0)
    counts = X
    X = features(X)
    Y, target = labels(args.target, X, args.made)
    one = Y.shape[1] == 1
    args.block_rows = args.block_rows or (ROWS_OF_STEPS if one else ROWS)
    order = np.random.RandomState(0).permutation(X.shape[0])
    held = max(1, round(X.shape[0] * 0.1))
    test, train = np.sort(order[:held]), np.sort(order[held:])
    scored = Scored(X[test], Y[test])
    report = Report(
        "glm",
        "training alone, from data in memory to weights; ours from after the kernels are compiled",
        {
            "name": name, "target": target, "documents": X.shape[0], "words": X.shape[1],
            "nnz": int(X.nnz), "tokens": float(counts.sum()), "train_rows": len(train),
            "train_nnz": int(X[train].nnz), "targets": Y.shape[1],
            "targets_scored": int(scored.usable.sum()), "positives": round(float(Y.mean()), 5),
        },
        describe() | limits(quick=args.quick),
    )  # fmt: skip
    for together in jobs(args, peers, Y.shape[1]):
        names = ", ".join(system.name for system in together)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, reported(report, names):
            for system, job, memory in measure(folder, together, args, X[train], Y[train]):
                row = Row(system.name, job.version, job.settings, 0.0, {}, memory, job.curve)
                only = sample(Y.shape[1]) if system.name == "liblinear" else None
                for mark, point in enumerate(row.curve):
                    kept = job.kept(mark)
                    point |= scored.figures(kept["W"], kept["b"], system.columns, only)
                finish(row, report.machine)
                report.rows.append(row)
    report.ratios = ratios(report.rows)
    return report


def features(X: Any) -> Any:
    """Return X, or for counts (1 + log tf) * idf with rows of length 1.

    idf is log(rows / document frequency).

    >>> features(sp.csr_matrix(np.float32([[1, 0], [1, 1]]))).toarray().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    if (X.data != np.rint(X.data)).any():
        return X
    idf = np.log(X.shape[0] / np.maximum(np.bincount(X.indices, minlength=X.shape[1]), 1))
    weighted = sp.csr_matrix(
        ((1 + np.log(X.data.astype(np.float64))) * idf[X.indices], X.indices, X.indptr), X.shape
    )
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    scaled = sp.csr_matrix(sp.diags(1 / np.maximum(length, 1e-30)) @ weighted, dtype=np.float32)
    scaled.sort_indices()
    return scaled


def labels(path: Path | None, X: Any, made: int) -> tuple[Any, str]:
    """Return Y [rows x targets], CSC of 0 and 1, and its name."""
    if path is None:
        W = np.random.default_rng(0).standard_normal((X.shape[1], made)).astype(np.float32)
        scores = X @ W
        return sp.csc_matrix(scores > np.quantile(scores, 0.9, axis=0), dtype=np.int8), "made"
    Y = sp.load_npz(path) if path.suffix == ".npz" else np.load(path)
    if not sp.issparse(Y):
        Y = np.atleast_2d(Y.T).T
    Y = sp.csc_matrix(Y > 0, dtype=np.int8)
    if Y.shape[0] != X.shape[0]:
        raise ValueError(f"--target {path}: {Y.shape[0]} rows, but the data have {X.shape[0]}.")
    return Y, str(path)


class System(NamedTuple):
    """A system to run, and how often."""

    name: str
    columns: list[int]  # of Y
    marks: list[float]  # checkpoints
    recipe: dict[str, Any]
    repeats: int


def jobs(args: argparse.Namespace, peers: list[str], targets: int) -> list[list[System]]:
    """Return all systems; those in one list run in turns."""
    every = list(range(targets))
    marks = [n / 4 for n in range(1, 9)] + [float(n) for n in range(3, args.passes + 1)]
    marks = [m for m in marks if m <= args.passes]
    repeats = args.repeats or (REPEATS_OF_ONE if targets == 1 else REPEATS)
    found = [[System(OURS, every, marks, args.recipe, repeats)]]
    if targets > 1:
        many = every[: min(MANY, targets)]
        last, turns = [float(args.passes)], args.repeats or TURNS
        # the same steps for both: by block, not by rows as the default for one target
        same = {"optimizer": GLM().default_optimizer().model_dump()} | args.recipe
        found.append(
            [
                System(f"{OURS} 1 target", every[:1], last, same, turns),
                System(f"{OURS} {len(many)} targets", many, last, same, turns),
            ]
        )
    for name in peers:
        if not (PEERS[name].single and targets > 1):
            marks = [float(m) for m in PEERS[name].checkpoints]
            once = name == "liblinear"
            found.append([System(name, every, marks, {}, 1 if once else repeats)])
    return found


class Scored:
    """Held-out rows, which score weights by their AUC."""

    def __init__(self, X: Any, Y: Any) -> None:
        self.X, self.Y = X, Y.toarray()
        positives = self.Y.sum(axis=0)
        self.usable = (positives > 0) & (positives < len(self.Y))

    def figures(self, W: Any, b: Any, columns: list[int], only: list[int] | None) -> dict[str, Any]:
        """Return the mean AUC over the targets with both classes.

        `sample_auc` is the mean over the targets of `sample`.
        """
        scores, ones = self.X @ W + b, np.ones(len(self.Y))
        every: dict[int, float] = {
            column: area(scores[:, at], self.Y[:, column], ones)
            for at, column in enumerate(columns)
            if self.usable[column] and (only is None or column in only)
        }
        chosen = [every[t] for t in sample(self.Y.shape[1]) if t in every]
        return {
            "auc": None if only is not None and len(only) < len(columns) else mean(every.values()),
            "sample_auc": mean(chosen),
        }


def mean(numbers: Any) -> float | None:
    """Return the rounded mean; None if there are no numbers."""
    found = list(numbers)
    return round(float(np.mean(found)), 5) if found else None


def measure(
    folder: str, systems: list[System], args: argparse.Namespace, X: Any, Y: Any
) -> Iterator[tuple[System, Job, int | None]]:
    """Run systems in turns in a process of their own.

    Yield each with its job, whose curve is that of the run with the median time, and the memory of
    them all.
    """
    shared, asked = save(folder, X=X), []
    for number, system in enumerate(systems):
        own = Path(folder) / str(number)
        own.mkdir()
        targets = sp.csr_matrix(Y[:, system.columns], dtype=np.float32)
        asked.append(
            Job(
                system=system.name if system.name in PEERS else OURS, folder=str(own),
                data=[*shared, *save(own, Y=targets)], threads=args.threads,
                checkpoints=system.marks, repeats=system.repeats, recipe=system.recipe,
                block_rows=args.block_rows, alpha=args.alpha,
            )
        )  # fmt: skip
    more = {} if args.quick else {"BLOCKLEARN_CACHE": str(Path(folder) / "kernels")}
    memory, done = run_jobs(folder, asked, args.threads, more)
    for system, job in zip(systems, done, strict=True):
        job.curve = sorted(job.runs, key=lambda curve: curve[-1]["seconds"])[len(job.runs) // 2]
        for name in ("seconds", "own_cpu_seconds"):
            job.settings[f"{name}_of_runs"] = [curve[-1][name] for curve in job.runs]
        yield system, job, memory


def finish(row: Row, machine: dict[str, Any]) -> None:
    """Fill in figures that follow from the curve."""
    last = row.curve[-1]
    row.seconds = last["seconds"]
    names = ("auc", "sample_auc", "passes", "own_cpu_seconds", "others_cpu_seconds")
    row.quality = {name: last[name] for name in names}
    if "gb_per_s" in row.settings:
        share = row.settings["gb_per_s"] / machine["copy_gb_per_s"]
        row.quality["share_of_copy_bandwidth"] = round(share, 5)


def ratios(rows: list[Row]) -> list[Ratio]:
    """Return, for each peer, its seconds to its final AUC / ours; and many targets over one.

    Our time is that of the first checkpoint at or above the AUC; nothing is interpolated. The time
    of many targets over that of one is the median of runs in turns.
    """
    found = []
    ours = next((row for row in rows if row.system == OURS), None)
    for peer in (row for row in rows if row.system in PEERS and ours is not None):
        assert ours is not None
        for point in peer.curve:
            figure = "auc" if point["auc"] is not None else "sample_auc"
            target = point[figure]
            label = f"{point['passes']:g} passes" if point["passes"] else "converged"
            seconds = point["seconds"]
            value, where = reached(ours.curve, figure, target, seconds, lower=False)
            note = f"{peer.system}, {label}: {target:.4f} after {seconds:.3f} s; ours: {where}"
            note += "" if figure == "auc" else " (targets that it was run on)"
            value = value and round(value, 2)
            found.append(Ratio(TO_FINAL, f"{peer.system}, {label}", OURS, value, note))
    one = next((row for row in rows if row.system == f"{OURS} 1 target"), None)
    many = next((r for r in rows if r.system.endswith(" targets")), None)
    if one is not None and many is not None:
        count = many.system.split()[1]
        for what, name in [("", "seconds"), (" (processor seconds)", "own_cpu_seconds")]:
            pairs = zip(*(row.settings[f"{name}_of_runs"] for row in (many, one)), strict=True)
            times = [round(a / max(b, 1e-9), 2) for a, b in pairs]
            last = [row.curve[-1][name] for row in (many, one)]
            note = f"in turns: {', '.join(map(str, times))}; {last[0]:.3f} s, {last[1]:.3f} s"
            value = round(median(times), 2)
            found.append(Ratio(f"{count}_targets_over_1{what}", OURS, OURS, value, note))
    return found


def show(report: Report) -> str:
    """Return tables of all systems and of the ratios."""
    cores = report.machine["cores"]
    head = ["system", "passes", "seconds", "cpu s", "AUC", "sample AUC", "MiB", "others %"]
    lines = []
    for row in report.rows:
        for point in row.curve:
            last = point is row.curve[-1]
            passes = f"{point['passes']:g}" if point["passes"] else "converged"
            lines.append(
                [
                    row.system, passes, point["seconds"], point["own_cpu_seconds"],
                    shown(point["auc"]), shown(point["sample_auc"]),
                    mib(row.memory) if last else None, others(point, cores),
                ]
            )  # fmt: skip
    parts = [table(head, lines)]
    for row in report.rows:
        if "gflops" in row.settings:
            s = row.settings
            parts.append(
                f"{row.system}: {s['gflops']} gflops, {s['gb_per_s']} GB/s, "
                f"{100 * row.quality['share_of_copy_bandwidth']:.0f} % of what one core copies; "
                f"kernels compiled in {s['compile_seconds']} s"
            )
    if report.ratios:
        rows = [[r.name, r.of, r.value, r.note] for r in report.ratios]
        parts.append("\n" + table(["ratio", "of", "times", "how"], rows))
    data = report.data
    parts.append(
        f"\n{data['name']}: {data['train_rows']:,} training rows, {data['words']:,} features, "
        f"{data['train_nnz']:,} non-zeros; {data['targets']:,} targets, {data['targets_scored']:,} "
        f"scored on the rows held out"
    )
    return "\n".join(parts)


def shown(auc: float | None) -> str | None:
    """Return an AUC with four digits."""
    return None if auc is None else f"{auc:.4f}"
