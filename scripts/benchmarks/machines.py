"""How fast are factorization machines, at the quality of xlearn's and torch's?

    scripts/bench machines --data docword.npz --target y.npy
    scripts/bench machines --ratings ratings.npz --rows 1000000
    scripts/bench machines --fields 6 --rows 100000

All systems have the same rows, 8 factors and AdaGrad. Each is trained with the settings of a small
grid: rates, penalties, rows of a block, and `initial`, the first sum of squares, in gradients of
one row (xlearn's is 1). torch's machine is two `EmbeddingBag`. Held-out rows are scored by
logarithmic loss and AUC. Ratings become rows of two ones, user and item; the target is whether a
rating is above the mean. `--fields` makes rows with one feature of each field, and the machines are
field-aware, which torch's are not. Rows without entries are left out: xlearn stops at them. It
reads a binary file, which an earlier run has made of text; that is a part of its time, as the
transposed index is of ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.models import FM
from blocklearn.models.glm.scoring.areas import area
from blocklearn.optimizers import AdaGrad

from .data import load
from .glm import features
from .glm_systems import Timer
from .machine import describe
from .report import Ratio, Report, Row, reached, table
from .system import Peer

FACTORS = 8
VALUES = 100  # features of a field that is made
PASSES = (1, 2, 3, 5)


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to score: X, CSR of float32, and y of 0 and 1.

    fields: the columns of each field; None: the machines are not field-aware.
    """

    X: Any
    y: Any
    test_X: Any
    test_y: Any
    fields: list[int] | None = None


