"""Fit generalised linear models: one product of matrices serves all targets.

eta = X W + b. Each target has a column of W [features x columns] and a number of b [1 x columns],
or one per class for softmax. Its objective is

    sum_i w_i loss(eta_i, y_i) / sum_i w_i + l1 ||W||_1 + l2 / 2 ||W||^2,

where w are the weights of the rows. In the numerator they are multiplied by the weights of classes
and by a target's `row_weights`. b has no penalty. scikit-learn's LogisticRegression(C) has
l2 = 1 / (C n), its SGDClassifier l2 = alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from blocklearn import optimizers
from blocklearn.matcache import Mat, Matrix, Table, colsum, from_array, together
from blocklearn.optimizers import LinearLoss, Meaning, Optimizer, Penalty, Term

from .. import glm
from ..base import Model
from ..block_size import BlockSize
from ..inputs import Block, Needs, Randomness, Shapes
from ..score import Score, Total
from ..term_weights import TermWeights, keep_weights, weighed
from .columns import Names
from .label_counts import best_constants, class_weight_rows
from .links import LINKS, LinkName
from .rows import Labels, Links, dual_variables, losses, means, measures
from .target_ranges import TargetRanges
from .targets import ClassWeight, Fit, Target, Weight, Weights, fits_of

if TYPE_CHECKING:
    from blocklearn.datasources import DataSource

    from .scoring.ranking import Ranking

FEW = 32  # up to so many columns, steps of single rows are faster


class GLM(Model):
    """Fits linear models of any number of targets: numbers, classes or counts.

    Links: linear, Huber, quantile; logistic, hinge and its square (SVM), softmax; Poisson, gamma,
    Tweedie.
    """

    needs_targets: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = True
    meaning: ClassVar[Meaning | None] = "gradients"
    block_size: ClassVar[BlockSize] = BlockSize(1)  # of default rates; smaller ones defy l1
    kind: Literal["glm"] = "glm"
    targets: list[Target] | None = Field(
        None, min_length=1, description="null: every column of the data's targets, with `link`"
    )
    link: LinkName = Field("logistic", description="link of targets without their own")
    shape: float | None = Field(
        None, description="shape of the losses of `link` (huber, quantile, tweedie): see targets"
    )
    l1: Weight | Weights = Field(
        0.0, description="penalty on the sum of absolute weights; a list trains a grid in one run"
    )
    l2: Weight | Weights = Field(0.0, description="penalty on half the sum of squared weights")
    class_weight: ClassWeight | None = Field(
        None, description="factors of the losses by class; balanced: n / (classes * n of the class)"
    )
    intercept: bool = Field(True, description="whether scores have a constant term")
    output: Literal["mean", "score", "label"] = Field(
        "mean", description="prediction: probabilities and other means, eta, or classes"
    )

    term_weights: TermWeights = "none"
    more_scores: bool = Field(
        False, description="also score average_precision, top_precision and calibration_error"
    )
    top: int = Field(
        100, ge=1, lt=2**31, description="rows of the highest scores, of top_precision"
    )

    def optimizer_for(self, shapes: Shapes, terms: Sequence[Term]) -> Optimizer:
        """Return AdaGrad by single rows for sparse data and few columns on the CPU, else by blocks.

        A pass of single rows learns several times as much as a pass of blocks, but its cost grows
        with each column. On a GPU one row after another leaves all but a few lanes without work, so
        blocks are used there. Nor are single rows used with l1, which should make weights zero: the
        gradient of a single row is mostly larger than l1.

        `rate` and `initial` are the best of a grid on three sets of texts (tf-idf), for one pass or
        two.
        """
        if shapes.dense or shapes.on_gpu:
            return self.default_optimizer()
        fits = self.resolve(shapes)
        sparse = any(fit.l1 for fit in fits) or any(np.any(term.l1) for term in terms)
        if sparse or fits[-1].columns.stop > FEW:
            return self.default_optimizer()
        return optimizers.AdaGrad(rate=0.7, initial=0.1, step_per="row")

    def default_optimizer(self) -> Optimizer:
        """Return AdaGrad by blocks: common features take smaller steps than rare ones.

        `eps` is the gradient that a few rows of a block of 1024 make. A feature of so few rows
        moves its weight by less than the rate. The values are the best of a grid on three sets of
        texts (tf-idf); counts are larger and need a lower rate.
        """
        return optimizers.AdaGrad(rate=2.0, eps=3e-3)

    # ------------------------------------------------------------- life

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create W, zero, the intercept, and rows of constants for the columns of W."""
        self.fits, self.block_rows = self.resolve(shapes), shapes.rows
        self.ranges = TargetRanges(self.fits, shapes.targets)
        T = self.fits[-1].columns.stop
        self.W = self.parameter("W", shapes.columns, T)
        self.b = self.parameter("intercept", 1, T)
        if self.intercept and shapes.counts is not None:
            self.b.set(best_constants(self.fits, shapes.counts)[None])
        self.penalised = ["W"]
        self._plan_links(T)
        self._plan_labels(shapes.targets)
        self._plan_rates()
        self.mask = self._feature_mask(shapes.columns, T)
        low, high, shares = class_weight_rows(self.fits, shapes.counts)
        self.low, self.high = self._row(low, "factor of y = 0"), self._row(high, "factor of y = 1")
        self.shares = self._row(shares, "factors of classes")
        keep_weights(self, self.term_weights, shapes)

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with weighed features, if `term_weights` says so."""
        return weighed(self, self.term_weights, source, train=train)

    def check_targets(self, Y: NDArray[np.floating]) -> None:
        """Raise TargetRangeError if a target is outside the range of its link."""
        self.ranges.check(Y)

    def update(self, block: Block) -> None:
        """Hand the losses of the block's rows to the optimizer."""
        bias = "intercept" if self.intercept else None
        arguments = (self._labels(block), self.links)
        bounded = all(LINKS[name].dual is not None for name in self.links.names)
        self.updates["W"] = LinearLoss(
            block, losses, arguments, self.mask, bias, dual_variables if bounded else None
        )

    def score(self, block: Block) -> Score:
        """Score each target, and their means: see `scores.py`.

        Class weights are ignored.
        """
        X, W = self._input(block)
        labels = self._labels(block)
        Y, factor = labels.Y, labels.times(block.weights)
        measure, rank, *hits = measures(X, W, self.b, labels, block.weights, self.links)
        squares = [Y * Y * factor] if "linear" in self.links.names else []
        columns = (measure, Y * factor, *hits, *squares)
        loss, y, *more = together(*[(colsum, x) for x in columns])
        part = glm.Measured(
            self.fits,
            colsum(factor).mat(),
            loss,
            more[0] if hits else None,
            y,
            more[-1] if squares else None,
            (rank, Y.mat(), factor.mat()) if self.ranked else None,
        )
        return {"targets": part}

    def score_totals(self, rows: int | None) -> Mapping[str, Total]:
        """Return totals that sum by column, and rank the rows where a figure needs it."""
        ranking: Ranking | None = None
        if self.ranked and rows is None:
            ranking = glm.BlockRanking(self.block_rows, self.ranked)
        elif self.ranked and rows is not None:
            ranking = glm.ranking_of(rows, self.ranked, own_weights=self.has_own is not None)
        top = self.top if self.more_scores else None
        return {"targets": glm.TargetTotals(self.fits, self.ranked, ranking, top)}

    def predict(self, block: Block) -> Mat:
        """Predict [rows x columns of W]: a column per target, one per class for softmax."""
        X, W = self._input(block)
        found: Mat = means(X, W, self.b, self.output, self.links)
        return found

    @property
    def needs(self) -> Needs:
        """Counts, for balanced class weights and for the start of the intercept."""
        given = [self.class_weight, *(t.class_weight for t in self.targets or ())]
        balanced = "balanced" in given
        return Needs(counts=self.intercept or balanced, initial=not balanced)

    def resolve(self, shapes: Shapes) -> list[Fit]:
        """Return every fit, with columns as numbers and grids written out.

        Raises TargetError.
        """
        labels = Names("target", shapes.targets, shapes.target_names)
        features = Names("feature", shapes.columns, shapes.names)
        return fits_of(self.targets, self, labels, features)

    # ------------------------------------------------------------- blocks

    def _input(self, block: Block) -> tuple[Matrix, Table | None]:
        """Return X and W for the kernels; for dense data, X W and None."""
        if block.X.pattern is not None:
            return block.X, self.W
        return (block.X @ self.W).mat(), None

    def _labels(self, block: Block) -> Labels:
        """Return the targets of each column of W, and their factors."""
        Y = block.Y if self.places is None else block.Y[:, self.places].mat()
        own = None if self.own_places is None else block.Y[:, self.own_places].mat()
        return Labels(Y, own, self.has_own, self.low, self.high, self.shares)

    # ------------------------------------------------------------- constants

    def _row(self, values: ArrayLike | None, name: str) -> Mat | None:
        """Return `values` as a row of constants [1 x columns]; None for None."""
        if values is None:
            return None
        return from_array(self.cache, np.asarray(values, np.float32)[None], name)

    def _plan_links(self, T: int) -> None:
        """Set `links`, softmax once for every group, and `ranked` columns."""
        columns: dict[tuple[str, int], list[int]] = {}
        for fit in self.fits:
            key = (fit.link, fit.start if fit.link == "softmax" else 0)
            columns.setdefault(key, []).extend(range(T)[fit.columns])
        masks = []
        if len(columns) > 1:
            for number, own in enumerate(columns.values()):
                mask = np.isin(np.arange(T), own)
                masks.append(self._row(mask, f"columns of link {number}"))
        shapes = None
        if any(fit.shape is not None for fit in self.fits):
            given = [fit.shape or 0.0 for fit in self.fits for _ in fit.y]
            shapes = self._row(given, "shapes of losses")
        self.links = Links(tuple(link for link, _ in columns), tuple(masks), shapes)
        binary = [LINKS[fit.link].binary for fit in self.fits]
        self.ranked = [
            c for fit, ranks in zip(self.fits, binary, strict=True) if ranks
            for c in range(T)[fit.columns]
        ]  # fmt: skip

    def _plan_labels(self, targets: int) -> None:
        """Set the columns of targets and of row weights for W's columns."""
        places = [y for fit in self.fits for y in fit.y]
        self.places = None if places == list(range(targets)) else np.array(places)
        own = [fit.row_weights for fit in self.fits for _ in fit.y]
        self.own_places = self.has_own = None
        if any(place is not None for place in own):
            self.own_places = np.array([place or 0 for place in own])
            self.has_own = self._row([place is not None for place in own], "has weights of its own")

    def _plan_rates(self) -> None:
        """Set the rates and penalties by column, where a fit has any."""

        def by_column(name: str) -> list[float]:
            return [getattr(fit, name) for fit in self.fits for _ in fit.y]

        rates = by_column("rate")
        if any(rate != 1.0 for rate in rates):
            row = self._row(rates, "rates of targets")
            assert row is not None
            self.rates = {"W": row, "intercept": row}
        l1, l2 = by_column("l1"), by_column("l2")
        if any(l1) or any(l2):
            self.terms["W"] = [Penalty(l1=l1, l2=l2)]

    def _feature_mask(self, features: int, T: int) -> Mat | None:
        """Return [features x columns], 1 where W may have a weight; None: everywhere."""
        if all(fit.features is None for fit in self.fits):
            return None
        mask = np.ones((features, T), np.float32)
        for fit in self.fits:
            if fit.features is not None:
                mask[:, fit.columns] = 0.0
                mask[list(fit.features), fit.columns] = 1.0
        return from_array(self.cache, mask, "features of targets")
