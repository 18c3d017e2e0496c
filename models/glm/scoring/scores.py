"""Score the targets of a generalised linear model on held-out rows.

| link | figures |
|---|---|
| linear | `squared_error` (mean), `r2` (1 - squared error / variance of y) |
| logistic | `log_loss`, `auc` |
| hinge, squared_hinge | `hinge_loss` or `squared_hinge_loss`, `auc` |
| poisson, gamma, tweedie | mean unit deviance: `deviance`, `gamma_deviance`, `tweedie_deviance` |
| huber, quantile | `huber_loss` or `pinball_loss` |
| softmax | `log_loss`, `accuracy` of the group, `auc` of each class against the others |

With `more_scores`, what has an `auc` also has `average_precision`, `top_precision@K` of the K rows
of the highest scores, and, if its score is a probability, `calibration_error`: see `precisions.py`.

`NAME/TARGET` is the figure of one target. `NAME` is the mean over all targets that have it, each
counted once (macro mean). `auc` is exact. If exact ranks would take too much memory
(`ranking.ranking_of`), scores are put into 4096 bins, and the figure is called `auc_4096`, and so
are the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.matcache import Mat
from blocklearn.optimizers.linear_loss import LEAST_WEIGHT

from ...score import Part, Room
from ..links import HINGES, LINKS
from ..targets import Fit
from .ranking import BINS, Ranking

SUMS = ("weight", "measure", "hits", "y", "squares")


@dataclass(frozen=True)
class Measured:
    """Weighted sums over the rows of a block, [1 x columns] each.

    fits: of the columns.
    weight: sum of the weights; one number where all columns share it.
    measure: sum of the links' measures.
    hits: softmax: sum of y of the most probable class; None without softmax.
    y: sum of y.
    squares: sum of y^2; None without linear targets.
    ranked: scores, labels and weights of the rows; None where no column is ranked.
    """

    fits: Sequence[Fit]
    weight: Mat
    measure: Mat
    hits: Mat | None
    y: Mat
    squares: Mat | None
    ranked: tuple[Mat, Mat, Mat] | None

    def read(self) -> Measured:
        """Return self: `TargetTotals` reads the Mats."""
        return self

    @property
    def finite(self) -> bool:
        """Whether all measures are finite."""
        return bool(np.isfinite(self.measure.shown()).all())

    def __str__(self) -> str:
        """Name the sums of measures that are not finite."""
        names = [name for fit in self.fits for name in fit.names]
        found = self.measure.shown()[0].astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(found))
        return ", ".join(f"{found[i]} for {names[i]}" for i in bad[:4]) or "finite"


class TargetTotals:
    """Adds up `Measured` over blocks, in float64, and ranks their rows."""

    def __init__(
        self,
        fits: Sequence[Fit],
        ranked: Sequence[int],
        ranking: Ranking | None,
        top: int | None = None,
    ) -> None:
        """Make totals without memory.

        ranked: columns with an `auc`.
        ranking: of these columns; None if there are none.
        top: rows of `top_precision`; None: only an `auc` is computed.
        """
        self._fits, self._ranked, self._ranking, self._top = fits, ranked, ranking, top
        self._sums: dict[str, NDArray[np.float64]] = {}

    @property
    def rooms(self) -> Sequence[Room]:
        """See `Total`."""
        columns = self._fits[-1].columns.stop
        own: Sequence[Room] = (Room("sums of scores", (len(SUMS), columns), "float64"),)
        return own if self._ranking is None else (*own, *self._ranking.rooms)

    def clear(self) -> None:
        """See `Total`."""
        if not self._sums:
            sums, *_ = self.rooms
            self._sums = dict(zip(SUMS, np.empty(sums.shape), strict=True))
        for row in self._sums.values():
            row.fill(0.0)
        if self._ranking is not None:
            self._ranking.clear()

    def add(self, part: Part, rows: int) -> None:
        """See `Total`."""
        assert isinstance(part, Measured)
        for name, row in self._sums.items():
            mat = getattr(part, name)
            if mat is not None:
                add_row(mat.shown()[0], row)
        if self._ranking is not None:
            assert part.ranked is not None
            scores, labels, weights = (mat.shown() for mat in part.ranked)
            self._ranking.add(scores, labels, weights, rows)

    def figures(self, name: str) -> dict[str, float]:
        """Return the macro means first, then the figures of each target."""
        single: dict[str, dict[str, float]] = {}
        for metric, target, value in self._single():
            single.setdefault(metric, {})[target] = value
        found = {metric: mean(list(by_target.values())) for metric, by_target in single.items()}
        for metric, by_target in single.items():
            found |= {f"{metric}/{target}": value for target, value in by_target.items()}
        return found

    def _single(self) -> Iterator[tuple[str, str, float]]:
        """Yield (metric, target, value) for every target."""
        weight, measure, hits, y, squares = self._sums.values()
        for fit in self._fits:
            own, n = fit.columns, float(weight[fit.start])
            if fit.link == "softmax":  # a row counts as often as it has a class
                n = float(y[own].sum())
            total = float(measure[own].sum())
            yield LINKS[fit.link].metric, fit.name, total / n if n else math.nan
            if fit.link == "softmax":
                yield "accuracy", fit.name, float(hits[own].sum()) / n if n else math.nan
            if fit.link == "linear":
                square_of_sum = float(y[fit.start]) ** 2 / max(n, LEAST_WEIGHT)
                spread = float(squares[fit.start]) - square_of_sum
                yield "r2", fit.name, 1.0 - total / spread if spread > 0 else math.nan
        if self._ranking is not None:
            yield from self._of_ranks(self._ranking)

    def _of_ranks(self, ranking: Ranking) -> Iterator[tuple[str, str, float]]:
        """Yield (metric, target, value) for every ranked column."""
        names = [name for fit in self._fits for name in fit.names]
        links = [fit.link for fit in self._fits for _ in fit.names]
        bins = "" if ranking.exact else f"_{BINS}"
        for column, value in zip(self._ranked, ranking.areas(), strict=True):
            yield f"auc{bins}", names[column], float(value)
        if self._top is None:
            return
        found = ranking.more(self._top, [links[c] == "softmax" for c in self._ranked])
        for column, (average, top, error) in zip(self._ranked, found.tolist(), strict=True):
            yield f"average_precision{bins}", names[column], average
            yield f"top_precision{bins}@{self._top}", names[column], top
            if links[column] not in HINGES:
                yield f"calibration_error{bins}", names[column], error


@kernel
def add_row(row: NDArray[np.float32], into: NDArray[np.float64]) -> None:
    """Add `row` to `into`; a row of one number is added to each."""
    for column in range(into.size):
        into[column] += row[0 if row.size == 1 else column]


def mean(found: list[float]) -> float:
    """Average the values, except NaN: a target with one class in the rows has no auc."""
    numbers = [value for value in found if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan
