"""Is `reg: auto` of ALS as good as the best of a grid, and never worse than biases alone?

    scripts/bench ridge --data DIR

DIR has folders of ratings, DIR/NAME/ratings.npz. Smaller sets are cut from each: few ratings, users
with few, few items. A tenth of every set is held out, and never seen by the choice.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.models import ALS

from .als_data import Ratings, files_in, load, split
from .data import facts
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
GRID = [(row, reg) for row in (0, 2, 5, 20) for reg in (0.025, 0.05, 0.1, 0.2)]
"""Pairs of row_reg and reg, over the standard deviation of the ratings."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="[generated ratings]")
    parser.add_argument("--most", type=int, default=60_000, help="ratings of a set")
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--passes", type=int, default=10)


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train with each ridge on every set."""
    if args.quick:
        args.most, args.rank, args.passes = 900, 2, 2
    sets = list(cuts(args.data, args.most))
    about = facts(sets[0].train, sets[0].name)
    report = Report("ridge", f"{args.passes} passes", about, describe())
    for ratings in sets:
        scale = float(ratings.train.data.std())
        ways: dict[str, dict[str, Any]] = {
            "biases": {"reg": 0.0, "row_reg": 1e4 * scale, "bias_reg": 2.0},
            "reg 0.05": {"reg": 0.05},
            "auto": {"reg": "auto"},
        }
        grid = GRID[:2] if args.quick else GRID
        for row, reg in grid:
            name = f"row_reg {row}, reg {reg}"
            ways[name] = {"reg": reg * scale, "row_reg": row * scale, "bias_reg": 2.0}
        for system, fields in ways.items():
            report.rows.append(trained(ratings, system, fields, args))
    return report


def trained(ratings: Ratings, system: str, fields: dict[str, Any], args: argparse.Namespace) -> Row:
    """Train, and score the held-out ratings; the seconds include the choice."""
    model = ALS(rank=args.rank, **fields)
    begun = time.process_time()
    learner = bl.Learner(model, ratings.train, passes=args.passes, verbose=False)
    choice = bl.choose(learner)
    learner.fit()
    seconds = time.process_time() - begun
    factors = (learner.row_state(name) for name in ("users", "items"))
    rmse, _ = ratings.rmse(*factors, float(learner.parameter("mean")[0, 0]))
    learner.close()
    users, items = ratings.train.shape
    settings = {
        "set": ratings.name,
        "users": users,
        "items": items,
        "ratings": ratings.train.nnz,
        "chosen": None if choice is None else str(choice),
    }
    return Row(system, bl.__version__, settings, seconds, {"rmse": rmse})


def cuts(folder: Path | None, most: int) -> Iterator[Ratings]:
    """Yield every set of `folder`, and smaller sets cut from it, of at most `most` ratings."""
    for file in files_in(folder):
        if file is None:
            yield load(None, most)
            return
        name = file.parent.name
        with np.load(file) as arrays:
            u, i, r = arrays["user"], arrays["item"], arrays["rating"]
        order = np.random.RandomState(1).permutation(len(r))
        yield cut(name, u, i, r, order[:most])
        yield cut(f"{name}, few ratings", u, i, r, order[: most // 8])
        best = np.argsort(-np.bincount(i), kind="stable")[:60]
        yield cut(f"{name}, 60 items", u, i, r, np.flatnonzero(np.isin(i, best))[:most])
        few = np.bincount(u)[u] <= 4
        if few.sum() >= 1000:
            yield cut(f"{name}, users with up to 4", u, i, r, np.flatnonzero(few))
    u, i, r = counts()
    yield cut("made counts", u, i, r, np.arange(len(r))[:most])


def cut(name: str, u: Any, i: Any, r: Any, chosen: Any) -> Ratings:
    """Return some ratings, their users and items numbered anew, a tenth of them held out."""
    users, items = (np.unique(ids[chosen], return_inverse=True)[1] for ids in (u, i))
    return split(name, users.astype(np.int64), items.astype(np.int64), r[chosen].astype(np.float32))


def counts() -> tuple[Any, Any, Any]:
    """Return generated counts from 1: Poisson, with rates of rank 6."""
    rng = np.random.default_rng(0)
    users, items = 1500, 600
    rates = rng.gamma(0.3, 1, (users, 6)) @ rng.gamma(0.3, 1, (6, items)) * 1.5 + 0.2
    often = np.outer(rng.pareto(1.2, users) + 0.3, 1 / (np.arange(items) + 10.0))
    u, i = np.nonzero(rng.random((users, items)) < np.minimum(1, 5 * often))
    return u, i, 1.0 + rng.poisson(rates[u, i])


def show(report: Report) -> str:
    """Return a table with a line for each set."""
    lines = []
    for name in dict.fromkeys(row.settings["set"] for row in report.rows):
        rows = {row.system: row for row in report.rows if row.settings["set"] == name}
        errors = {system: row.quality["rmse"] for system, row in rows.items()}
        best = min((system for system in errors if system != "auto"), key=errors.__getitem__)
        some = rows["auto"].settings
        lines.append(
            [
                f"{name}: {some['ratings']:,}, {some['users']:,} x {some['items']:,}",
                *(f"{errors[system]:.4f}" for system in ("biases", "reg 0.05", "auto", best)),
                f"{100 * (errors['auto'] / errors[best] - 1):+.1f} %",
                best,
                f"{rows['auto'].seconds / rows['reg 0.05'].seconds:.1f}",
            ]
        )
    head = ["ratings, users x items", "biases", "0.05", "auto", "best", "", "of", "times 0.05"]
    return table(head, lines)
