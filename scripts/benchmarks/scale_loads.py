"""Models whose tables are merged: the time of a block, measured, and the rows that it touches."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import blocklearn as bl
from blocklearn.learner.engines.lines import LINE

from .data import power_law
from .scale_needed import whole_settle_seconds

FEW, TEXTS, CLICKS = 4, 16, 128
"""Blocks of a short pass, and of long ones of LDA and of the GLM: their difference is timed."""


@dataclass(frozen=True)
class Workload:
    """A model whose table is merged.

    - rows, width: of the table, in float32.
    - tokens: non-zeros of a block. block: seconds in which one thread trains on it.
    - tables: how many such tables are merged.
    - settle: seconds in which one thread brings rows up to date that rest; 0: none do.
    """

    name: str
    rows: int
    width: int
    tokens: int
    block: float
    tables: int = 1
    settle: float = 0.0

    @property
    def lines(self) -> int:
        """The lines of a table."""
        return -(-self.rows * self.width // LINE)

    def touched(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw the rows that a block touches, ascending."""
        words = zipf(rng, self.rows, self.tokens)
        if self.width < LINE:  # features are hashed: frequent ones are not neighbours
            words = words * 2654435761 % self.rows
        return distinct(words).astype(np.int32)

    def lines_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lines of rows, ascending."""
        if self.width < LINE:
            return distinct(rows * self.width // LINE)
        each = -(-self.width // LINE)
        return (rows[:, None] * each + np.arange(each)).reshape(-1)


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers, each once, ascending: faster than `np.unique`."""
    found = np.sort(numbers)
    return found[np.diff(found, prepend=-1) > 0]


def zipf(rng: np.random.Generator, rows: int, count: int) -> NDArray[np.int64]:
    """Draw words with the probabilities of `data.power_law`, by the integral of its density."""
    power, shift = 0.07, 2.7
    low, high = shift**-power, (rows + shift) ** -power
    drawn = (low - rng.random(count) * (low - high)) ** (-1 / power) - shift
    return np.minimum(drawn.astype(np.int64), rows - 1)


def workloads(args: argparse.Namespace, rows: int) -> list[Workload]:
    """Train on some blocks of each, to know their time: that of LDA grows with the topics."""
    texts, clicks = power_law(TEXTS * rows, args.words), hashed(CLICKS * rows, args.features)
    y = (np.random.default_rng(0).random(clicks.shape[0]) < 0.5).astype(np.float32)

    def lda(blocks: int) -> bl.Learner:
        model = bl.models.LDA(topics=args.trained_topics, inference="vb")
        return bl.Learner(model, texts[: blocks * rows], block_rows=rows, threads=1, verbose=False)

    def glm(blocks: int) -> bl.Learner:
        return bl.Learner(
            bl.models.GLM(),
            (clicks[: blocks * rows], y[: blocks * rows]),
            optimizer=bl.optimizers.AdaGrad(step_per="row"),
            block_rows=rows,
            threads=1,
            verbose=False,
        )

    more = args.topics / args.trained_topics
    settle = whole_settle_seconds(args.words, args.topics)
    block = more * block_seconds(lda, TEXTS)
    return [
        Workload("LDA", args.words, args.topics, texts.nnz // TEXTS, block, settle=settle),
        Workload("GLM", args.features, 1, clicks.nnz // CLICKS, block_seconds(glm, CLICKS), 2),
    ]


def hashed(rows: int, features: int) -> sp.csr_array:
    """Return rows of about 100 features, drawn by Zipf's law: frequent ones are not neighbours."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(np.maximum(1, rng.lognormal(np.log(100) - 0.125, 0.5, rows)).astype(np.int64))
    drawn = zipf(rng, features, int(ends[-1])) * 2654435761 % features
    ones, starts = np.ones(drawn.size, np.float32), np.concatenate([[0], ends])
    X = sp.csr_array((ones, drawn.astype(np.int32), starts), (rows, features))
    X.sum_duplicates()
    return X


def block_seconds(made: Callable[[int], bl.Learner], many: int) -> float:
    """Return the processor seconds that a pass takes for each block, without those of its end.

    made: returns a learner that has so many blocks. many: blocks of the long pass.
    """
    short, long = (pass_seconds(made(blocks)) for blocks in (FEW, many))
    return (long - short) / (many - FEW)


def pass_seconds(learner: bl.Learner) -> float:
    """Return the processor seconds of a pass: the least of three after the first."""
    found = []
    for passes in range(1, 5):
        learner.passes = passes
        begun = time.process_time()
        learner.fit()
        found.append(time.process_time() - begun)
    learner.close()
    return min(found[1:])
