"""Systems of the ALS benchmark: our recipes, and matrix factorisation of other packages.

Every `run_*` trains on X [users x items] and keeps its factors at the job's checkpoints. The
prediction is mean + U V'. The clock runs during training, not while X is converted to the
package's own format. Each package is called as its own documentation says.

Factors are float32. The penalty is reg times the number of a row's ratings; only implicit has
another loss. cmfrec cannot continue from a model, so it starts anew for each checkpoint. Users and
items without training ratings get zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import ALS

from . import system
from .process import Clock
from .system import Keeper, train_ours

RECIPES: dict[str, dict[str, Any]] = {
    "cg": {},
    "cg without biases": {"biases": False},
    "cholesky": {"solver": "cholesky"},
}
BLOCK_ROWS = 1024
WARM = 64  # rows trained on for compilation


@dataclass(kw_only=True)
class Job(system.Job):
    """A run of one system.

    reg: weight of a row's factors, times the number of its ratings (not with the loss "implicit").
    alpha: with the loss "implicit", what an entry of 1 adds to its confidence.
    """

    unit: ClassVar[str] = "alternations"

    loss: str
    rank: int
    reg: float
    alpha: float


class PassKeeper(Keeper):
    """Keeps factors after passes, when those of users and items belong together."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, Clock(), learned)
        self.passes = [0.0]  # seconds of training after each pass

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Do nothing: factors of items are not found yet."""

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Keep the factors if this pass is a checkpoint."""
        self.passes.append(progress.seconds)
        if progress.pass_ + 1 in self.job.checkpoints:
            self.keep(learner, progress.pass_ + 1)


def learned(learner: bl.Learner) -> dict[str, Any]:
    """Return factors, biases included."""
    mean = float(learner.model.parameters["mean"].numpy()[0, 0])
    return {"U": learner.row_state("users"), "V": learner.row_state("items"), "mean": mean}


