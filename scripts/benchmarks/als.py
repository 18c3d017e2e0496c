"""How fast does ALS get to the held-out error of other packages?

scripts/bench als --data ratings.npz --rank 20,100
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from .als_data import Ratings, load, objective
from .als_systems import PEERS, RECIPES, Job
from .data import facts
from .machine import describe
from .report import Ratio, Report, Row, mib, others, reached, table
from .system import reported, run_jobs, save

PEER_NAMES = tuple(PEERS)
TO_BEST = "seconds to the peer's best"
Rounds = dict[str, list[Row]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz with arrays user, item, rating; default: "
                        "made ratings of rank 8")  # fmt: skip
    parser.add_argument("--rank", type=ranks, default=[20, 100], metavar="K,K")
    parser.add_argument("--reg", type=float, default=0.02, help="of factors, times the number of a "
                        "row's ratings")  # fmt: skip
    parser.add_argument("--loss", choices=["explicit", "implicit", "both"], default="both",
                        help="of ratings, of counts, or both in turn")  # fmt: skip
    parser.add_argument("--alpha", type=float, default=1.0, help="of the implicit loss")
    parser.add_argument("--implicit-reg", type=float, default=1.0, help="of the implicit loss, for "
                        "each row the same")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=15, help="of ours")
    parser.add_argument("--rounds", type=int, default=3, help="all systems run so often, in turns; "
                        "medians count")  # fmt: skip
    parser.add_argument("--ours", default="cg,cg without biases", metavar="a,b",
                        help=f"of: {', '.join(RECIPES)}")  # fmt: skip


def ranks(text: str) -> list[int]:
    """Return numbers from a text that separates them by commas.

    >>> ranks("20,100")
    [20, 100]
    """
    return [int(part) for part in text.split(",") if part]


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Run all systems in turns for every rank and loss."""
    if args.quick:
        args.rank, args.passes, args.rounds = args.rank[:1], 2, 1
    if unknown := set(args.ours.split(",")) - set(RECIPES):
        raise ValueError(f"--ours {args.ours}: no {min(unknown)}; there are {', '.join(RECIPES)}.")
    ratings = load(args.data, 900 if args.quick else 0)
    X = ratings.train
    report = Report(
        "als",
        "training alone, from a matrix in memory to factors, transposing it included; ours from "
        "after the kernels are compiled",
        facts(X, ratings.name)
        | {"users": X.shape[0], "items": X.shape[1], "held_out": len(ratings.users)},
        describe(),
    )
    losses = ["explicit", "implicit"] if args.loss == "both" else [args.loss]
    with tempfile.TemporaryDirectory(prefix="bench-kernels-") as kernels:
        measure = Measure(args, ratings, report, Path(kernels))
        for rank in args.rank:
            for loss in losses:
                rounds = measure.in_turns(rank, loss, peers)
                report.rows += [middle(rows) for rows in rounds.values()]
                report.ratios += ratios(rounds, rank, loss)
    report.machine["load_after"] = describe()["load_before"]
    return report


