"""Train models one after another and write down what they allocate: a program, see `main`.

It runs with `count_allocations.c` loaded before it (LD_PRELOAD), which sees the allocations of all
threads. Large ones are looked for after the first pass, whose end is an evaluation; of models with
phases, after the first pass of the last one, whose recordings are compiled then. Bytes are counted
in the second half of a training with many small blocks.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import IterableSource, MatrixSource
from blocklearn.datasources.blocks import BlockSource, write_blocks
from blocklearn.datasources.data_kind import Reading
from blocklearn.datasources.hugectr.kinds import HugeCTRRaw
from blocklearn.datasources.text.sentences import one_word_rows
from blocklearn.learner.hooks import Hook
from blocklearn.learner.recommendation.ranking_evaluation import RankingEvaluation
from blocklearn.learner.training.scoring import TrainingScores
from blocklearn.models.glm.scoring import ranking
from tests.support.hugectr_files import write_raw

LEAST = 2**16  # bytes of an allocation that is large; blocks, parameters and scores are larger
BLAS_BUFFER = 2**25  # bytes of a work buffer of OpenBLAS, at least
ROWS, COLUMNS, BLOCK, TARGETS = 1500, 800, 512, 40
SMALL_BLOCK = 16  # rows, where bytes are counted
PASSES = 4
HELD = 600  # rows that are evaluated

Make = Callable[..., bl.Learner]
M = bl.models


class Count(Hook):
    """Counts from the end of a pass on."""

    def __init__(self, library: Any, file: int, after: int | None = None) -> None:
        """library: the counter. file: descriptor that it writes to.

        after: the pass; None: the first one of the last phase.
        """
        self._library, self._file, self._after = library, file, after
        self.blocks = 0  # trained and scored, meanwhile

    def pass_end(self, learner: Any, progress: Any) -> None:
        """Begins after that pass."""
        after = max(learner.model.phases()) if self._after is None else self._after
        if progress.pass_ == after:
            self.blocks = -progress.work.blocks - progress.scored
            self._library.armed_with(self._file, LEAST)

    def end(self, learner: Any, progress: Any) -> None:
        """Ends."""
        self._library.armed_with(-1, 0)
        self.blocks += progress.work.blocks + progress.scored


class Careless(M.LDA):
    """Copies its parameter for every block."""

    def update(self, block: Any) -> None:
        """As the model does, and besides."""
        super().update(block)
        self.parameters["lambda"].numpy()


@cache
def rows() -> Any:
    """Counts [ROWS x COLUMNS]; the first rows have six times as many as the last."""
    rng = np.random.default_rng(0)
    rates = np.geomspace(0.3, 0.05, ROWS)[:, None] * np.ones(COLUMNS)
    return sp.csr_array(rng.poisson(rates).astype(np.float32))


@cache
def labels(targets: int = TARGETS) -> Any:
    """A label of 0 or 1 for each row and target."""
    rng = np.random.default_rng(1)
    return (rows() @ rng.normal(size=(COLUMNS, targets)) > 0).astype(np.float32)


@cache
def many_rows() -> Any:
    """So many rows that scores of few targets are binned where few may be kept."""
    return sp.csr_array(sp.random(9000, COLUMNS, 0.01, dtype=np.float32, random_state=0))


def source(X: Any, Y: Any = None, weights: Any = None, block: int = BLOCK) -> MatrixSource:
    """Shuffled blocks."""
    return MatrixSource(X, targets=Y, weights=weights, block_rows=block, shuffle=True)


def plain(model: Any, held: Any = None, **fixed: Any) -> Make:
    """Learns rows without labels."""

    def make(block: int = BLOCK, **options: Any) -> bl.Learner:
        data = source(rows(), block=block)
        return bl.Learner(model, data, rows()[:HELD], block_rows=block, **fixed, **options)

    return make


def labelled(model: Any, *, dense: bool = False, **fixed: Any) -> Make:
    """Learns labels."""

    def make(block: int = BLOCK, **options: Any) -> bl.Learner:
        count = len(model.targets) if model.targets else TARGETS
        X, Y = (rows().toarray() if dense else rows()), labels(max(count, 6))
        weights = np.linspace(0.5, 1.5, ROWS).astype(np.float32)
        held = source(X[:HELD], Y[:HELD], weights[:HELD], block)
        return bl.Learner(model, source(X, Y, weights, block), held, **fixed, **options)

    return make


def stored(codec: Any, *, dense: bool = False) -> Make:
    """Learns labels from a block dataset."""

    def make(**options: Any) -> bl.Learner:
        folder = Path(tempfile.mkdtemp())
        X, Y = (rows().toarray() if dense else rows()), labels()
        write_blocks(source(X, Y), [folder / "train"], codec=codec)
        write_blocks(source(X[:HELD], Y[:HELD]), [folder / "eval"], codec=codec)
        train = BlockSource([folder / "train"], shuffle="blocks")
        return bl.Learner(M.GLM(), train, BlockSource([folder / "eval"]), **options)

    return make


def checkpointed(**options: Any) -> bl.Learner:
    """Saves a checkpoint in each pass, and one in the middle of it."""
    hook = bl.Checkpoints(tempfile.mkdtemp(), every_blocks=2)
    options["hooks"] = [*options["hooks"], hook]
    held = source(rows()[:HELD], labels()[:HELD])
    return bl.Learner(M.GLM(), source(rows(), labels()), held, **options)


def of_hugectr(**options: Any) -> bl.Learner:
    """Learns labels from HugeCTR's Raw format."""
    file = Path(tempfile.mkdtemp()) / "rows.bin"
    rng = np.random.default_rng(2)
    write_raw(file, labels(1), rng.random((ROWS, 5)), rng.integers(0, 50, (ROWS, 30)))
    kind = HugeCTRRaw(path=file, dense_dim=5, slot_size_array=[50] * 30)
    data = kind.open_source(Reading(block_rows=BLOCK, shuffle="blocks"))
    return bl.Learner(M.GLM(), data, data, **options)


