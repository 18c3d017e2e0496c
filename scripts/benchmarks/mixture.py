"""How fast is a Gaussian mixture found: ours, and scikit-learn's GaussianMixture?

    scripts/bench mixture --columns 64 --components 50
    scripts/bench mixture --covariance full

All systems use one thread, begin with the same components (ours, from a sample of the rows), and
make the same number of steps. The score is the mean log-likelihood of the rows, in float64.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.training.inputs.row_sample import take_rows
from blocklearn.models import GaussianMixture
from blocklearn.models.mixture.start import Start, first_components

from .machine import describe
from .report import Report
from .turns import System, in_turns
from .turns import show as show_table

PEER_NAMES: tuple[str, ...] = ("scikit-learn",)
FIGURE = "log_likelihood"
NAMES = {"diagonal": "diag", "full": "full", "spherical": "spherical"}  # scikit-learn's


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--covariance", choices=list(NAMES), default="diagonal")
    parser.add_argument("--passes", type=int, default=20, help="steps")
    parser.add_argument("--rounds", type=int, default=3, help="trainings; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system, in turns."""
    if args.quick:
        args.rows, args.components, args.rounds, args.passes = 2000, 3, 1, 2
    X = rows(args)
    about = {"rows": args.rows, "columns": args.columns, "components": args.components}
    report = Report("mixture", "processor time of training", about, describe())
    systems = list(ours(X, args))
    if "scikit-learn" in peers:
        systems += list(theirs(X, args))
    form = NAMES[args.covariance]
    in_turns(report, systems, args.rounds, FIGURE, lambda found: likelihood(X, *found, form))
    return report


def rows(args: argparse.Namespace) -> Any:
    """Return rows around twice as many means as there are components."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2 * args.components, args.columns))
    X = means[rng.integers(len(means), size=args.rows)]
    return (X + rng.normal(size=X.shape)).astype(np.float32)


def ours(X: Any, args: argparse.Namespace) -> Iterator[System]:
    """Yield ours."""
    model = GaussianMixture(components=args.components, covariance=args.covariance)

    def trained(passes: int = args.passes) -> Any:
        learner = bl.Learner(model, X, passes=passes, threads=1, verbose=False).fit()
        weights, means, factors = map(learner.parameter, ("weights", "means", "factors"))
        return weights[0], means.T, factors_of(factors, args.covariance)

    trained(2)  # compiles
    settings = {"covariance": args.covariance, "passes": args.passes}
    yield System("blocklearn", bl.__version__, settings, trained)


def factors_of(factors: Any, covariance: str) -> Any:
    """Return the factors as scikit-learn has them."""
    if covariance == "full":
        return factors.reshape(len(factors), -1, len(factors)).swapaxes(0, 1)
    return factors[0] if covariance == "spherical" else factors.T


def theirs(X: Any, args: argparse.Namespace) -> Iterator[System]:
    """Yield scikit-learn's, for rows of float32 and of float64."""
    import sklearn
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture as Mixture
    from threadpoolctl import threadpool_limits

    form = NAMES[args.covariance]

    def trained(data: Any) -> Any:
        start = first(X, args)
        mixture = Mixture(
            args.components,
            covariance_type=form,
            tol=0.0,
            max_iter=args.passes,
            weights_init=(start.weights / start.weights.sum()).astype(data.dtype),
            means_init=start.means.astype(data.dtype),
            precisions_init=precisions(start, form, args.components).astype(data.dtype),
        )
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(data)
        return mixture.weights_, mixture.means_, mixture.precisions_cholesky_

    for dtype in ("float32", "float64"):
        settings = {"covariance": form, "passes": args.passes, "dtype": dtype}
        data = X.astype(dtype)
        yield System("scikit-learn", sklearn.__version__, settings, lambda x=data: trained(x))


def first(X: Any, args: argparse.Namespace) -> Start:
    """Return the components that ours begins with: every system pays for them."""
    model = GaussianMixture(components=args.components)
    rows = model.rows_of_block(len(X))
    sample = take_rows(MatrixSource(X, block_rows=rows, shuffle=True), model.needs.sample)
    return first_components(sample, args.components, 0, full=args.covariance == "full")


def precisions(start: Start, form: str, k: int) -> Any:
    """Return the inverses of the first covariances, as scikit-learn takes them."""
    if form == "full":
        return np.tile(np.linalg.inv(start.covariance), (k, 1, 1))
    one = 1.0 / start.covariance if form == "diag" else 1.0 / start.covariance.mean(keepdims=True)
    return np.tile(one, (k, 1)) if form == "diag" else np.tile(one, k)


def likelihood(X: Any, weights: Any, means: Any, factors: Any, form: str) -> float:
    """Return the mean of log p over rows, computed in float64 by scikit-learn's formulas."""
    from scipy.special import logsumexp

    rows, parts = X.astype(np.float64), []
    for weight, mean, factor in zip(weights, means, factors, strict=True):
        U = np.asarray(factor, np.float64)
        z = (rows - mean) @ U if form == "full" else (rows - mean) * U
        diagonal = U.diagonal() if form == "full" else np.broadcast_to(U, mean.shape)
        parts.append(np.log(weight) + np.log(diagonal).sum() - 0.5 * (z * z).sum(axis=1))
    return float(np.mean(logsumexp(parts, axis=0)) - 0.5 * X.shape[1] * np.log(2 * np.pi))


def show(report: Report) -> str:
    """Return a table."""
    return show_table(report, FIGURE, 6)
