"""Factorise non-negative data: X ~ W H.T.

Frobenius loss, by coordinate descent: Cichocki, Phan, *Fast local algorithms for large scale
nonnegative matrix and tensor factorizations*, IEICE Trans. E92-A (2009). KL loss, by multiplicative
updates: Lee, Seung, *Algorithms for non-negative matrix factorization*, NIPS 2000; L2 by the exact
minimiser of the majoriser. Block by block, forgetting older ones: Lefèvre, Bach, Févotte, *Online
algorithms for NMF with the Itakura-Saito divergence*, WASPAA 2011. Differs from scikit-learn's
MiniBatchNMF: the Frobenius loss remembers X.T W and W.T W, which do not depend on H.

Longer than 300 lines: both losses share the statistics, and their start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray
from pydantic import Field

from blocklearn.datasources import DataSource
from blocklearn.matcache import (
    Column,
    Mat,
    Matrix,
    Number,
    Row,
    Rows,
    Table,
    colsum,
    from_array,
    full,
    gram,
    maximum,
    nonnegative_steps,
    rowsum,
    sddmm,
    total,
)
from blocklearn.matcache.notation.functions import TINY

from ..base import Merge, Model
from ..block_size import BlockSize
from ..errors import ModelConfigError
from ..inputs import Block, Drawn, Needs, Randomness, Shapes
from ..relevance import relevant_words
from ..score import Score, Sum
from ..term_weights import TermWeights, keep_weights, weighed
from .resting import RestingParts
from .rules import (
    FLOOR,
    frobenius_losses,
    frobenius_step,
    kl_losses,
    kl_step,
    kl_steps,
)

Weight = Annotated[float, Ge(0), Lt(1e30)]


class NMF(Model):
    """Learns the parts of non-negative data: X [rows x columns] ~ W [rows x K] @ H.T.

    The parameter `H` [columns x K] holds one part in each column. W is the state of the rows. Both
    are non-negative. The objective is the sum over rows, with their weights, of

        loss(x, w H.T) + l1_W ||w||_1 + l2_W / 2 ||w||^2  +  l1_H ||H||_1 + l2_H / 2 ||H||^2,

    where loss is ||x - p||^2 / 2, or the divergence sum_j x_j log(x_j / p_j) - x_j + p_j, and
    p = w H.T.
    scikit-learn's alpha_W is l1_W / (columns * l1_ratio), its alpha_H is l1_H / l1_ratio.
    """

    nonnegative: ClassVar[bool] = True
    scores_new_rows: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = True
    row_states: ClassVar[Mapping[str, int]] = {"W": 0}
    takes_terms: ClassVar[Sequence[str]] = ("H",)
    needs: ClassVar[Needs] = Needs(value_sums=True, initial=True)  # H starts at the data's scale
    kind: Literal["nmf"] = "nmf"
    components: int = Field(20, ge=1, description="number of parts, K")
    loss: Literal["frobenius", "kullback-leibler"] = Field(
        "frobenius", description="kullback-leibler is the likelihood of counts"
    )
    update_H: Literal["online", "batch"] = Field(
        "online",
        description="online: H moves after each block; batch: once a pass, and never raises the "
        "objective",
    )
    forget: float = Field(
        0.3, gt=0, le=1, description="online: share of a block's weight that remains a pass later"
    )
    term_weights: TermWeights = "none"
    inner_iterations: Annotated[int, Ge(1)] | None = Field(
        None,
        description="updates of W for each block; with frobenius also of H, each time it moves "
        "(online fewer, if H has more rows than a block). null: 5 with frobenius, 3 with "
        "kullback-leibler",
    )
    l1_W: Weight = Field(0.0, description="penalty on the sum of a row's weights")
    l2_W: Weight = Field(0.0, description="penalty on half the sum of squares of a row's weights")
    l1_H: Weight = Field(0.0, description="penalty on the sum of H")
    l2_H: Weight = Field(0.0, description="penalty on half the sum of squares of H")

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with weighed counts, if `term_weights` says so."""
        return weighed(self, self.term_weights, source, train=train)

    @property
    def _kl(self) -> bool:
        return self.loss == "kullback-leibler"

    def rows_of_block(self, rows: int | None) -> int:
        """Return larger blocks for squared errors, which fewer steps make small."""
        if rows is None or self._kl:
            return super().rows_of_block(rows)
        return BlockSize(8).of(rows)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create H [columns x K], random, for a W of about 1, and the statistics.

        In online mode the statistics start with one pseudo-row of average size that H reconstructs
        exactly. H therefore keeps its initial value until real rows outweigh it, and in columns
        that no row uses. Results do not depend on the scale of the data.
        """
        columns, K = shapes.columns, self.components
        self.steps = self.inner
        if self.online:  # updates of H must cost no more than those of W
            self.steps = min(self.inner, max(1, self.inner * shapes.rows // columns))
        scale = 2.0 * math.sqrt(mean_of(shapes) / K)
        drawn = rng.drawn(columns, K, lambda u: larger(scale * u, FLOOR))
        self.H = self.parameter("H", columns, K, drawn)
        merge: Merge = "mean" if self.online else "sum"  # decayed sums do not add up
        weight = scale / 2.0 if self._kl else scale**2 / 4.0  # frobenius sums squares of weights
        trace = TRACE * weight if self.online else 0.0
        if self._kl:
            pull = Drawn(trace * self.H, lambda rows: np.float32(trace) * drawn.rows(rows))
        else:
            pull = trace * full(self.H, rowsum(self.H))
        # frobenius: X.T W and W.T W; KL: H * (X / P).T W and the column sums of W
        self.pull = self.parameter("pull", columns, K, pull, merge=merge)
        self.push = self.parameter("push", 1 if self._kl else K, K, trace, merge=merge)
        self.mass = self.parameter("mass", 1, 1, merge=merge)  # weight of the rows in these sums
        rests = self.few_occur and self._kl and self.online and not self.l2_H
        self.resting_parts = RestingParts(self, self.H, self.pull) if rests else None
        self.W = self.row_state("W", shapes, K, 1.0)
        self.guess = self.scratch("W of new rows", shapes.rows, K)
        self.identity = from_array(self.cache, np.eye(K, dtype=np.float32), "identity")
        self.keep = self.number("what is kept of the statistics")
        keep_weights(self, self.term_weights, shapes)

    def update(self, block: Block) -> None:
        """Improve the weights of the block's rows, and add the rows to the statistics."""
        W = self.W.rows
        X, H, sums = self.parts(block.X, resting=True)
        self.solve(X, W, H, sums, self.inner)
        weighted = (W * block.weights).mat()
        self.keep.set(self.forget ** (block.rows / block.whole_rows) if self.online else 1.0)
        if self.sums_at_rest:
            self.sums_at_rest.add(X / self.fit(X, W, H), weighted, H, self.keep)
            push = colsum(weighted)
        else:
            if self._kl:
                pull, push = H * ((X / self.fit(X, W, H)).T @ weighted), colsum(weighted)
            else:
                pull, push = X.T @ weighted, W.T @ weighted
            self.pull <<= self.keep * self.pull + pull
        self.push <<= self.keep * self.push + push
        self.mass <<= self.keep * self.mass + total(block.weights)
        if self.online and not self.sums_at_rest:
            self.improve()

    def end_pass(self) -> None:
        """Update H from all rows of the pass, and reset the sums, in batch mode."""
        if not self.online:
            self.improve()
            for sums in (self.pull, self.push, self.mass):
                sums <<= 0.0

    @property
    def sums_at_rest(self) -> RestingParts | None:
        """The sums whose rows rest while their columns do not occur; None: none do."""
        return None if self.split_terms else self.resting_parts

    @property
    def slope(self) -> Row:
        """The column sums of W, and the penalty on H: H is pull / slope."""
        return self.push + self.mass * self.l1_H

    def settle(self) -> None:
        """Make H and its sums exact."""
        if self.sums_at_rest and (self.cache.reserving or self.sums_at_rest.behind):
            self.sums_at_rest.settle(self.slope)

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return H and its sums."""
        return (
            self.sums_at_rest.changing
            if self.sums_at_rest and (ever or self.sums_at_rest.behind)
            else []
        )

    @property
    def at_rest(self) -> Mapping[str, RestingParts]:
        """The sum that decays, of which H follows."""
        return {"pull": self.sums_at_rest} if self.sums_at_rest else {}

    @property
    def derived(self) -> Sequence[str]:
        """H, where it follows from sums whose rows rest."""
        return ["H"] if self.sums_at_rest else []

    def derive(self) -> None:
        """Make H."""
        if self.sums_at_rest:
            self.sums_at_rest.derive(self.slope)

    def settled_elsewhere(self) -> None:
        """Note that the sums are exact."""
        if self.sums_at_rest:
            self.sums_at_rest.settled_elsewhere()

    def resumed(self) -> None:
        """Make H of its sums, which may be those of a saved model, or means of replicas."""
        if self.sums_at_rest and self.setting.trains and not self.sums_at_rest.behind:
            self.sums_at_rest.measure(self.slope)

    @property
    def online(self) -> bool:
        """Whether H moves after each block."""
        return self.update_H == "online"

    @property
    def inner(self) -> int:
        """The number of updates of W per block."""
        return self.inner_iterations or (3 if self._kl else 5)

    @property
    def has_resting_rows(self) -> bool:
        """See `Model.has_resting_rows`."""
        return self.sums_at_rest is not None

    def parts(self, X: Matrix, *, resting: bool) -> tuple[Matrix, Table, Row]:
        """Return X, a table H for its columns, and the column sums of H.

        resting: whether H may be behind its sums.
        """
        if self.sums_at_rest and resting:
            return self.sums_at_rest.of(X, self.slope)
        return X, self.H, colsum(self.H)

    def solve(self, X: Matrix, W: Mat, H: Table, sums: Row, iters: int) -> None:
        """Update W [rows x K] `iters` times, with H fixed. X, H, sums: as `parts` returns them."""
        if not self._kl:
            G = gram(H) + self.l2_W * self.identity
            nonnegative_steps(W, X @ H - self.l1_W, G, iters)
        elif X.pattern is not None:
            kl_steps(X, W, H, sums + self.l1_W, self.l2_W, iters)
        else:
            for _ in range(iters):
                W <<= kl_step(W, (X / self.fit(X, W, H)) @ H, sums + self.l1_W, self.l2_W)

    def improve(self) -> None:
        """Update H from the statistics."""
        H, l1, l2 = self.H, self.mass * self.l1_H, self.mass * self.l2_H
        if self.split_terms:
            self.improve_with_terms(l1, l2)
        elif self._kl:
            H <<= kl_step(1.0, self.pull, self.push + l1, l2)
        else:
            nonnegative_steps(H, self.pull - l1, self.push + l2 * self.identity, self.steps)

    def improve_with_terms(self, l1: Number, l2: Number) -> None:
        """Update H, as `improve` does, with the terms of mixins: see `split_terms.py`.

        The slopes of the terms are those of the present H, so each step computes them anew.
        """
        H = self.H
        for _ in range(1 if self._kl else self.steps):
            slopes = self.slopes("H")
            assert slopes is not None
            rising, falling = (self.mass * slope for slope in slopes)
            if self._kl:
                H <<= kl_step(1.0, self.pull + H * falling, self.push + l1 + rising, l2)
            else:
                H <<= frobenius_step(self.pull + falling, H, self.push, l1 + rising, l2)

    def fit(self, X: Matrix, W: Rows, H: Table) -> Matrix:
        """Return W H.T at the stored entries of X: everywhere, if X is dense."""
        if X.pattern is None:
            return maximum(W @ H.T, TINY)  # rows of padding are zeros
        return sddmm(W, H, X)

    def weights_of(self, X: Matrix, H: Table, sums: Row) -> Mat:
        """Return W [rows x K] of new rows. The loss is convex in W, so any start will do."""
        self.guess <<= 1.0 if self._kl else 0.0
        self.solve(X, self.guess, H, sums, SCORE_ITERATIONS)
        return self.guess

    def score(self, block: Block) -> Score:
        """Score how well the parts explain new rows, all of whose entries are known.

        rmse: root of the mean of (x - p)^2 over all entries; frobenius only.
        divergence: KL loss per unit of X (for counts: nats per count); kullback-leibler only.
        explained: 1 - loss / (loss without a model), which predicts p = 0 (frobenius), or the
            mean of the row (kullback-leibler).
        """
        weights = block.weights
        X, H, sums = self.parts(block.X, resting=block.resting)
        loss, null = self.losses(X, self.weights_of(X, H, sums), H, sums)
        lost = total(weights * loss)
        explained = Sum(total(weights * (null - loss)), total(weights * null))
        if self._kl:
            return {"divergence": Sum(lost, total(weights * rowsum(X))), "explained": explained}
        entries = total(weights * float(self.H.shape[0]))
        return {"rmse": Sum(lost, entries, "root"), "explained": explained}

    def losses(self, X: Matrix, W: Mat, H: Table, sums: Row) -> tuple[Column, Column]:
        """Return the loss of each row [rows x 1], and its loss without a model.

        Both are doubled for frobenius. Without a model p is 0 (frobenius), or the row's mean (KL).
        """
        if self._kl:
            whole = rowsum(W * sums)
            loss, null = kl_losses(X, self.fit(X, W, H), whole, float(self.H.shape[0]))
        elif X.pattern is not None:
            loss, null = frobenius_losses(X, W, H, gram(H))
        else:
            rest = X - self.fit(X, W, H)
            loss, null = rowsum(rest * rest), rowsum(X * X)
        return loss, null

    def predict(self, block: Block) -> Mat:
        """Return the weights of the parts [rows x K]; zeros for an empty row."""
        W = self.weights_of(*self.parts(block.X, resting=False))
        shown: Mat = (W * (W > SHOWN)).mat()
        return shown

    def shares(self, W: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the share [n x K] of each part in the predicted sum of each row.

        Rows whose prediction is zero get zeros.

        W: NumPy array [n x K], as `predict` returns it.
        """
        sums = W * self.parameters["H"].numpy().sum(axis=0)
        parts: NDArray[np.floating] = sums / np.maximum(sums.sum(axis=1, keepdims=True), TINY)
        return parts

    def topic_words(self, top: int = 10, relevance: float = 1.0) -> list[list[tuple[int, float]]]:
        """List each part's `top` columns as (column, share of its sum).

        relevance: 1: largest shares first; less favours columns that other parts rarely have. See
            `relevant_words`.
        """
        return relevant_words(self.parameters["H"].shown(), top, relevance)


