"""How fast are the largest directions found: SVD, and scikit-learn's randomized_svd?

    scripts/bench svd --data counts.npz
    scripts/bench svd --dense 512
    scripts/bench svd --dense 512 --center

All systems use one thread, rows of float32, and the same number of further directions. Ours makes
passes, scikit-learn iterations; n_iter 0 visits the rows as often as one pass. With --center they
find principal components of dense rows. Of dense rows ours also finds exact directions, and with
--center scikit-learn, too, which ignores iterations. The score is the share of the rows' squares,
or of their squared distances from the mean, that the directions keep, in float64. Times to the same
score are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import python_docs
from blocklearn.models import SVD

from .machine import describe
from .report import Report
from .turns import OURS, System, in_turns, ratios
from .turns import show as show_table

PEER_NAMES: tuple[str, ...] = ("scikit-learn",)
FIGURE = "explained"
OVERSAMPLING = 10
DIGITS = 4  # of scores that count as equal


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz of a sparse matrix [python-docs]")
    parser.add_argument("--dense", type=int, default=0, help="made rows with so many columns")
    parser.add_argument("--rows", type=int, default=50_000, help="of made rows")
    parser.add_argument("--center", action="store_true", help="principal components of made rows")
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="trainings; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system with each of its settings, in turns."""
    if args.quick:
        args.components, args.rounds, args.rows = 4, 1, 2000
    X = rows(args)
    about = {"name": str(args.data or args.dense or "python-docs"), "center": args.center}
    about |= {"rows": X.shape[0], "columns": X.shape[1], "components": args.components}
    report = Report("svd", "processor time of training", about, describe())
    systems = list(ours(X, args))
    if "scikit-learn" in peers:
        systems += list(theirs(X, args))
    systems = systems[:: 3 if args.quick else 1]
    in_turns(report, systems, args.rounds, FIGURE, lambda V: explained(X, V, center=args.center))
    report.ratios = list(ratios(report.rows, FIGURE, DIGITS))
    return report


def rows(args: argparse.Namespace) -> Any:
    """Return word counts, or made rows whose singular values fall slowly, around a mean."""
    if args.dense:
        rng = np.random.default_rng(0)
        turn = np.linalg.qr(rng.normal(size=(args.dense, args.dense)))[0]
        lengths = np.arange(1, args.dense + 1) ** -0.5
        X = rng.normal(size=(args.rows, args.dense)) * lengths @ turn
        return (X + 0.1 * rng.normal(size=args.dense)).astype(np.float32)
    if args.center:
        raise SystemExit("svd: --center: must be used with --dense N")
    found = python_docs().counts if args.data is None else sp.load_npz(args.data)
    X = sp.csr_array(found).astype(np.float32)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn's
    return X


def ours(X: Any, args: argparse.Namespace) -> Iterator[System]:
    """Yield ours."""
    settings = {"components": args.components, "center": args.center}

    def trained(passes: int, *, exact: bool = False) -> Any:
        model = SVD(**settings, oversampling=OVERSAMPLING, exact=exact)
        learner = bl.Learner(model, X, passes=passes, threads=1, verbose=False).fit()
        return learner.parameter("components")

    trained(2)  # compiles
    for passes in (1, 2, 3, 4, 5, 6, 8, 10):
        yield System(OURS, bl.__version__, {"passes": passes}, lambda p=passes: trained(p))
    if args.dense:
        trained(2, exact=True)
        yield System(OURS, bl.__version__, {"exact": True}, lambda: trained(2, exact=True))


def theirs(X: Any, args: argparse.Namespace) -> Iterator[System]:
    """Yield scikit-learn's."""
    import sklearn
    from sklearn.decomposition import PCA
    from sklearn.utils.extmath import randomized_svd
    from threadpoolctl import threadpool_limits

    common = {"n_oversamples": OVERSAMPLING, "random_state": 0}

    def directions(**settings: Any) -> Any:
        with threadpool_limits(1):
            return randomized_svd(X, args.components, **common, **settings)[2].T

    def principal(solver: str, **settings: Any) -> Any:
        with threadpool_limits(1):
            pca = PCA(args.components, svd_solver=solver, **common, **settings)
            return pca.fit(X).components_.T

    version = sklearn.__version__
    for count in (0, 1, 2, 3, 4, 7):
        if args.center:
            train = lambda n=count: principal("randomized", iterated_power=n)  # noqa: E731
            yield System("scikit-learn PCA randomized", version, {"iterated_power": count}, train)
        else:
            train = lambda n=count: directions(n_iter=n)  # noqa: E731
            yield System("scikit-learn randomized_svd", version, {"n_iter": count}, train)
    if args.center:
        exact = lambda: principal("covariance_eigh")  # noqa: E731
        yield System("scikit-learn PCA covariance_eigh", version, {}, exact)


def explained(X: Any, V: Any, *, center: bool) -> float:
    """Return the share of the squares of X that the directions V [columns x k] keep."""
    Q = np.linalg.qr(np.asarray(V, np.float64))[0]
    mean = X.mean(axis=0, dtype=np.float64) if center else np.zeros(X.shape[1])
    kept = np.square(X @ Q - mean @ Q).sum()
    squares = float(np.square(X.data if sp.issparse(X) else X, dtype=np.float64).sum())
    return float(kept / (squares - X.shape[0] * (mean @ mean)))


def show(report: Report) -> str:
    """Return a table, and the ratios."""
    return show_table(report, FIGURE, 6)
