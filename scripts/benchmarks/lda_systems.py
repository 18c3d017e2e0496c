"""Systems of the LDA benchmark: ours by recipes, and other packages' LDA.

All have the same priors; `tomotopy-best` learns alpha, and `NAME-flat` has priors of 1/K.

A recipe is what a configuration file of `learn` says: `model`, `optimizer`, `data.block_rows`,
`learner.passes`, `learner.seed`; other keys of such a file do not matter here.

Every `run_*` trains on X [documents x words] and keeps its topics at the job's checkpoints. The
clock runs while it trains: conversion of X to its own format is left out. Each package is called as
its own documentation says.

Learning rates are not always a package's defaults, but what served it best among those tried, so
that no package loses by a bad default. Perplexity after one pass over 36,824 abstracts, K=100:
gensim 1892 by default (decay 0.5, offset 1), 1585 with 0.7 and 10 (0.7, 1: 1901); VW 1667
by default (power_t 0.5, initial_t 1), 1575 with 0.7 and 1 (0.6, 1: 1602; 0.8, 1: 1578; 0.7, 10:
1924; 0.5, 10: 1705). Spark runs with its defaults: it was not at hand to try others.

Longer than 300 lines: one function for each system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from ruamel.yaml import YAML

import blocklearn as bl
from blocklearn.models import LDA
from blocklearn.optimizers import OPTIMIZERS

from . import peer_tools, system, warplda
from .process import Clock
from .system import Keeper, train_ours

PASSES = {"vb": 5, "cvb0": 5, "gibbs": 30}  # defaults of recipes
KEPT = {"model": {"assignments": "kept"}, "learner": {"passes": 300}}


def default_recipes() -> dict[str, dict[str, Any]]:
    """Return a recipe for each inference, with the package's defaults, and for kept topics."""
    inferences = get_args(LDA.model_fields["inference"].annotation)
    return {name: {"model": {"inference": name}} for name in inferences} | {"kept": KEPT}


def read_recipe(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and recipe from a YAML file, or from YAML text with an optional `name`.

    >>> read_recipe("{name: short, model: {inference: vb}, learner: {passes: 2}}")
    ('short', {'model': {'inference': 'vb'}, 'learner': {'passes': 2}})
    """
    path = Path(text)
    is_file = "{" not in text and ":" not in text
    found = YAML(typ="safe").load(path.read_text() if is_file else StringIO(text))
    if not isinstance(found, Mapping) or not isinstance(found.get("model"), Mapping):
        raise ValueError(f"--recipe {text}: must be a mapping with the key `model`.")
    recipe = dict(found)
    inference = recipe["model"].get("inference", LDA().inference)
    return str(recipe.pop("name", path.stem if is_file else inference)), recipe


def passes_of(recipe: dict[str, Any]) -> int:
    """Return a recipe's number of passes over the data."""
    inference = recipe["model"].get("inference", LDA().inference)
    return int(recipe.get("learner", {}).get("passes", PASSES.get(inference, 5)))


def checkpoints(passes: int) -> list[float]:
    """Return passes after which topics are kept.

    They are dense at first, when the peers' perplexity is reached; later each is 15 % further.

    >>> checkpoints(3)
    [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]
    >>> checkpoints(30)[-4:]
    [23.0, 26.0, 29.0, 30.0]
    """
    marks, mark = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5], 3
    while mark < passes:
        marks.append(float(mark))
        mark = max(mark + 1, int(1.15 * mark))
    return [m for m in marks if m < passes] + [float(passes)]


@dataclass(kw_only=True)
class Job(system.Job):
    """A run of one system; a checkpoint counts passes, or sweeps.

    alpha, eta: the priors; those in `recipe` replace them.
    batch: documents of a mini-batch of peers.
    seed: of all random numbers.
    """

    topics: int
    batch: int
    alpha: float
    eta: float
    seed: int = 0

    @property
    def passes(self) -> int:
        """Return the number of passes, or sweeps."""
        return int(self.checkpoints[-1])


def make_learner(job: Job, X: Any, passes: int, hooks: list[bl.Hook]) -> bl.Learner:
    """Return the learner that the job's recipe describes."""
    recipe = job.recipe
    given = {"kind": "lda", "alpha": job.alpha, "eta": job.eta} | recipe["model"]
    model = LDA(**(given | {"topics": job.topics}))
    step = recipe.get("optimizer")
    return bl.Learner(
        model,
        train=X,
        passes=passes,
        block_rows=recipe.get("data", {}).get("block_rows", "auto"),
        seed=recipe.get("learner", {}).get("seed", 0) + job.seed,
        threads=job.threads,
        optimizer=OPTIMIZERS[step["kind"]](**step) if step else None,
        hooks=hooks,
    )


