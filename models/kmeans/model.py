"""Cluster rows by k-means.

All rows before each step: Lloyd, *Least squares quantization in PCM*, IEEE Trans. Inf. Theory 28
(1982). Block by block: Sculley, *Web-scale k-means clustering*, WWW 2010; here earlier blocks are
forgotten, as their rows had other nearest centres. Directions: Dhillon, Modha, *Concept
decompositions for large sparse text data*, Machine Learning 42 (2001).
Differs from scikit-learn's KMeans and MiniBatchKMeans: k-means++ draws from a sample of the rows,
and a centre without rows stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from blocklearn.datasources import DataSource
from blocklearn.matcache import (
    Column,
    Mat,
    Matrix,
    Row,
    Rows,
    Table,
    argmax,
    colsum,
    equal,
    from_array,
    maximum,
    rowmax,
    rowsum,
    rowwise,
    sqrt,
    total,
)
from blocklearn.matcache.notation.functions import TINY

from ..base import Model
from ..block_size import BlockSize
from ..inputs import Block, Drawn, Needs, Randomness, Shapes
from ..score import Score, Sum
from ..term_weights import TermWeights, keep_weights, weighed
from .scaled import ScaledCentres
from .start import columns_in, first_centres, rows_among, rows_to_draw_from


@rowwise
def nearest(
    products: Rows, half: Row, numbers: Row, weights: Column
) -> tuple[Rows, Column, Column]:
    """Return the weight at the nearest centre [rows x k], its number, and x.c - |c|^2 / 2.

    Of equally near ones, it is the first.

    products: [rows x k], x.c of every centre.
    half: [1 x k], |c|^2 / 2.
    numbers: [1 x k], 0 to k - 1.
    """
    scores = products - half
    first = argmax(scores)
    return equal(numbers, first) * weights, first, rowmax(scores)


@rowwise
def nearest_alone(products: Rows, half: Row) -> Column:
    """Return the number of the nearest centre of each row: see `nearest`."""
    return argmax(products - half)


class KMeans(Model):
    """Finds centres of clusters: each row belongs to the centre nearest to it.

    The parameter `centres` [columns x k] holds one centre in each column; `counts` [1 x k] has the
    weight of the rows that made it. The objective is the sum of weighted squared distances between
    rows and their centres.

    If `spherical`, rows count as directions: they and the centres have length 1, and the objective
    is the sum of 1 - cosine. Rows without entries then belong to the first centre, and neither move
    it nor count.
    """

    scores_new_rows: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = True
    prediction_columns: ClassVar[Sequence[str] | None] = ("cluster",)
    block_size: ClassVar[BlockSize] = BlockSize(16, most=4096)  # faster; centres are hardly worse
    kind: Literal["kmeans"] = "kmeans"
    clusters: int = Field(8, ge=1, le=2**24, description="number of centres, k")
    update_centres: Literal["online", "batch"] = Field(
        "online",
        description="online: centres move after each block; batch: once a pass, and never raise "
        "the objective",
    )
    forget: float = Field(
        0.3, gt=0, le=1, description="online: share of a block's weight that remains a pass later"
    )
    spherical: bool = Field(False, description="compare directions of rows, not positions")
    term_weights: TermWeights = "none"

    @property
    def needs(self) -> Needs:
        """Enough rows to draw the first centres from."""
        return Needs(sample=rows_to_draw_from(self.clusters))

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with weighed entries, if `term_weights` says so."""
        return weighed(self, self.term_weights, source, train=train)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the centres, from a sample of the rows, and the statistics."""
        d, k = shapes.columns, self.clusters
        if shapes.sample is None:
            self.centres = self.parameter("centres", d, k)
        else:
            occur, X = columns_in(shapes.sample.X)
            if self.cache.reserving:  # there is no memory for them yet
                first = np.zeros((k, X.shape[1]), np.float32)
            else:
                first = first_centres(X, shapes.sample.weights, k, rng.seed, self.spherical)
            first = first.T[: len(occur)]
            drawn = Drawn(0.0, partial(rows_among, occur, first))
            self.centres = self.parameter("centres", d, k, drawn)
            if d != self.setting.rows_in_files:
                self.centres.set_rows(occur, first)
        self.counts = self.parameter("counts", 1, k)
        if self.update_centres == "batch":
            self.sums, self.members = self.statistic("sums", d, k), self.statistic("members", 1, k)
        self.numbers = from_array(self.cache, np.arange(k, dtype=np.float32)[None], "numbers")
        self.keep = self.number("what is kept of the counts")
        rests = self.few_occur and self.update_centres == "online"
        self.scaled = ScaledCentres(self, self.centres) if rests else None
        keep_weights(self, self.term_weights, shapes)

    def update(self, block: Block) -> None:
        """Move each centre towards the rows that are nearest to it, or add them to its sums."""
        if self.scaled is not None:
            self.update_scaled(block, self.scaled)
            return
        Z, C = self.centred(block.X)
        lengths = self.lengths(Z)
        near, _, _ = self.nearest(Z, C, self.shares(block, lengths))
        members = colsum(near * lengths)
        apart = Z.T @ near - members * C
        if self.update_centres == "batch":
            self.sums <<= self.sums + apart
            self.members <<= self.members + members
            return
        self.keep.set(self.forget ** (block.rows / block.whole_rows))
        self.counts <<= self.keep * self.counts + members
        self.move(apart / maximum(self.counts, TINY))

    def update_scaled(self, block: Block, centres: ScaledCentres) -> None:
        """Do what `update` does online, to the columns that occur in the block."""
        X, lengths = block.X, self.lengths(block.X)
        near = self.nearest(X, self.centres, self.shares(block, lengths))[0].mat()
        members = colsum(near * lengths).mat()
        self.keep.set(self.forget ** (block.rows / block.whole_rows))
        self.counts <<= self.keep * self.counts + members
        pace = (1.0 / maximum(self.counts, TINY)).mat()
        centres.step(X, near, 1.0 - members * pace, pace, directions=self.spherical)

    def end_pass(self) -> None:
        """Move each centre to the mean of the rows that were nearest to it, in batch mode.

        Scaled centres are made exact here, whatever the scales: a pass that reads them to decide is
        not repeated from a recording.
        """
        if self.scaled is not None and not self.setting.elsewhere:
            self.scaled.settle()
        if self.update_centres == "batch":
            self.move(self.sums / maximum(self.members, TINY))
            self.counts <<= self.members
            self.sums <<= 0.0
            self.members <<= 0.0

    def move(self, step: Table) -> None:
        """Add `step` [columns x k] to the centres; if `spherical`, give them length 1."""
        C = self.centres
        C <<= C + step
        if self.spherical:
            C <<= C / maximum(sqrt(colsum(C * C)), TINY)

    def centred(self, X: Matrix) -> tuple[Matrix, Table]:
        """Return the rows and the centres, both without the mean of the centres, if X is dense.

        Distances are differences of squares, and numbers around 0 keep more digits of them.
        """
        if X.pattern is not None or self.spherical:
            return X, self.centres
        origin = (rowsum(self.centres) / float(self.clusters)).mat()
        return (X - origin.T.mat()).mat(), (self.centres - origin).mat()

    def nearest(self, Z: Matrix, C: Table, weights: Column) -> tuple[Rows, Column, Column]:
        """Return the weight at the nearest centre, its number, and x.c - |c|^2 / 2."""
        found: tuple[Rows, Column, Column] = nearest(*self.products(Z, C), self.numbers, weights)
        return found

    def products(self, Z: Matrix, C: Table) -> tuple[Rows, Row]:
        """Return x.c of every centre, and |c|^2 / 2."""
        rests = self.scaled
        squares = colsum(C * C) if rests is None else rests.squares
        half = self.numbers * 0.0 if self.spherical else squares * 0.5
        return (Z @ C).mat() if rests is None else rests.products(Z), half

    def settle(self) -> None:
        """Make the centres exact."""
        if self.scaled is not None and (self.cache.reserving or self.scaled.scaled):
            self.scaled.settle()

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the centres, and what they are scaled by."""
        if self.scaled is None or not (ever or self.scaled.scaled):
            return []
        return [self.centres, self.scaled.scales, self.scaled.squares]

    @property
    def at_rest(self) -> Mapping[str, ScaledCentres]:
        """The centres, if each block changes only the rows that occur in it."""
        return {} if self.scaled is None else {"centres": self.scaled}

    def settled_elsewhere(self) -> None:
        """Note that the centres are exact."""
        if self.scaled is not None:
            self.scaled.scales <<= 1.0

    def resumed(self) -> None:
        """Measure the centres, which may be those of a saved model, or means of replicas."""
        if self.scaled is not None and not self.scaled.scaled:
            self.scaled.measure()

    def lengths(self, X: Matrix) -> Column | float:
        """Return the lengths of the rows [rows x 1] if `spherical`, else 1."""
        return maximum(sqrt(rowsum(X * X)), TINY) if self.spherical else 1.0

    def shares(self, block: Block, lengths: Column | float) -> Column:
        """Return the weight of each row over its length; 0 if it has no direction and needs one."""
        shares: Column = block.weights / lengths
        return shares * (lengths > TINY) if self.spherical else shares

    def score(self, block: Block) -> Score:
        """Score how far rows are from their centres; smaller is better.

        mean_squared_distance: mean of |x - c|^2.
        mean_cosine_distance: mean of 1 - cosine, if `spherical`.
        """
        (Z, C), weights = self.centred(block.X), block.weights
        _, _, best = self.nearest(Z, C, weights)
        if self.spherical:
            lengths = self.lengths(Z)
            cosine = best / lengths * (lengths > TINY)  # 0 for rows without a direction
            far, name = 1.0 - cosine, "mean_cosine_distance"
        else:
            far, name = maximum(rowsum(Z * Z) - 2.0 * best, 0.0), "mean_squared_distance"
        return {name: Sum(total(weights * far), total(weights))}

    def predict(self, block: Block) -> Mat:
        """Return the number of the nearest centre of each row [rows x 1]."""
        numbers: Mat = nearest_alone(*self.products(*self.centred(block.X))).mat()
        return numbers
