"""Held-out figures of the targets of a generalised linear model.

| link | figures |
|---|---|
| linear | `squared_error` (mean), `r2` (1 - squared error / variance of y) |
| logistic | `log_loss`, `auc` |
| hinge | `hinge_loss`, `auc` |
| poisson | `deviance` (mean unit deviance) |
| softmax | `log_loss`, `accuracy` of the group, `auc` of each class against the others |

`NAME/TARGET` is that of one target, `NAME` alone the mean over all that have it, each target
counting once (macro mean). `auc` is exact; where more than `ranking.MOST_KEPT` scores would have to
be kept it is taken from a histogram of 4096 bins, and is called `auc_4096`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .links import LINKS
from .ranking import BINS, Ranking
from .targets import Fit

SUMS = ("weight", "measure", "hits", "y", "squares")


@dataclass(frozen=True)
class Measured:
    """Sums over rows, by column [1 x columns] each, weighted by the rows' weights.

    weight: sum of the weights (one number, or by column). measure: what the links measure. hits:
    softmax, y of the most probable class. y, squares: sums of y and y^2. ranking: what `auc` is of,
    its columns those of `ranked`: scores, labels and weights of the rows, or a `Ranking`.
    """

    fits: Sequence[Fit]
    weight: Any
    measure: Any
    hits: Any
    y: Any
    squares: Any
    ranked: Sequence[int]
    ranking: Any

    def read(self) -> Measured:
        """The same with numbers in place of Mats."""
        ranking = None
        if self.ranking is not None:
            scores, labels, weights = (mat.numpy() for mat in self.ranking)
            ranked = np.asarray(self.ranked)
            if len(ranked) < scores.shape[1]:
                scores, labels = scores[:, ranked], labels[:, ranked]
                weights = weights if weights.shape[1] == 1 else weights[:, ranked]
            ranking = Ranking.of(scores, labels, weights)
        sums: dict[str, Any] = {
            name: None if getattr(self, name) is None else _numbers(getattr(self, name))
            for name in SUMS
        }
        return replace(self, **sums, ranking=ranking)

    def __add__(self, other: Measured) -> Measured:
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in (*SUMS, "ranking")}
        sums: dict[str, Any] = {n: None if a is None else a + b for n, (a, b) in pairs.items()}
        return replace(self, **sums)

    @property
    def finite(self) -> bool:
        """Whether all that the links measure is."""
        return bool(np.isfinite(self.measure).all())

    def __str__(self) -> str:
        """Which sum of the links' measures is not finite."""
        names = [name for fit in self.fits for name in fit.names]
        bad = np.flatnonzero(~np.isfinite(self.measure))
        return ", ".join(f"{self.measure[i]} for {names[i]}" for i in bad[:4]) or "finite"

    def figures(self, name: str) -> dict[str, float]:
        """Macro means first, then the figures of each target."""
        single: dict[str, dict[str, float]] = {}
        for metric, target, value in self._single():
            single.setdefault(metric, {})[target] = value
        found = {metric: mean(list(by_target.values())) for metric, by_target in single.items()}
        for metric, by_target in single.items():
            found |= {f"{metric}/{target}": value for target, value in by_target.items()}
        return found

    def _single(self) -> Iterator[tuple[str, str, float]]:
        """(metric, target, value) of every target."""
        for fit in self.fits:
            own, n = fit.columns, float(self.weight[fit.start if self.weight.size > 1 else 0])
            if fit.link == "softmax":  # a row counts as often as it has a class
                n = float(self.y[own].sum())
            total = float(self.measure[own].sum())
            yield LINKS[fit.link].metric, fit.name, total / n if n else math.nan
            if fit.link == "softmax":
                yield "accuracy", fit.name, float(self.hits[own].sum()) / n if n else math.nan
            if fit.link == "linear":
                square_of_sum = float(self.y[fit.start]) ** 2 / max(n, 1e-30)
                spread = float(self.squares[fit.start]) - square_of_sum
                yield "r2", fit.name, 1.0 - total / spread if spread > 0 else math.nan
        if self.ranking is not None:
            title = "auc" if self.ranking.exact else f"auc_{BINS}"
            names = [name for fit in self.fits for name in fit.names]
            for column, value in zip(self.ranked, self.ranking.areas(), strict=True):
                yield title, names[column], float(value)


def _numbers(row: Any) -> Any:
    """A Mat [1 x columns] as float64 [columns]."""
    return row.numpy()[0].astype(np.float64)


def mean(found: list[float]) -> float:
    """The mean of those that are numbers: a target with one class in the rows has no auc."""
    numbers = [value for value in found if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan
