"""Count the triangles of a graph: for each link, the pages that both its ends link to.

Schank, Wagner, *Finding, counting and listing all triangles in large graphs*, WEA 2005 (edge
iterator). Parts of a graph larger than memory meet in pairs, as in Suri, Vassilvitskii, *Counting
triangles and the curse of the last reducer*, WWW 2011. Differs: links lead to the larger page
number; `masked_product` looks up the shorter list in the longer one where they differ much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from blocklearn.datasources import DataSource
from blocklearn.datasources.sampling.pairs import PairSource
from blocklearn.matcache import Mat, masked_product, ones_like, rowsum, total

from .inputs import Block, Randomness, Shapes
from .link_model import LinkModel
from .score import Score, Sum


class Triangles(LinkModel):
    """Counts triangles: three pages that all link to each other, in whichever direction.

    X is square: a stored entry (i, j), not negative, is a link between page i and page j. The
    parameter `triangles` [columns x 1] has the number of triangles at each page, exact up to 2^24.
    Training is one pass over all pairs of halves of blocks, so only two need to be in memory.
    Weights of rows are ignored.
    """

    takes_counts: ClassVar[bool] = True  # sparse, and not negative
    prediction_columns: ClassVar[Sequence[str] | None] = ("triangles",)
    kind: Literal["triangles"] = "triangles"

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return pairs of parts of `source` to train on, else `source`."""
        return PairSource(source) if train else source

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the counts."""
        n = self.number_of_pages(shapes)
        self.half = shapes.rows // 2
        self.triangles = self.parameter("triangles", n, 1)
        self.counts = self.statistic("counts", n, 1, np.float64)
        self.counted = self.parameter("counted", 1, 1, merge="max", saved=False)

    def update(self, block: Block) -> None:
        """Count triangles i < j < k with page i in the first part and page j in the second."""
        at = self.pages(block).mat()
        i, j = at[: self.half].mat(), at[self.half : 2 * self.half].mat()
        first, second = block.X[: self.half], block.X[self.half : 2 * self.half]
        between = first[:, j]  # links from i to j; nothing leads to page 0, which padding takes
        largest = masked_product(between, second, first)  # by i and k: how many pages j
        middle = masked_product(first, second.T, between)  # by i and j: how many pages k
        self.counts[i] += rowsum(middle)
        self.counts[j] += middle.T @ ones_like(rowsum(middle))
        self.counts <<= self.counts + largest.T @ ones_like(rowsum(largest))

    def end_pass(self) -> None:
        """Take over the counts."""
        self.triangles <<= self.counts
        self.counted <<= 1.0

    @property
    def converged(self) -> bool:
        """Whether a pass has ended: one is enough."""
        return bool(self.counted.numpy()[0, 0])

    def score(self, block: Block) -> Score:
        """Count the triangles of the graph."""
        found = total(self.triangles) / 3.0
        return {"triangles": Sum(found, ones_like(found))}

    def predict(self, block: Block) -> Mat:
        """Return the triangles at each row's page [rows x 1]."""
        found: Mat = self.triangles[self.pages(block)].mat()
        return found