def make_learner(job: Job, X: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """Return the learner that the job describes."""
    loss: dict[str, Any] = {"loss": job.loss, "alpha": job.alpha}
    if job.loss == "implicit":
        loss["weighted"] = False
    model = ALS(rank=job.rank, reg=job.reg, **loss, **job.recipe)
    return bl.Learner(
        model, train=X, passes=passes, block_rows=BLOCK_ROWS, threads=job.threads, hooks=hooks
    )


def run_ours(job: Job, X: Any) -> None:
    """Run ours from matrix to factors, checking and transposing X included."""
    X = sp.csr_array(X)
    keeper = PassKeeper(job)
    warm = np.flatnonzero(np.diff(X.indptr))[:WARM]
    learner = train_ours(job, make_learner, [X], warm, keeper)
    each = [b - a for a, b in zip(keeper.passes, keeper.passes[1:], strict=False)]
    job.settings |= learner.model.model_dump(include={"solver", "cg_steps", "biases"})
    job.settings |= {"block_rows": BLOCK_ROWS, "seconds_each": round(median(each), 5)}


def with_biases(U: Any, V: Any, users: Any, items: Any) -> tuple[Any, Any]:
    """Return U and V with two more columns each, so that U V' includes the biases."""
    ones = np.ones
    U = np.column_stack([U, users, ones(len(U))]).astype(np.float32)
    return U, np.column_stack([V, ones(len(V)), items]).astype(np.float32)


def run_cmfrec(job: Job, X: Any, *, biases: bool = True) -> None:
    """Run cmfrec's CMF on ratings alone: three conjugate gradient steps, its default."""
    from cmfrec import CMF

    entries = sp.coo_matrix(X)
    own: dict[str, Any] = {
        "method": "als", "use_cg": True, "max_cg_steps": 3, "finalize_chol": False,
        "scale_lam": job.recipe.get("scale_lam", True), "user_bias": biases,
        "item_bias": biases, "center": True, "use_float": True,
        "precompute_for_predictions": False,
    }  # fmt: skip
    job.settings |= own
    common = {"lambda_": job.reg, "nthreads": job.threads, "random_state": 1, "verbose": False}
    CMF(k=2, niter=1, **own, **common).fit(sp.coo_matrix(X[:100]))  # loads the library
    seen = [np.bincount(at, minlength=n) > 0 for at, n in
            zip((entries.row, entries.col), X.shape, strict=True)]  # fmt: skip
    for done in job.checkpoints:  # a run for each, from the start
        clock = Clock()
        model = CMF(k=job.rank, niter=done, **own, **common)
        with clock:
            model.fit(entries)
        U, V = (np.where(known[:, None], table, 0.0) for known, table in
                zip(seen, (model.A_, model.B_), strict=True))  # fmt: skip
        if biases:
            U, V = with_biases(U, V, model.user_bias_ * seen[0], model.item_bias_ * seen[1])
        job.keep(done, clock, U=U, V=V, mean=float(model.glob_mean_))


def run_cmfrec_plain(job: Job, X: Any) -> None:
    """Run cmfrec without biases."""
    run_cmfrec(job, X, biases=False)


def run_lenskit(job: Job, X: Any) -> None:
    """Run LensKit's BiasedMF: damped biases, then factors of the rest, by Cholesky."""
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    entries = sp.coo_matrix(X)
    frame = {"user_id": entries.row, "item_id": entries.col, "rating": entries.data}
    data = from_interactions_df(pd.DataFrame(frame))
    damping = job.recipe.get("damping", 5.0)
    scorer = BiasedMFScorer(
        embedding_size=job.rank,
        epochs=job.checkpoints[-1],
        regularization=job.reg,
        damping=damping,
    )
    job.settings |= {"damping": damping, "solver": "Cholesky"}
    clock, done = Clock(), 0
    with clock:
        trainer = scorer.create_trainer(data, TrainingOptions(rng=0))
    users, items = np.asarray(data.users.ids()), np.asarray(data.items.ids())
    for mark in job.checkpoints:
        with clock:
            for _ in range(mark - done):
                trainer.train_epoch()
        done = mark
        U, V = np.zeros((X.shape[0], job.rank)), np.zeros((X.shape[1], job.rank))
        U[users], V[items] = scorer.user_embeddings, scorer.item_embeddings
        a, b = np.zeros(X.shape[0]), np.zeros(X.shape[1])
        a[users], b[items] = scorer.bias.user_biases, scorer.bias.item_biases
        U, V = with_biases(U, V, a, b)
        job.keep(done, clock, U=U, V=V, mean=float(scorer.bias.global_bias))


def run_implicit(job: Job, X: Any) -> None:
    """Run implicit's ALS on its own loss.

    Its entries are confidences; ours add alpha |r| to 1.
    """
    from implicit.cpu.als import AlternatingLeastSquares

    confidence = X.copy()
    confidence.data = np.where(X.data > 0, 1.0, -1.0) * (1.0 + job.alpha * abs(X.data))
    confidence.data = confidence.data.astype(np.float32)
    common: dict[str, Any] = {
        "factors": job.rank, "regularization": job.reg, "alpha": 1.0, "use_cg": True,
        "num_threads": job.threads, "random_state": 0,
    }  # fmt: skip
    job.settings |= {"use_cg": True, "cg_steps": 3}
    each: list[float] = []
    clock = Clock()
    model = AlternatingLeastSquares(iterations=job.checkpoints[-1], **common)
    marks = set(job.checkpoints)

    def fitted(number: int, seconds: float, loss: Any) -> None:
        each.append(seconds)
        if number + 1 in marks:
            with clock.stopped():
                job.keep(number + 1, clock, U=model.user_factors, V=model.item_factors, mean=0.0)

    with clock:
        model.fit(confidence, show_progress=False, callback=fitted)
    job.settings["seconds_each"] = round(float(np.median(each)), 5)


@dataclass(frozen=True)
class Peer(system.Peer):
    """A package; checkpoints are alternations.

    loss: the loss that it minimises.
    """

    loss: str = "explicit"


PEERS = {
    "cmfrec": Peer("cmfrec", "cmfrec", run_cmfrec, (1, 3, 5, 10)),
    "cmfrec-plain": Peer("cmfrec", "cmfrec", run_cmfrec_plain, (1, 3, 5, 10)),
    "lenskit": Peer("lenskit", "lenskit", run_lenskit, (1, 3, 5, 10)),
    "implicit": Peer("implicit", "implicit", run_implicit, (1, 3, 5, 10), loss="implicit"),
}