def of_batches(**options: Any) -> bl.Learner:
    """Learns labels from an iterable; the batches are made beforehand."""
    X, Y = rows(), labels(2)
    made = [(X[i : i + 300], Y[i : i + 300]) for i in range(0, ROWS, 300)]
    data = IterableSource(lambda pass_: iter(made), block_rows=BLOCK)
    return bl.Learner(M.GLM(), data, source(X[:HELD], Y[:HELD]), **options)


def binned(**options: Any) -> bl.Learner:
    """Evaluates more scores than are kept."""
    ranking.MOST_KEPT = 1000
    X = many_rows()
    Y = (np.asarray(X[:, :30].toarray()) > 0).astype(np.float32)
    return bl.Learner(M.GLM(), source(X[:ROWS], Y[:ROWS]), source(X, Y), **options)


def two_sided(model: Any, *hooks: Hook) -> Make:
    """Learns rows, then columns."""

    def make(block: int = BLOCK, **options: Any) -> bl.Learner:
        options["hooks"] = [*hooks, *options["hooks"]]
        return bl.Learner(model, rows(), rows(), block_rows=block, **options)

    return make


def linked(model: Any) -> Make:
    """Learns from links among as many rows as columns."""

    def make(block: int = BLOCK, **options: Any) -> bl.Learner:
        X = rows()[:COLUMNS]
        return bl.Learner(model, X, X, block_rows=block, **options)

    return make


def of_words(model: Any) -> Make:
    """Learns from words, one in each row."""

    def make(block: int = BLOCK, **options: Any) -> bl.Learner:
        X = rows()
        words = np.random.default_rng(0).integers(-1, X.shape[1], X.shape[0]).astype(np.int32)
        texts = one_word_rows(words, X.shape[1])
        return bl.Learner(model, texts, texts, block_rows=block, **options)

    return make


