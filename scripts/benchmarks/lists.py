"""Whose lists of items are best: implicit ALS, rankings, and the packages implicit and LensKit?

    scripts/bench lists --data plays.npz

Entries are implicit feedback; one in ten of them is held out. Every system makes a list of ten
items for each user, without those trained on, with settings from a small grid of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources.examples.calls import python_calls
from blocklearn.models import ALS, Ranking
from blocklearn.models.ranking_metrics import ranking_scores
from blocklearn.models.score import values

from .data import facts
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ("implicit", "lenskit")
HELD, TOP, CHUNK = 0.1, 10, 1024
Factors = tuple[Any, Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz with user, item, rating [python-calls]")
    parser.add_argument("--least", type=float, default=0.0, help="least rating of a positive")
    parser.add_argument("--often", type=int, default=1, help="least positives of users and items")
    parser.add_argument("--rank", type=int, default=32)


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system with each of its settings."""
    if args.quick:
        args.rank = 4
    X, held = split(args.data, args.least, args.often)
    report = Report("lists", "processor time of training", facts(X, str(args.data)), describe())
    systems = list(ours(X, args.rank))
    if "implicit" in peers:
        systems += list(theirs(X, args.rank))
    if "lenskit" in peers:
        systems += list(lenskits(X, args.rank))
    for system, settings, train in systems[:: 4 if args.quick else 1]:
        begun = time.process_time()
        factors = train()
        seconds = time.process_time() - begun
        report.rows.append(
            Row(system, bl.__version__, settings, seconds, scored(*factors, X, held))
        )
    return report


def split(path: Path | None, least: float, often: int) -> tuple[Any, Any]:
    """Return the positives to train on and those held out, CSR [users x items]."""
    if path is None:
        found = python_calls().counts.tocoo()
        u, i, r = found.row, found.col, found.data
    else:
        with np.load(path) as file:
            u, i, r = file["user"], file["item"], file["rating"]
    keep = r > 0 if least <= 0 else r >= least
    u, i, r = u[keep], i[keep], r[keep] if least <= 0 else np.ones(keep.sum())
    for _ in range(4):
        known = (np.bincount(u)[u] >= often) & (np.bincount(i)[i] >= often)
        u, i, r = u[known], i[known], r[known]
    u, i = (np.unique(ids, return_inverse=True)[1] for ids in (u, i))
    shape = int(u.max()) + 1, int(i.max()) + 1
    held = np.random.RandomState(0).rand(len(u)) < HELD
    parts = (sp.csr_array((r[p].astype(np.float32), (u[p], i[p])), shape) for p in (~held, held))
    X, other = parts
    return X, other


def ours(X: Any, rank: int) -> Iterator[tuple[str, dict[str, Any], Callable[[], Factors]]]:
    """Yield name, settings and training of our models."""

    def trained(model: Any, passes: int, rows: int) -> Factors:
        learner = bl.Learner(
            model, X, passes=passes, block_rows=rows, threads=1, verbose=False
        ).fit()
        items = "items" in model.row_states
        found = learner.row_state("items") if items else learner.parameter("items")
        return learner.row_state("users"), found

    trained(ALS(rank=rank, loss="implicit"), 1, 1024)  # compiles
    trained(Ranking(rank=rank), 1, 64)
    for alpha, reg in [(1.0, 0.1), (20.0, 0.5), (20.0, 2.0), (40.0, 4.0)]:
        als = ALS(rank=rank, loss="implicit", alpha=alpha, reg=reg)
        settings = {"alpha": alpha, "reg": reg}
        yield "blocklearn ALS", settings, lambda model=als: trained(model, 15, 1024)
    for passes, reg in [(1, 0.3), (2, 0.3), (5, 0.3), (30, 0.3), (30, 1.0)]:
        ranking = Ranking(rank=rank, reg=reg)
        settings = {"passes": passes, "reg": reg}
        yield (
            "blocklearn ranking", settings,
            lambda model=ranking, passes=passes: trained(model, passes, 64),
        )  # fmt: skip


def theirs(X: Any, rank: int) -> Iterator[tuple[str, dict[str, Any], Callable[[], Factors]]]:
    """Yield the same of the package implicit."""
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking

    matrix = sp.csr_matrix(X)

    def trained(kind: Any, **settings: Any) -> Factors:
        model = kind(factors=rank, num_threads=1, random_state=0, **settings)
        model.fit(matrix, show_progress=False)
        return model.user_factors, model.item_factors

    for alpha, reg in [(1.0, 0.1), (10.0, 1.0), (10.0, 10.0), (40.0, 10.0), (40.0, 40.0)]:
        als = {"alpha": alpha, "regularization": reg}
        yield "implicit ALS", als, lambda s=als: trained(AlternatingLeastSquares, **s)
    for rate, reg, iterations in [
        (0.05, 0.05, 25),
        (0.1, 0.05, 25),
        (0.05, 0.05, 50),
        (0.1, 0.05, 50),
        (0.05, 0.01, 100),
        (0.05, 0.05, 100),
        (0.1, 0.05, 100),
        (0.05, 0.1, 100),
    ]:
        bpr = {"learning_rate": rate, "regularization": reg, "iterations": iterations}
        yield "implicit BPR", bpr, lambda s=bpr: trained(BayesianPersonalizedRanking, **s)


def lenskits(X: Any, rank: int) -> Iterator[tuple[str, dict[str, Any], Callable[[], Factors]]]:
    """Yield the same of LensKit's ALS, with and without counts as confidences."""
    import pandas as pd
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    entries = sp.coo_matrix(X)
    frame = {"user_id": entries.row, "item_id": entries.col, "rating": entries.data}
    data = from_interactions_df(pd.DataFrame(frame))

    def trained(**settings: Any) -> Factors:
        scorer = ImplicitMFScorer(embedding_size=rank, epochs=15, **settings)
        scorer.train(data, TrainingOptions(rng=0))
        U, V = (np.zeros((n, rank), np.float32) for n in X.shape)
        U[np.asarray(data.users.ids())] = np.asarray(scorer.user_embeddings)
        V[np.asarray(data.items.ids())] = np.asarray(scorer.item_embeddings)
        return U, V

    for ratings in (False, True):
        for weight, reg in [(1.0, 0.1), (10.0, 0.1), (10.0, 1.0), (40.0, 0.1), (40.0, 1.0)]:
            of = {"weight": weight, "regularization": reg, "use_ratings": ratings}
            yield "LensKit ALS", of, lambda s=of: trained(**s)


def scored(users: Any, items: Any, X: Any, held: Any) -> dict[str, float]:
    """Return the scores of lists of ten items."""
    some = np.flatnonzero(np.diff(held.indptr))
    lists = np.empty((some.size, TOP), np.int64)
    for start in range(0, some.size, CHUNK):
        part = some[start : start + CHUNK]
        scores = np.asarray(users[part] @ items.T)
        seen = X[part].tocoo()
        scores[seen.row, seen.col] = -np.inf
        best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
        order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
        lists[start : start + CHUNK] = np.take_along_axis(best, order, 1)
    return values(ranking_scores(lists, sp.csr_array(held[some]), TOP, sp.csr_array(X[some])))


def show(report: Report) -> str:
    """Return a table."""
    names = (f"ndcg@{TOP}", f"recall@{TOP}", f"precision@{TOP}", f"map@{TOP}")
    lines = [
        [
            row.system,
            ", ".join(f"{name} {value:g}" for name, value in row.settings.items()),
            *(f"{row.quality[name]:.4f}" for name in names),
            row.seconds,
        ]
        for row in report.rows
    ]
    return table(["", "settings", *names, "seconds"], lines)