class Measure:
    """Runs systems in processes of their own and scores their factors."""

    def __init__(
        self, args: argparse.Namespace, ratings: Ratings, report: Report, kernels: Path
    ) -> None:
        """Prepare to measure.

        kernels: folder of our compiled kernels, shared by all rounds.
        """
        self.args, self.ratings, self.report, self.kernels = args, ratings, report, kernels

    def in_turns(self, rank: int, loss: str, peers: list[str]) -> Rounds:
        """Return the rows of all rounds, by system; every other round reverses the order."""
        args, found = self.args, dict[str, list[Row]]()
        marks = list(range(1, args.passes + 1))
        systems: dict[str, tuple[str, dict[str, Any], list[int]]] = {}
        for name in args.ours.split(",") if loss == "explicit" else ["cg"]:
            systems[f"blocklearn {name}"] = ("blocklearn", RECIPES[name], marks)
        for name in peers:
            peer = PEERS[name]
            if peer.loss == loss:
                points = [1, 2] if args.quick else list(peer.checkpoints)
                systems[name] = (name, {}, points)
        for turn in range(args.rounds):
            order = list(systems.items())[:: -1 if turn % 2 else 1]
            for label, (name, recipe, points) in order:
                if label not in self.report.failed:
                    row = self.one(label, name, rank, loss, recipe, points)
                    if row is not None:
                        found.setdefault(label, []).append(row)
        return {label: found[label] for label in systems if label in found}

    def one(
        self, label: str, name: str, rank: int, loss: str, recipe: dict[str, Any],
        points: list[int],
    ) -> Row | None:  # fmt: skip
        """Run one system once; return None if it stopped, which the report then has.

        recipe: settings of its own; with `reg`, the penalty in place of the option's.
        """
        args, own = self.args, dict(recipe)
        reg = own.pop("reg", None)
        if reg is None:
            reg = args.reg if loss == "explicit" else args.implicit_reg
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
            reported(self.report, label, f", rank {rank}, {loss}"),
        ):
            job = Job(
                system=name, folder=folder, data=save(folder, train=self.ratings.train),
                threads=args.threads, checkpoints=list(points), recipe=own, loss=loss, rank=rank,
                reg=reg, alpha=getattr(args, "alpha", 1.0),
            )  # fmt: skip
            return self.scored(label, job)
        return None

    def scored(self, label: str, job: Job) -> Row:
        """Run a job and score all factors that it kept."""
        names = ("RAYON_NUM_THREADS", "LK_NUM_THREADS", "OMP_NUM_THREADS")
        more = {"BLOCKLEARN_CACHE": str(self.kernels)} | dict.fromkeys(names, str(job.threads))
        memory, [done] = run_jobs(job.folder, [job], 1, more)
        for number, point in enumerate(done.curve):
            point |= self.figures(job, job.kept(number))
        last = done.curve[-1]
        settings = {"rank": job.rank, "loss": job.loss, "reg": job.reg, "threads": job.threads}
        quality = {name: last[name] for name in last if name != "seconds"}
        if "gflops" in done.settings:
            quality["gflops"] = done.settings["gflops"]
        settings |= done.settings
        return Row(label, done.version, settings, last["seconds"], quality, memory, done.curve)

    def figures(self, job: Job, kept: Mapping[str, Any]) -> dict[str, float]:
        """Return the quality of factors; `error` is the compared figure."""
        U, V = kept["U"], kept["V"]
        if job.loss == "implicit":
            value = objective(self.ratings.train, U, V, job.alpha, job.reg)
            return {"error": round(value, 5), "objective": round(value, 5)}
        plain, clipped = self.ratings.rmse(U, V, float(kept["mean"]))
        return {"error": plain, "rmse": plain, "rmse_clipped": clipped}


def middle(rows: list[Row]) -> Row:
    """Return the row with the median time, plus the times of all."""
    found = sorted(rows, key=lambda row: row.seconds)[len(rows) // 2]
    found.settings["seconds_of_rounds"] = [row.seconds for row in rows]
    return found


def ratios(rounds: Rounds, rank: int, loss: str) -> list[Ratio]:
    """Return, for each peer and each of ours, seconds to the peer's lowest error / ours to it.

    Rounds that both ran count. Our time is that of the first checkpoint at or below the error;
    nothing is interpolated.
    """
    found = []
    label = f"{TO_BEST} {'rmse' if loss == 'explicit' else 'objective'}, rank {rank}"
    for name, theirs in ((n, rows) for n, rows in rounds.items() if n in PEERS):
        for system, ours in ((n, rows) for n, rows in rounds.items() if n not in PEERS):
            best = [min(row.curve, key=lambda point: point["error"]) for row in theirs]
            pairs = [
                reached(b.curve, "error", a["error"], a["seconds"], lower=True)
                for a, b in zip(best, ours, strict=False)
            ]
            values = [value for value, _ in pairs if value is not None]
            value, where = median(values) if values else None, pairs[0][1]
            if values:
                where += f"; {min(values):.2f} to {max(values):.2f}"
            note = (
                f"{best[0]['error']:.4f} after {best[0]['alternations']} alternations, "
                f"{best[0]['seconds']:.2f} s; ours: {where}"
            )
            found.append(Ratio(label, name, system, value and round(value, 2), note))
    return found


def show(report: Report) -> str:
    """Return tables of all systems and of the ratios."""
    cores = report.machine["cores"]
    head = ["system", "rank", "loss", "alternations", "seconds", "error", "MiB", "others %"]
    lines = []
    for row in report.rows:
        rank, loss = row.settings["rank"], row.settings["loss"]
        for point in row.curve:
            last = point is row.curve[-1]
            if row.system not in PEERS and point["alternations"] not in (1, 3, 5, 10) and not last:
                continue  # in the JSON
            lines.append([
                row.system, rank, loss, point["alternations"], point["seconds"],
                f"{point['error']:.4f}", mib(row.memory) if last else None, others(point, cores),
            ])  # fmt: skip
    parts = [table(head, lines)]
    if report.ratios:
        rows = [
            [r.of, r.to, r.name.removeprefix(TO_BEST + " "), r.value, r.note] for r in report.ratios
        ]
        parts.append("\n" + table(["peer", "ours", "to its best", "times faster", TO_BEST], rows))
    data = report.data
    parts.append(
        f"\n{data['name']}: {data['users']:,} users, {data['items']:,} items, {data['nnz']:,} "
        f"training ratings, {data['held_out']:,} held out; load {report.machine['load_before']}"
    )
    return "\n".join(parts)