MIXED = [
    M.Target(link="linear", column=0, l1=1e-3),
    M.Target(link="softmax", columns=[1, 2, 3]),
    M.Target(link="logistic", column=4, row_weights=5, rate=0.5),
    M.Target(link="poisson", column=3),
    M.Target(link="hinge", column=2, name="margin"),
]
CASES: dict[str, Make] = {
    "lda vb": plain(M.LDA(topics=40, inner_iterations=2, inference="vb")),
    "lda cvb0": plain(M.LDA(topics=40, inner_iterations=2, inference="cvb0")),
    "lda gibbs": plain(M.LDA(topics=40, inner_iterations=2, inference="gibbs")),
    "lda, best kept": plain(
        M.LDA(topics=40, inner_iterations=2), evaluation=bl.Evaluation(metric="perplexity")
    ),
    "glm logistic": labelled(M.GLM()),
    "glm softmax": labelled(M.GLM(link="softmax")),
    "glm mixed": labelled(M.GLM(targets=MIXED)),
    "glm penalties": labelled(M.GLM(l1=1e-4, l2=1e-4)),
    "glm dense": labelled(M.GLM(), dense=True),
    "glm ftrl": labelled(M.GLM(l1=1e-4), optimizer=bl.optimizers.FTRL()),
    "glm adam": labelled(M.GLM(), optimizer=bl.optimizers.Adam()),
    "glm lbfgs": labelled(M.GLM(), optimizer=bl.optimizers.LBFGS()),
    "glm binned": binned,
    "glm evaluated by blocks": labelled(
        M.GLM(l1=1e-4), evaluation=bl.Evaluation(every_blocks=2), sync_every=1
    ),
    "glm of blocks, raw": stored("raw"),
    "glm of blocks, lz4": stored("lz4"),
    "glm of dense blocks, lz4": stored("lz4", dense=True),
    "glm of checkpoints": checkpointed,
    "glm of hugectr": of_hugectr,
    "glm of batches": of_batches,
    "als cg": two_sided(M.ALS(rank=32, solver="cg")),
    "als cholesky": two_sided(M.ALS(rank=32, solver="cholesky")),
    "als implicit": two_sided(M.ALS(rank=32, loss="implicit")),
    "als ranked": two_sided(M.ALS(rank=32, loss="implicit"), RankingEvaluation()),
    "ranking": two_sided(M.Ranking(rank=32), RankingEvaluation()),
    "fm": labelled(M.FM(factors=8)),
    "kmeans": plain(M.KMeans(clusters=40)),
    "kmeans batch": plain(M.KMeans(clusters=40, update_centres="batch", spherical=True)),
    "svd": plain(M.SVD(components=40, center=True)),
    "mixture": plain(M.GaussianMixture(components=40)),
    "mixture full": plain(M.GaussianMixture(components=3, covariance="full")),
    "pagerank": linked(M.PageRank()),
    "pagerank of targets": linked(M.PageRank(rows="targets")),
    "components": linked(M.Components()),
    "triangles": linked(M.Triangles()),
    "word vectors": of_words(M.WordVectors(dimensions=40)),
    "nmf frobenius": plain(M.NMF(components=40)),
    "nmf kullback-leibler": plain(M.NMF(components=40, loss="kullback-leibler")),
}
IN_BYTES = [
    "lda vb",
    "lda cvb0",
    "lda gibbs",
    "glm logistic",
    "glm lbfgs",
    "als cg",
    "als cholesky",
    "als ranked",
    "nmf frobenius",
]
CONTROL: dict[str, Make] = {
    "careless": plain(Careless(topics=40, inner_iterations=1, inference="vb"))
}

NOT_SCORED = patch.object(TrainingScores, "due", return_value=False)
"""Training data are not scored: the clock decides which blocks would be interpreted for it."""


def of_blas(allocation: str) -> bool:
    """Whether it is a work buffer of OpenBLAS: one for each thread that computes at a time.

    OpenBLAS maps one when more threads call it at once than ever before, so threads decide when.
    No container of these trainings is as large.
    """
    size, how = allocation.partition("\n")[0].split()
    return how == "mmap" and int(size) >= BLAS_BUFFER


def allocations(make: Make, library: Any, replicas: int) -> list[str]:
    """What is allocated after the first pass: bytes, function and the Python lines of each."""
    with tempfile.TemporaryFile("w+") as log, NOT_SCORED:
        hooks = [Count(library, log.fileno())]
        learner = make(passes=3, threads=2, replicas=replicas, hooks=hooks)
        learner.fit()
        learner.close()
        log.seek(0)
        found = log.read().split("allocated ")[1:]
        return [allocation for allocation in found if not of_blas(allocation)]


def bytes_a_block(make: Make, library: Any, replicas: int) -> float:
    """What is allocated for a block in the second half, evaluations included."""
    with tempfile.TemporaryFile() as log, NOT_SCORED:
        count = Count(library, log.fileno(), after=PASSES // 2 - 1)
        settings: Any = {"passes": PASSES, "threads": 2, "replicas": replicas, "hooks": [count]}
        learner = make(block=SMALL_BLOCK, **settings)
        learner.fit()
        learner.close()
        return float(library.allocated_bytes() / count.blocks)


def main() -> None:
    """Writes what cases allocate as JSON: `large` for all cases, `bytes` for some.

    Argument: number of replicas.
    """
    library = ctypes.CDLL(None)
    library.armed_with.argtypes = [ctypes.c_int, ctypes.c_size_t]
    library.allocated_bytes.restype = ctypes.c_size_t
    pa.set_memory_pool(pa.system_memory_pool())  # so that each of its allocations is seen
    replicas, cases = int(sys.argv[1]), CASES | CONTROL
    found = {
        "large": {name: allocations(case, library, replicas) for name, case in cases.items()},
        "bytes": {
            name: bytes_a_block(cases[name], library, replicas) for name in [*IN_BYTES, *CONTROL]
        },
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