def learned(learner: bl.Learner) -> dict[str, Any]:
    """Return the topics [K x V]: lambda, normalised; and alpha [K], if it is learned."""
    lam = learner.parameter("lambda")  # within a pass some rows rest
    learnt = {"alpha": learner.parameter("alpha")[0]} if "alpha" in learner.model.parameters else {}
    return {"phi": (lam / lam.sum(0)).T} | learnt


def run_ours(job: Job, X: Any) -> None:
    """Run ours, compiled by training on all rows: fewer would make blocks of other kernels."""
    keeper = Keeper(job, Clock(), learned)
    learner = train_ours(job, make_learner, [X], slice(None), keeper)
    job.settings |= learner.model.model_dump(exclude={"kind", "topics"})
    job.settings |= {
        "optimizer": None if learner.optimizer is None else learner.optimizer.model_dump(),
        "block_rows": learner.data.block_rows,
    }


def run_sklearn(job: Job, X: Any) -> None:
    """Run scikit-learn's online variational Bayes; a pass is a `partial_fit` on all rows."""
    from sklearn.decomposition import LatentDirichletAllocation

    own: dict[str, Any] = {"learning_decay": 0.7, "learning_offset": 10.0}
    own["max_doc_update_iter"] = 100
    model = LatentDirichletAllocation(
        n_components=job.topics, doc_topic_prior=job.alpha, topic_word_prior=job.eta,
        learning_method="online", batch_size=job.batch, total_samples=X.shape[0],
        evaluate_every=-1, n_jobs=job.threads, random_state=job.seed, **own,
    )  # fmt: skip
    job.settings |= own | {"dtype": "float32"}
    clock = Clock()
    for done in range(1, job.passes + 1):
        with clock:
            model.partial_fit(X)
        if done in job.checkpoints:
            topics = model.components_ / model.components_.sum(1, keepdims=True)
            job.keep(done, clock, phi=topics)


def run_gensim(job: Job, X: Any) -> None:
    """Run gensim's LdaMulticore; an update takes chunksize * workers = batch documents."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaMulticore

    clock = Clock()

    class Corpus(Sparse2Corpus):  # type: ignore[misc]
        """The corpus. The model iterates once a pass; the clock stops there."""

        passes = 0

        def __iter__(self) -> Iterator[Any]:
            if self.passes in job.checkpoints:
                with clock.stopped():
                    job.keep(self.passes, clock, phi=model.get_topics())
            self.passes += 1
            return iter(super().__iter__())

    own: dict[str, Any] = {"decay": 0.7, "offset": 10.0, "iterations": 50, "gamma_threshold": 1e-3}
    own["chunksize"] = max(1, job.batch // job.threads)
    model = LdaMulticore(
        corpus=None, num_topics=job.topics, id2word={i: str(i) for i in range(X.shape[1])},
        workers=job.threads, passes=job.passes, alpha=job.alpha, eta=job.eta, eval_every=None,
        random_state=job.seed, dtype=np.float32, **own,
    )  # fmt: skip
    job.settings |= own | {"dtype": "float32"}
    corpus = Corpus(X.T.tocsc(), documents_columns=True)
    with clock:
        model.update(corpus)
    job.keep(job.passes, clock, phi=model.get_topics())


def run_tomotopy(job: Job, X: Any, optim_interval: int = 0) -> None:
    """Run tomotopy: collapsed Gibbs sampling in memory. A checkpoint counts sweeps.

    optim_interval: sweeps between two steps of alpha; 0: it stays.
    """
    import tomotopy

    model = tomotopy.LDAModel(k=job.topics, alpha=job.alpha, eta=job.eta, seed=job.seed)
    names = np.array([str(i) for i in range(X.shape[1])], dtype=object)
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        model.add_doc(list(np.repeat(names[X.indices[a:b]], np.rint(X.data[a:b]).astype(int))))
    model.optim_interval = optim_interval
    model.burn_in = 0
    model.train(0, workers=job.threads)  # builds its tables
    job.settings |= {"isa": tomotopy.isa, "optim_interval": optim_interval}
    job.settings |= {"pass": "one sweep of all documents"}
    clock, done = Clock(), 0
    columns = np.array([int(word) for word in model.used_vocabs])
    for sweeps in map(int, job.checkpoints):
        with clock:
            model.train(sweeps - done, workers=job.threads)
        done = sweeps
        phi = np.zeros((job.topics, X.shape[1]))
        for k in range(job.topics):
            phi[k, columns] = model.get_topic_word_dist(k)
        learnt = {"alpha": np.asarray(model.alpha)} if optim_interval else {}
        job.keep(sweeps, clock, phi=phi / phi.sum(1, keepdims=True), **learnt)


def run_warplda(job: Job, X: Any) -> None:
    """Run WarpLDA: Metropolis-Hastings sweeps, a constant time for a token."""
    warplda.train(job, X, job.topics, job.alpha, job.eta)


def run_vw(job: Job, X: Any) -> None:
    """Run Vowpal Wabbit's --lda from its binary cache, on a learner and a parser thread."""
    bits = int(np.ceil(np.log2(X.shape[1])))
    # with its default ring of 256 this version crashes for a larger minibatch
    common = ["--minibatch", job.batch, "--ring_size", 4 * job.batch, "-b", bits, "--quiet"]
    options = [
        "--lda", job.topics, "--lda_alpha", job.alpha, "--lda_rho", job.eta, "--lda_D", X.shape[0],
        "--power_t", 0.7, "--initial_t", 1, "-l", 1, "--holdout_off", "--random_seed", 1 + job.seed,
        *common,
    ]  # fmt: skip
    peer_tools.run_vw(
        job, X, [""] * X.shape[0],
        ["--lda", 1, *common],  # a cache keeps the kind of its labels, so it is made with --lda
        options, Clock, lambda lines: {"phi": read_vw_topics(lines, job.topics, X.shape[1])},
    )  # fmt: skip


