"""Other packages' LDA, each called as its own documentation says, with the same priors.

Every `run_*` trains on X [documents x words] and keeps its topics at the job's checkpoints. The
clock runs while it trains: conversion of X to its own format is left out.

Learning rates are not always a package's defaults, but what served it best among those tried, so
that nobody is beaten for a bad default. Perplexity after one pass over 36,824 abstracts, K=100:
gensim 1892 by default (decay 0.5, offset 1), 1585 with 0.7 and 10 (0.7, 1: 1901); VW 1667
by default (power_t 0.5, initial_t 1), 1575 with 0.7 and 1 (0.6, 1: 1602; 0.8, 1: 1578; 0.7, 10:
1924; 0.5, 10: 1705). Spark runs with its defaults: it was not at hand to try others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .lda_job import Job
from .process import Clock


def run_sklearn(job: Job, X: Any) -> None:
    """Online variational Bayes of scikit-learn: a `partial_fit` over all rows is one pass."""
    from sklearn.decomposition import LatentDirichletAllocation

    own: dict[str, Any] = {"learning_decay": 0.7, "learning_offset": 10.0}
    own["max_doc_update_iter"] = 100
    model = LatentDirichletAllocation(
        n_components=job.topics, doc_topic_prior=job.alpha, topic_word_prior=job.eta,
        learning_method="online", batch_size=job.batch, total_samples=X.shape[0],
        evaluate_every=-1, n_jobs=job.threads, random_state=0, **own,
    )  # fmt: skip
    job.settings |= own | {"dtype": "float32"}
    clock = Clock()
    for done in range(1, job.passes + 1):
        with clock:
            model.partial_fit(X)
        if done in job.checkpoints:
            job.keep(done, clock, model.components_ / model.components_.sum(1, keepdims=True))


def run_gensim(job: Job, X: Any) -> None:
    """gensim's LdaMulticore; an update takes chunksize * workers documents: the batch of all."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaMulticore

    clock = Clock()

    class Corpus(Sparse2Corpus):  # type: ignore[misc]
        """The corpus, which the model goes through once a pass: there the clock is stopped."""

        passes = 0

        def __iter__(self) -> Iterator[Any]:
            if self.passes in job.checkpoints:
                clock.__exit__(None, None, None)
                job.keep(self.passes, clock, model.get_topics())
                clock.__enter__()
            self.passes += 1
            return iter(super().__iter__())

    own: dict[str, Any] = {"decay": 0.7, "offset": 10.0, "iterations": 50, "gamma_threshold": 1e-3}
    own["chunksize"] = max(1, job.batch // job.threads)
    model = LdaMulticore(
        corpus=None, num_topics=job.topics, id2word={i: str(i) for i in range(X.shape[1])},
        workers=job.threads, passes=job.passes, alpha=job.alpha, eta=job.eta, eval_every=None,
        random_state=0, dtype=np.float32, **own,
    )  # fmt: skip
    job.settings |= own | {"dtype": "float32"}
    corpus = Corpus(X.T.tocsc(), documents_columns=True)
    with clock:
        model.update(corpus)
    job.keep(job.passes, clock, model.get_topics())


def run_tomotopy(job: Job, X: Any) -> None:
    """tomotopy: collapsed Gibbs sampling in memory. A checkpoint counts sweeps, not passes."""
    import tomotopy

    model = tomotopy.LDAModel(k=job.topics, alpha=job.alpha, eta=job.eta, seed=0)
    names = np.array([str(i) for i in range(X.shape[1])], dtype=object)
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        model.add_doc(list(np.repeat(names[X.indices[a:b]], np.rint(X.data[a:b]).astype(int))))
    model.optim_interval = 0  # alpha stays, as for every other system
    model.burn_in = 0
    model.train(0, workers=job.threads)  # builds its tables
    job.settings |= {"isa": tomotopy.isa, "optim_interval": 0, "pass": "one sweep of all documents"}
    clock, done = Clock(), 0
    columns = np.array([int(word) for word in model.used_vocabs])
    unseen = np.setdiff1d(np.arange(X.shape[1]), columns)
    for sweeps in map(int, job.checkpoints):
        with clock:
            model.train(sweeps - done, workers=job.threads)
        done = sweeps
        phi = np.zeros((job.topics, X.shape[1]))
        for k in range(job.topics):
            phi[k, columns] = model.get_topic_word_dist(k)
        if len(unseen):  # words of held-out documents only: the smoothing mass of the rarest word
            phi[:, unseen] = phi[:, columns].min(1, keepdims=True)
        job.keep(sweeps, clock, phi / phi.sum(1, keepdims=True))


def run_vw(job: Job, X: Any) -> None:
    """Vowpal Wabbit's --lda, from its binary cache, with its one learner and one parser thread."""
    data, cache, model, topics = (job.path(f"vw.{s}") for s in ("data", "cache", "model", "topics"))
    bits = int(np.ceil(np.log2(X.shape[1])))
    with data.open("w") as file:
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            pairs = zip(X.indices[a:b], X.data[a:b], strict=True)
            file.write("| " + " ".join(f"{word}:{count:g}" for word, count in pairs) + "\n")
    # with its default ring of 256 this version crashes for a larger minibatch
    common = ["--minibatch", job.batch, "--ring_size", 4 * job.batch, "-b", bits, "--quiet"]
    options = [
        "--lda", job.topics, "--lda_alpha", job.alpha, "--lda_rho", job.eta, "--lda_D", X.shape[0],
        "--power_t", 0.7, "--initial_t", 1, "-l", 1, "--holdout_off", "--random_seed", 1, *common,
    ]  # fmt: skip
    # a cache keeps the kind of its labels, so it is made by a run with --lda
    _vw(job, ["--lda", 1, *common, "-d", data, "--cache_file", cache])
    job.settings |= {"command": "vw " + " ".join(map(str, options)), "threads": "learner + parser"}
    for passes in map(int, job.checkpoints):  # a run for each, from the start
        clock = Clock()
        with clock:
            _vw(job, [*options, "-d", data, "--cache_file", cache, "--passes", passes, "-f", model])
        _vw(job, ["-i", model, "-t", "-d", os.devnull, "--readable_model", topics, "--quiet"])
        job.keep(passes, clock, read_vw_topics(topics, job.topics, X.shape[1]))


def _vw(job: Job, arguments: list[Any]) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def read_vw_topics(path: Path, topics: int, words: int) -> Any:
    """Topics [K x V] of a readable model: lines of a word and its K weights, rho included."""
    phi, inside = np.zeros((topics, words)), False
    for line in path.read_text().splitlines():
        fields = line.split()
        inside = inside or (len(fields) == topics + 1 and fields[0] == "0")
        if inside and len(fields) == topics + 1 and int(fields[0]) < words:
            phi[:, int(fields[0])] = np.array(fields[1:], dtype=float)
    if not phi.any():
        raise ValueError(f"{path}: no topics found in Vowpal Wabbit's readable model.")
    return phi / phi.sum(1, keepdims=True)


def run_spark(job: Job, X: Any) -> None:
    """Spark MLlib's online LDA on local threads; its batches are random, of about the same size."""
    from pyspark.ml.clustering import LDA
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{job.threads}]").appName("lda")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "8g",
        "spark.local.dir": job.folder,
        "spark.driver.extraJavaOptions": "--add-modules=jdk.incubator.vector",
        "spark.sql.shuffle.partitions": str(job.threads),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    data = job.path("spark.libsvm")
    with data.open("w") as file:
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            pairs = zip(X.indices[a:b] + 1, X.data[a:b], strict=True)
            file.write("0 " + " ".join(f"{word}:{count:g}" for word, count in pairs) + "\n")
    reader = session.read.format("libsvm").option("numFeatures", str(X.shape[1]))
    rows = reader.load(str(data)).select("features").coalesce(job.threads).cache()
    documents = rows.count()

    def fit(iterations: int) -> Any:
        return LDA(
            k=job.topics, maxIter=iterations, optimizer="online", learningOffset=1024.0,
            subsamplingRate=min(1.0, job.batch / documents), learningDecay=0.51,
            optimizeDocConcentration=False, docConcentration=[job.alpha],
            topicConcentration=job.eta, seed=0, checkpointInterval=-1,
        ).fit(rows)  # fmt: skip

    fit(2)  # warms the JVM up
    job.settings |= {"learningOffset": 1024.0, "learningDecay": 0.51, "dtype": "float64"}
    for passes in map(int, job.checkpoints):  # a run for each, from the start
        clock = Clock()
        with clock:
            model = fit(int(np.ceil(passes * documents / job.batch)))
        phi = model.topicsMatrix().toArray().T
        job.keep(passes, clock, phi / phi.sum(1, keepdims=True))
    session.stop()


@dataclass(frozen=True)
class Peer:
    """A package to compare with. checkpoints: passes or sweeps, until it gains little more."""

    package: str
    module: str
    run: Callable[[Job, Any], None]
    checkpoints: tuple[int, ...]
    by_processes: bool = False  # it runs in processes: BLAS gets one thread in each

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Version of the package."""
        return version(self.package)


PEERS = {
    "sklearn": Peer("scikit-learn", "sklearn", run_sklearn, (1, 3), by_processes=True),
    "gensim": Peer("gensim", "gensim", run_gensim, (1, 2), by_processes=True),
    "tomotopy": Peer("tomotopy", "tomotopy", run_tomotopy, (20, 50, 100, 200)),
    "vw": Peer("vowpalwabbit", "vowpalwabbit", run_vw, (1, 3)),
    "spark": Peer("pyspark", "pyspark", run_spark, (1, 2)),
}
