"""Learn vectors of words from the words around them: skip-gram with negative sampling.

Mikolov, Sutskever, Chen, Corrado, Dean, *Distributed representations of words and phrases and their
compositionality*, NIPS 2013. Words of a window share its negatives: Ji, Satish, Li, Dubey,
*Parallelizing word2vec in shared and distributed memory*, IEEE TPDS 30 (2019). Differs from
word2vec: steps are those of blocks, so threads change no bit.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from blocklearn.datasources import DataSource
from blocklearn.datasources.sampling.windows import Windows, WindowSource, counts_of, kept_share
from blocklearn.matcache import (
    Draws,
    Mat,
    Number,
    Rows,
    Sparse,
    Table,
    alias_table,
    copy,
    from_array,
    maximum,
    rowdot,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
    sqrt,
    total,
    where,
)

from .base import Model
from .inputs import Block, Randomness, Shapes
from .score import Score, Sum

LEAST = 1e-4  # of the rate, as a share of the first one
LONGEST = 0.25  # way of a vector in a block; it is long for words that occur often


class WordVectors(Model):
    """Learns a vector for each word, from which the words around it can be told.

    A row of the data is a word of a text, with one entry in its column; an empty row ends a text.
    For a word c, the words o around it, and random words n of weight w_n (see `WindowSource`), the
    loss is sum_o -log sigmoid(v_c . u_o) - sum_n w_n log sigmoid(-v_c . u_n).

    Parameters, by word: `vectors` [words x dimensions], v; `contexts`, u, likewise; `counts`
    [words x 1], how often the word occurs. Each block makes one gradient step, in which no vector
    moves farther than `LONGEST`. The rate falls to 0 with the words that were seen.
    """

    scores_new_rows: ClassVar[bool] = True
    rows_in_order: ClassVar[bool] = True
    kind: Literal["word-vectors"] = "word-vectors"
    dimensions: int = Field(100, ge=1, description="length of a vector")
    window: int = Field(5, ge=1, le=1000, description="words to each side that count as near")
    negatives: float = Field(5, gt=0, le=1000, description="weight of random words, per near word")
    draws: int = Field(15, ge=1, le=1000, description="random words drawn for a whole window")
    popularity: float = Field(0.75, ge=0, le=2, description="draw words by counts to this power")
    sample: float = Field(
        1e-3, ge=0, le=1, description="skip words above this share at random; 0: no"
    )
    rate: float = Field(0.05, gt=0, lt=1e3, description="size of the first steps")

    def rows_of_block(self, rows: int | None) -> int:
        """Return a few thousand words; fewer would leave a step too little to do."""
        return 2048

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return windows of the words of `source` to train on, else `source`."""
        if not train:
            return source
        counts = counts_of(source)
        self.remember("counts", counts[:, None].astype(np.float32))
        sizes = self.window, self.negatives, self.draws, self.popularity, self.sample
        return WindowSource(source, counts, Windows(*sizes), seed)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Set the vectors to small random numbers and the contexts to 0."""
        V, k = shapes.columns, self.dimensions
        self.vectors = self.parameter("vectors", V, k, (rng.uniform(V, k) - 0.5) / float(k))
        self.contexts = self.parameter("contexts", V, k)
        found = self.recalled("counts")
        counts = np.ones((V, 1)) if found is None else found.astype(np.float64)
        self.counts = self.parameter("counts", V, 1, counts, merge="max")
        self.seen = self.statistic("seen", 1, 1)
        self.words = shapes.passes * float((kept_share(counts, self.sample) * counts).sum())
        self.key = from_array(self.cache, np.zeros((1, 3), np.int64), "key of scores")

    def update(self, block: Block) -> None:
        """Step the vectors of the block's words, and the contexts of the words around them."""
        rate = (self.rate * maximum(1.0 - self.seen / self.words, LEAST)).mat()
        v = copy(self.vectors[block.Y]).mat()
        slopes, ways = skip_gram(block.X, v, self.contexts)
        step_contexts(slopes.T, self.contexts, v, rate)
        self.vectors[block.Y] += rate * ways
        self.vectors[block.Y] <<= v + shortened(self.vectors[block.Y] - v)  # rows may share a word
        self.seen <<= self.seen + total(block.weights)

    def score(self, block: Block) -> Score:
        """Score how well words tell the next word of their text.

        above_random: share of words whose next word scores above a random word, which is drawn by
            popularity.
        """
        words, following = rowsum(block.X).mat(), (block.X @ self.contexts).mat()[1:]
        v = (block.X @ self.vectors).mat()[:-1]
        drawn = Draws(self.key).choice((v.shape[0], 1), alias_table(self.counts**self.popularity))
        found = rowdot(v, following) > rowdot(v, self.contexts[drawn])
        pairs = (block.weights[:-1] * words[:-1] * words[1:]).mat()
        return {"above_random": Sum(total(pairs * found), total(pairs))}

    def predict(self, block: Block) -> Mat:
        """Return the mean of the vectors of each row's words [rows x dimensions]."""
        mean: Mat = (block.X @ self.vectors / maximum(rowsum(block.X), 1.0)).mat()
        return mean


@rowwise
def skip_gram(X: Sparse, v: Rows, U: Table) -> tuple[Sparse, Rows]:
    """Return the slopes of the loss by the scores, downhill, and those by v.

    X: words of each window, numbers above 0, and random words, minus their weights.
    v: [rows x dimensions], of the words in the middle.
    """
    scores = sddmm(v, U, X)
    slopes = X * sigmoid(where(X > 0.0, -1.0 * scores, scores))
    return slopes, slopes @ U


@rowwise
def step_contexts(slopes: Sparse, u: Rows, v: Table, rate: Number) -> None:
    """Step the contexts of words that occur in the block.

    slopes: [words x rows].
    """
    u <<= u + shortened(rate * (slopes @ v))


def shortened(way: Rows) -> Rows:
    """Return each row, made shorter if it is longer than `LONGEST`."""
    return way / maximum(1.0, sqrt(rowdot(way, way)) / LONGEST)