def read_vw_topics(lines: Sequence[str], topics: int, words: int) -> Any:
    """Return topics [K x V] of a readable model.

    Its lines are a word and its K weights, rho included.
    """
    phi, inside = np.zeros((topics, words)), False
    for line in lines:
        fields = line.split()
        inside = inside or (len(fields) == topics + 1 and fields[0] == "0")
        if inside and len(fields) == topics + 1 and int(fields[0]) < words:
            phi[:, int(fields[0])] = np.array(fields[1:], dtype=float)
    if not phi.any():
        raise ValueError("no topics found in Vowpal Wabbit's readable model")
    return phi / phi.sum(1, keepdims=True)


@contextmanager
def spark(job: Job) -> Iterator[Any]:
    """Open a session on local threads."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{job.threads}]").appName("lda")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "8g",
        "spark.local.dir": job.folder,
        "spark.driver.extraJavaOptions": "--add-modules=jdk.incubator.vector",
        "spark.sql.shuffle.partitions": str(job.threads),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def run_spark(job: Job, X: Any) -> None:
    """Run Spark MLlib's online LDA on local threads; batches are random, of similar size."""
    from pyspark.ml.clustering import LDA
    from sklearn.datasets import dump_svmlight_file

    data = job.path("spark.libsvm")
    dump_svmlight_file(X, np.zeros(X.shape[0]), str(data), zero_based=False)
    with spark(job) as session:
        reader = session.read.format("libsvm").option("numFeatures", str(X.shape[1]))
        rows = reader.load(str(data)).select("features").coalesce(job.threads).cache()
        documents = rows.count()

        def fit(iterations: int) -> Any:
            return LDA(
                k=job.topics, maxIter=iterations, optimizer="online", learningOffset=1024.0,
                subsamplingRate=min(1.0, job.batch / documents), learningDecay=0.51,
                optimizeDocConcentration=False, docConcentration=[job.alpha],
                topicConcentration=job.eta, seed=job.seed, checkpointInterval=-1,
            ).fit(rows)  # fmt: skip

        fit(2)  # warms the JVM up
        job.settings |= {"learningOffset": 1024.0, "learningDecay": 0.51, "dtype": "float64"}
        for passes in map(int, job.checkpoints):  # a run for each, from the start
            clock = Clock()
            with clock:
                model = fit(int(np.ceil(passes * documents / job.batch)))
            phi = model.topicsMatrix().toArray().T
            job.keep(passes, clock, phi=phi / phi.sum(1, keepdims=True))


@dataclass(frozen=True)
class Peer(system.Peer):
    """A package; checkpoints are passes or sweeps.

    by_processes: it starts processes; BLAS gets one thread in each.
    flat: its priors are 1/K, the default of most packages.
    """

    by_processes: bool = False
    flat: bool = False


PEERS: dict[str, system.Peer] = {
    "sklearn": Peer("scikit-learn", "sklearn", run_sklearn, (1, 3), by_processes=True),
    "gensim": Peer("gensim", "gensim", run_gensim, (1, 2), by_processes=True),
    "tomotopy": Peer("tomotopy", "tomotopy", run_tomotopy, (20, 50, 100, 200, 500, 1000)),
    "vw": Peer("vowpalwabbit", "vowpalwabbit", run_vw, (1, 3)),
    "spark": Peer("pyspark", "pyspark", run_spark, (1, 2)),
    "warplda": warplda.Programs("warplda", "warplda", run_warplda, (20, 50, 100, 200, 500)),
    "tomotopy-best": Peer(
        "tomotopy", "tomotopy", partial(run_tomotopy, optim_interval=10), (100, 300, 1000)
    ),
}
PEERS |= {
    f"{name}-flat": replace(cast(Peer, PEERS[name]), flat=True)
    for name in ("sklearn", "gensim", "vw")
}
