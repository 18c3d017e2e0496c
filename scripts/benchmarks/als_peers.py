"""Other packages' matrix factorisation, each called as its own documentation says.

Every `run_*` trains on X [users x items] and keeps its factors at the job's checkpoints. The clock
runs while it trains: conversion of X to its own format is left out. Factors are float32, and the
penalty is reg times the number of a row's ratings; but implicit has another loss. cmfrec and Spark
cannot go on from a model, so they start anew for each checkpoint. Users and items without training
ratings get zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from .als_job import Job, with_biases
from .process import Clock


def run_cmfrec(job: Job, X: Any, *, biases: bool = True) -> None:
    """cmfrec's CMF on ratings alone: conjugate gradients, three steps, as by default."""
    from cmfrec import CMF

    entries = sp.coo_matrix(X)
    own: dict[str, Any] = {
        "method": "als", "use_cg": True, "max_cg_steps": 3, "finalize_chol": False,
        "scale_lam": True, "user_bias": biases, "item_bias": biases, "center": True,
        "use_float": True, "precompute_for_predictions": False,
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
        job.keep(done, clock, U, V, float(model.glob_mean_))


def run_cmfrec_plain(job: Job, X: Any) -> None:
    """The same without biases."""
    run_cmfrec(job, X, biases=False)


def run_lenskit(job: Job, X: Any) -> None:
    """LensKit's BiasedMF: damped biases, then factors of what they leave, by Cholesky."""
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    entries = sp.coo_matrix(X)
    frame = {"user_id": entries.row, "item_id": entries.col, "rating": entries.data}
    data = from_interactions_df(pd.DataFrame(frame))
    scorer = BiasedMFScorer(
        embedding_size=job.rank, epochs=job.checkpoints[-1], regularization=job.reg, damping=5.0
    )
    job.settings |= {"damping": 5.0, "solver": "Cholesky"}
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
        job.keep(done, clock, *with_biases(U, V, a, b), float(scorer.bias.global_bias))


def run_implicit(job: Job, X: Any) -> None:
    """implicit's ALS on its own loss. Its entries are confidences, ours add alpha |r| to 1."""
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
            clock.__exit__(None, None, None)
            job.keep(number + 1, clock, model.user_factors, model.item_factors)
            clock.__enter__()

    with clock:
        model.fit(confidence, show_progress=False, callback=fitted)
    job.settings["seconds_each"] = round(float(np.median(each)), 5)


def run_spark(job: Job, X: Any) -> None:
    """Spark MLlib's ALS on local threads, of ratings less their mean; Cholesky."""
    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{job.threads}]").appName("als")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "8g",
        "spark.local.dir": job.folder,
        "spark.driver.extraJavaOptions": "--add-modules=jdk.incubator.vector",
        "spark.sql.shuffle.partitions": str(2 * job.threads),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    entries, mean = sp.coo_matrix(X), float(X.data.mean())
    columns = {"user": entries.row, "item": entries.col, "rating": entries.data - np.float32(mean)}
    parquet.write_table(pa.table(columns), str(job.path("spark.parquet")))
    blocks = 2 * job.threads
    rows = session.read.parquet(str(job.path("spark.parquet"))).repartition(blocks).cache()
    rows.count()

    def fit(iterations: int) -> Any:
        model = ALS(
            rank=job.rank, maxIter=iterations, regParam=job.reg, numUserBlocks=blocks,
            numItemBlocks=blocks, seed=0, checkpointInterval=-1,
            intermediateStorageLevel="MEMORY_ONLY", finalStorageLevel="MEMORY_ONLY",
        ).fit(rows)  # fmt: skip
        model.userFactors.count(), model.itemFactors.count()
        return model

    fit(1)  # warms the JVM up
    job.settings |= {"blocks": blocks, "solver": "Cholesky", "centred": True}
    for done in job.checkpoints:  # a run for each, from the start
        clock = Clock()
        with clock:
            model = fit(done)
        tables = []
        for factors, length in zip((model.userFactors, model.itemFactors), X.shape, strict=True):
            found = factors.toPandas()
            table = np.zeros((length, job.rank), np.float32)
            table[found["id"].to_numpy()] = np.stack(found["features"].to_numpy())
            tables.append(table)
        job.keep(done, clock, *tables, mean)
    session.stop()


@dataclass(frozen=True)
class Peer:
    """A package to compare with. loss: the one that it minimises. checkpoints: alternations, until
    it gains little more. rounds: it runs in so many at most.
    """

    package: str
    module: str
    run: Callable[[Job, Any], None]
    checkpoints: tuple[int, ...]
    loss: str = "explicit"
    rounds: int = 99

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Version of the package."""
        return version(self.package)


PEERS = {
    "cmfrec": Peer("cmfrec", "cmfrec", run_cmfrec, (1, 3, 5, 10)),
    "cmfrec-plain": Peer("cmfrec", "cmfrec", run_cmfrec_plain, (1, 3, 5, 10)),
    "lenskit": Peer("lenskit", "lenskit", run_lenskit, (1, 3, 5, 10)),
    "spark": Peer("pyspark", "pyspark", run_spark, (1, 3), rounds=1),
    "implicit": Peer("implicit", "implicit", run_implicit, (1, 3, 5, 10), loss="implicit"),
}