@dataclass
class System:
    """One system with one setting. run: trains, and returns scores (log odds) of held-out rows."""

    name: str
    version: str
    settings: dict[str, Any]
    run: Callable[[Split, Timer, int], Any]
    found: list[tuple[float, float]] = field(default_factory=list)  # processor and wall seconds
    scores: Any = None


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz of counts or features [python-docs]")
    parser.add_argument("--target", type=Path, help=".npy of 0 and 1 [made up]")
    parser.add_argument("--ratings", type=Path, help=".npz of user, item, rating, instead")
    parser.add_argument("--fields", type=int, help="make so many fields, instead")
    parser.add_argument("--rows", type=int, default=0, help="so many, chosen at random; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="trainings; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system with each of its settings, in turns."""
    if args.quick:
        args.rounds, args.rows = 1, 400
    X, y, name = rows(args)
    filled = np.diff(X.indptr) > 0
    X, y = X[filled], y[filled]
    data = split(X, y, None if args.fields is None else [VALUES] * args.fields)
    about = {"name": name, "documents": X.shape[0], "words": X.shape[1], "nnz": int(X.nnz)}
    about["tokens"] = float(X.sum())
    report = Report("machines", "processor time of training", about, describe())
    systems = list(ours(data))
    for peer in peers if args.fields is None else set(peers) & {"xlearn"}:
        systems += PEERS[peer].run()
    if args.quick:
        systems = [s for s in systems if s.settings["passes"] == PASSES[0]][::3]
    for _ in range(args.rounds):
        for system in systems:
            timer = Timer()
            system.scores = system.run(data, timer, args.threads)
            system.found.append((timer.cpu, timer.wall))
    for system in systems:
        seconds, wall = np.median(system.found, axis=0).tolist()
        quality = {"wall_seconds": wall, **quality_of(system.scores, data.test_y)}
        report.rows.append(Row(system.name, system.version, system.settings, seconds, quality))
    report.ratios = list(ratios(report.rows))
    return report


def rows(args: argparse.Namespace) -> tuple[Any, Any, str]:
    """Return X, y and the name of the data."""
    rng = np.random.default_rng(0)
    if args.fields is not None:
        return *made(args.fields, args.rows or 100_000, rng), f"{args.fields} fields, made"
    if args.ratings is not None:
        with np.load(args.ratings) as found:
            user, item, rating = (found[name] for name in ("user", "item", "rating"))
        chosen = rng.permutation(len(user))[: args.rows or len(user)]
        columns = np.stack([user[chosen], item[chosen] + user.max() + 1], axis=1).ravel()
        offsets = np.arange(0, len(columns) + 1, 2)
        X = sp.csr_array((np.ones(len(columns), np.float32), columns.astype(np.int32), offsets))
        return X, (rating[chosen] > rating.mean()).astype(np.float32), str(args.ratings)
    counts, name = load(args.data, args.rows)
    X = sp.csr_array(features(counts))
    if args.target is not None:
        return X, np.load(args.target)[: X.shape[0]].astype(np.float32), name
    scores = X @ rng.normal(size=X.shape[1])
    return X, (scores > np.median(scores)).astype(np.float32), name


def made(fields: int, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return rows with a feature of each field, and labels by products of two hidden numbers.

    Each pair of fields has hidden numbers of its own.
    """
    values = rng.integers(VALUES, size=(rows, fields))
    hidden = rng.normal(size=(fields, VALUES, fields, 2))
    score = np.zeros(rows)
    for f, g in combinations(range(fields), 2):
        score += (hidden[f, values[:, f], g] * hidden[g, values[:, g], f]).sum(axis=1)
    columns = (values + VALUES * np.arange(fields)).ravel().astype(np.int32)
    offsets = np.arange(0, len(columns) + 1, fields)
    ones = np.ones(len(columns), np.float32)
    X = sp.csr_array((ones, columns, offsets), shape=(rows, VALUES * fields))
    return X, (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(np.float32)


def split(X: Any, y: Any, fields: list[int] | None) -> Split:
    """Hold out a tenth of the rows."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    held = max(1, X.shape[0] // 10)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    return Split(X[train], y[train], X[test], y[test], fields)


def ours(data: Split) -> Iterator[System]:
    """Yield ours: equal settings with blocks of several sizes, with and without a penalty."""

    def trained(data: Split, timer: Timer, threads: int, passes: int, **settings: Any) -> Any:
        block_rows = settings["block_rows"]
        model = FM(factors=FACTORS, start=0.05, fields=data.fields)
        step = AdaGrad(rate=settings["rate"], initial=settings["initial"] / block_rows**2)
        with timer:
            source = MatrixSource(data.X, targets=data.y, block_rows=block_rows, shuffle="blocks")
            learner = bl.Learner(
                model, source, optimizer=step, passes=passes, threads=threads,
                verbose=False,
            )  # fmt: skip
            learner.fit()
        chances = np.clip(learner.predict(data.test_X).reshape(-1), 1e-7, 1 - 1e-7)
        learner.close()
        return np.log(chances / (1 - chances))

    for block_rows, rate, initial in [(256, 0.4, 0.1), (256, 0.2, 1.0), (512, 0.4, 0.1),
                                      (1024, 0.2, 0.1), (512, 0.1, 0.0)]:  # fmt: skip
        known = {"block_rows": block_rows, "rate": rate, "initial": initial}
        first = slice(2 * block_rows)
        few = Split(data.X[first], data.y[first], data.test_X, data.test_y, data.fields)
        trained(few, Timer(), 1, 1, **known)  # compiles
        yield from grid("blocklearn", bl.__version__, known, trained)


def xlearn() -> Iterator[System]:
    """Yield xlearn's, by single rows."""
    os.environ.setdefault("USER", "bench")  # it stops without a name for its log
    import xlearn as xl

    folder = tempfile.TemporaryDirectory(prefix="bench-")
    paths = {name: str(Path(folder.name, name)) for name in ("train", "test", "model", "out")}

    def trained(data: Split, timer: Timer, threads: int, passes: int, **settings: Any) -> Any:
        def fit(passes: int) -> None:
            model.fit({**known, "task": "binary", "epoch": passes}, paths["model"])

        known = {"k": FACTORS, "opt": "adagrad", "nthread": threads, **settings}
        with quiet():
            model = xl.create_fm() if data.fields is None else xl.create_ffm()
            model.setQuiet()
            model.disableNorm()  # the rows as they are, as for the others
            model.disableEarlyStop()
            model.setTrain(paths["train"])
            if not Path(folder.name, "train").exists():
                write_rows(paths["train"], data.X, data.y, data.fields)
                write_rows(paths["test"], data.test_X, data.test_y, data.fields)
                fit(1)  # makes the binary file
            with timer:
                fit(passes)
            model.setTest(paths["test"])
            model.predict(paths["model"], paths["out"])
        return np.loadtxt(paths["out"], ndmin=1)

    for lr, penalty, init in [(0.2, 2e-5, 0.66), (0.2, 2e-5, 0.1), (0.1, 1e-4, 0.3),
                              (0.4, 2e-5, 0.1)]:  # fmt: skip
        known = {"lr": lr, "lambda": penalty, "init": init}
        yield from grid("xlearn", PEERS["xlearn"].version, known, trained)


def write_rows(path: str, X: Any, y: Any, fields: list[int] | None) -> None:
    """Write rows as text of libsvm, or with fields of libffm."""
    names = [f"{c}" for c in range(X.shape[1])]
    if fields is not None:
        names = [
            f"{f}:{c}" for f, c in zip(np.repeat(range(len(fields)), fields), names, strict=True)
        ]
    with Path(path).open("w") as file:
        for label, a, e in zip(y, X.indptr[:-1], X.indptr[1:], strict=True):
            pairs = zip(X.indices[a:e], X.data[a:e], strict=True)
            file.write(f"{int(label)} " + " ".join(f"{names[c]}:{v:.7g}" for c, v in pairs) + "\n")


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what C code prints."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def torch() -> Iterator[System]:
    """Yield torch's, by blocks of shuffled rows."""
    import torch as pt
    from torch.nn.functional import binary_cross_entropy_with_logits, embedding_bag

    def scored(rows: Any, W: Any, V: Any, b: Any) -> Any:
        ids, offsets, values = rows

        def summed(table: Any, by: Any) -> Any:
            return embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=by)

        S = summed(V, values)
        squares = summed((V * V).sum(1, keepdim=True), values * values)
        pairs = 0.5 * ((S * S).sum(1) - squares[:, 0])
        return b + summed(W, values)[:, 0] + pairs

    def tensors(X: Any) -> Any:
        ids, offsets = X.indices.astype(np.int64), X.indptr[:-1].astype(np.int64)
        return tuple(map(pt.from_numpy, (ids, offsets, X.data)))

    def trained(data: Split, timer: Timer, threads: int, passes: int, **settings: Any) -> Any:
        pt.manual_seed(0)
        pt.set_num_threads(threads)
        d, size = data.X.shape[1], settings["rows"]
        with timer:
            W, b = pt.zeros(d, 1, requires_grad=True), pt.zeros(1, requires_grad=True)
            V = ((pt.rand(d, FACTORS) - 0.5) * 0.1).requires_grad_()
            initial = settings["initial"] / size**2
            step = pt.optim.Adagrad([W, V, b], lr=settings["lr"], initial_accumulator_value=initial)
            order = np.random.default_rng(0).permutation(data.X.shape[0])
            blocks = []
            for first in range(0, len(order), size):
                chosen = order[first : first + size]
                blocks.append((tensors(data.X[chosen]), pt.from_numpy(data.y[chosen])))
            for _ in range(passes):
                for block, y in blocks:
                    step.zero_grad()
                    binary_cross_entropy_with_logits(scored(block, W, V, b), y).backward()
                    step.step()
        with pt.no_grad():
            return scored(tensors(data.test_X), W, V, b).numpy()

    for size, lr, initial in [(256, 0.4, 0.1), (1024, 0.2, 0.1), (4096, 0.2, 0.1)]:
        known = {"rows": size, "lr": lr, "initial": initial}
        yield from grid("torch", PEERS["torch"].version, known, trained)


def grid(
    name: str, version: str, known: dict[str, Any], train: Callable[..., Any]
) -> Iterator[System]:
    """Yield a system for each number of passes."""
    for passes in PASSES:
        settings = {**known, "passes": passes}
        yield System(name, version, settings, partial(train, **settings))


def quality_of(scores: Any, y: Any) -> dict[str, float]:
    """Return the mean logarithmic loss and the AUC of log odds."""
    odds = np.asarray(scores, np.float64)
    lost = np.logaddexp(0.0, odds) - odds * y
    return {"log_loss": float(lost.mean()), "auc": area(odds, y, np.ones(len(y)))}


def ratios(rows: list[Row]) -> Iterator[Ratio]:
    """Yield, for each peer and figure, seconds to its best over ours to the same.

    Nothing is interpolated.
    """
    own = sorted((row for row in rows if row.system == "blocklearn"), key=lambda row: row.seconds)
    curve = [{**row.quality, "seconds": row.seconds} for row in own]
    for peer in sorted({row.system for row in rows} - {"blocklearn"}):
        for figure, lower in [("log_loss", True), ("auc", False)]:
            sign = 1 if lower else -1
            best = min(
                (row for row in rows if row.system == peer), key=lambda r: sign * r.quality[figure]
            )
            goal = best.quality[figure]
            value, where = reached(curve, figure, goal, best.seconds, lower=lower)
            note = f"{goal:.4f} after {best.seconds:.3f} s; ours: {where}"
            yield Ratio(f"seconds to the best {figure}", peer, "blocklearn", value, note)


def show(report: Report) -> str:
    """Return a table of all settings, and the ratios."""
    lines = [
        [
            row.system,
            ", ".join(f"{name} {value}" for name, value in row.settings.items()),
            f"{row.quality['log_loss']:.4f}",
            f"{row.quality['auc']:.4f}",
            f"{row.seconds:.3f}",
            f"{row.quality['wall_seconds']:.3f}",
        ]
        for row in report.rows
    ]
    found = [table(["", "settings", "log loss", "AUC", "processor s", "wall s"], lines)]
    found += [
        f"{r.of}, {r.name}: {r.value and round(r.value, 2)} ({r.note})" for r in report.ratios
    ]
    return "\n".join(found)


PEERS = {
    "xlearn": Peer("xlearn", "xlearn", xlearn, PASSES),
    "torch": Peer("torch", "torch", torch, PASSES),
}
PEER_NAMES = tuple(PEERS)