TRACE = 1.0  # pseudo-rows; the KL of held-out rare words is up to 4 % lower than without
SCORE_ITERATIONS = 50  # the loss is then within 1e-5 of its minimum, relative
SHOWN = 1e-15  # smaller weights are predicted as 0
SCALES = 1e-12, 1e12  # of the data's mean: squares and products of W and H stay within float32


def larger(numbers: Table, least: float) -> Table:
    """Return a table, or an array of NumPy, whose numbers are `least` at least."""
    known = isinstance(numbers, np.ndarray)
    found: Table = np.maximum(numbers, np.float32(least)) if known else maximum(numbers, least)
    return found


def mean_of(shapes: Shapes) -> float:
    """Return the mean of all entries of the training data, stored or not.

    It is 1 without training data, and where the sum is negative: the learner reports negative
    values itself, with the block that has one.
    """
    if shapes.value_sums is None or shapes.value_sums.total < 0:
        return 1.0
    mean = shapes.value_sums.total / (shapes.total_rows * shapes.columns)
    if not SCALES[0] <= mean <= SCALES[1]:
        raise ModelConfigError(
            f"NMF: the mean of the data is {mean:g}: must be {SCALES[0]:g} to {SCALES[1]:g}. "
            + ("Scale the data." if mean else "All numbers are 0.")
        )
    return mean
