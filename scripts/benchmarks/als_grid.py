"""Which error of ratings do ALS and its peers reach, each with the best penalty of its own grid?

    scripts/bench als-grid --data DIR --rank 20,100 --seeds 3

DIR has folders of ratings, DIR/NAME/ratings.npz. A seed is a split into training and held-out
ratings, the same for every system; best is what has the lowest mean error of all seeds, after the
best of its own checkpoints. So everybody chooses by the held-out ratings, and all are flattered
alike. Penalties are in units of the ratings' standard deviation.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

from blocklearn.models.als.ridges import RATINGS

from .als import Measure, ranks
from .als_data import files_in, load
from .als_systems import PEERS
from .data import facts
from .machine import describe
from .report import Report, Row, table

PEER_NAMES = tuple(name for name in ("cmfrec", "lenskit") if name in PEERS)
OURS = "blocklearn"
CHECKPOINTS = [1, 3, 5, 10]
Setting = dict[str, Any]

WEIGHTED = (0.015, 0.05, 0.1, 0.2)  # times the number of a row's ratings
PLAIN = (2.0, 5.0, 20.0, 60.0)
GRIDS: dict[str, list[Setting]] = {
    OURS: [
        {"reg": reg, "row_reg": row, "bias_reg": bias}
        for row, reg, bias in [
            *((row, reg, 2.0) for row, reg in RATINGS),  # what `reg: auto` tries first
            *((0.0, reg, 1.0) for reg in (0.07, 0.14)),
        ]
    ],
    "cmfrec": [{"reg": reg} for reg in WEIGHTED] + [{"reg": r, "scale_lam": False} for r in PLAIN],
    "lenskit": [{"reg": reg, "damping": d} for reg in WEIGHTED for d in (5.0, 20.0)],
}
"""Settings to try; `reg` and `row_reg` are over the standard deviation of the ratings."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="[generated ratings]")
    parser.add_argument("--most", type=int, default=0, help="ratings of a set; 0: all")
    parser.add_argument("--rank", type=ranks, default=[20, 100], metavar="K,K")
    parser.add_argument("--seeds", type=int, default=3, help="splits of every set")
    parser.add_argument("--threads", type=int, default=1)


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Run every system with every setting, on every split of every set."""
    grids = {name: GRIDS[name] for name in (OURS, *peers)}
    if args.quick:
        args.most, args.seeds = 900, 2
        args.rank, grids = args.rank[:1], {name: grid[:2] for name, grid in grids.items()}
    report = None
    with tempfile.TemporaryDirectory(prefix="bench-kernels-") as kernels:
        for file in files_in(args.data):
            for seed in range(args.seeds):
                ratings = load(file, args.most, seed)
                about = facts(ratings.train, ratings.name)
                report = report or Report("als-grid", "training alone", about, describe())
                name = "made" if file is None else file.parent.name
                measure = Measure(args, ratings, report, Path(kernels))
                unit = float(ratings.train.data.std())
                for rank in args.rank:
                    for system, grid in grids.items():
                        for setting in grid:
                            trained(measure, f"{name}, {rank}", system, rank, setting, unit, seed)
    assert report is not None
    return report


def trained(
    measure: Measure, group: str, system: str, rank: int, setting: Setting, unit: float, seed: int
) -> None:
    """Add a row on one system with one setting on one split."""
    weights = ("reg", "row_reg")
    recipe = {k: v * unit if k in weights else v for k, v in setting.items()}
    row = measure.one(system, system, rank, "explicit", recipe, CHECKPOINTS)
    if row is not None:
        shown = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        row.settings |= {"group": group, "tried": shown, "seed": seed}
        measure.report.rows.append(row)


def best(rows: list[Row]) -> list[Row]:
    """Return the rows of the setting with the lowest mean of errors; they have one system."""
    tried: dict[str, list[Row]] = {}
    for row in rows:
        tried.setdefault(row.settings["tried"], []).append(row)
    whole = max(map(len, tried.values()))  # a setting that failed with a seed cannot win
    return min(
        (found for found in tried.values() if len(found) == whole),
        key=lambda found: mean(lowest(row)["error"] for row in found),
    )


def lowest(row: Row) -> dict[str, Any]:
    """Return the checkpoint with the lowest error."""
    found: dict[str, Any] = min(row.curve, key=lambda point: point["error"])
    return found


def show(report: Report) -> str:
    """Return a table with a line for each set, rank and system."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        groups.setdefault((row.settings["group"], row.system), []).append(row)
    lines = []
    for (group, system), rows in groups.items():
        chosen = best(rows)
        errors = [lowest(row)["error"] for row in chosen]
        lines.append([
            group, system, f"{mean(errors):.4f}", f"{min(errors):.4f} to {max(errors):.4f}",
            round(median(lowest(row)["seconds"] for row in chosen), 3),
            round(median(lowest(row)["alternations"] for row in chosen)),
            chosen[0].settings["tried"],
        ])  # fmt: skip
    head = ["set, rank", "system", "RMSE", "of seeds", "seconds", "alternations", "best of grid"]
    return table(head, lines)
