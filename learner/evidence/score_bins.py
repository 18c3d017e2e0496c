"""Sums by bin of a prediction, and the curves that follow from them.

The area under a curve of bins differs from the exact one by at most half the share of pairs of rows
with both scores in one bin; bins are 1/128 of log odds wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models.glm.scoring.areas import area_of_groups
from blocklearn.models.glm.scoring.ranking import BINS, SPAN

POINTS = 60  # of a curve
GROUPS = 12  # of a calibration

Floats = NDArray[np.floating]
Points = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Scale:
    """Maps predictions to places in [-SPAN, SPAN] without changing their order.

    kind: "probability" by log odds, "positive" by logarithms, "number" by asinh around `middle`, in
        units of `unit`.
    """

    kind: str
    middle: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, link: str, first: Floats) -> Scale:
        """Return the scale for a link's predictions.

        first: the predictions of some rows, by which numbers are centred.
        """
        if link in ("logistic", "softmax"):
            return cls("probability")
        if link in ("poisson", "gamma", "tweedie"):
            return cls("positive")
        middle, spread = float(np.median(first)), float(np.std(first))
        return cls("number", middle, spread or 1.0)

    def bins(self, predictions: Floats) -> NDArray[np.int64]:
        """Return the bin of each prediction, 0 to BINS - 1."""
        p = predictions.astype(np.float64)
        if self.kind == "probability":
            p = np.clip(p, 1e-12, 1 - 1e-12)
            places = np.log(p / (1 - p))
        elif self.kind == "positive":
            places = np.log(np.maximum(p, 1e-300))
        else:
            places = 2 * np.arcsinh((p - self.middle) / self.unit)
        scaled = (np.clip(places, -SPAN, SPAN) + SPAN) * (BINS / (2 * SPAN))
        return np.minimum(scaled.astype(np.int64), BINS - 1)


class ScoreBins:
    """Adds up weights, weighted targets and weighted predictions by bin of the prediction.

    weights, targets, predictions: float64 [BINS], the sums.
    """

    def __init__(self, scale: Scale) -> None:
        """Begin without rows."""
        self._scale = scale
        self.weights, self.targets, self.predictions = np.zeros((3, BINS))

    def add(self, predictions: Floats, targets: Floats, weights: Floats) -> None:
        """Add rows [n]."""
        bins = self._scale.bins(predictions)
        for into, values in (
            (self.weights, weights),
            (self.targets, weights * targets),
            (self.predictions, weights * predictions),
        ):
            into += np.bincount(bins, values, BINS)

    # ------------------------------------------------------------- classes

    @property
    def area(self) -> float:
        """The area under the ROC curve; NaN if a class is missing."""
        return float(area_of_groups(self.weights - self.targets, self.targets))

    @property
    def base_rate(self) -> float:
        """The share of positive rows, by weight."""
        return float(self.targets.sum() / self.weights.sum())

    def roc(self) -> Points:
        """Return false positive rates, ascending, and true positive rates."""
        false, true = self._above(self.weights - self.targets), self._above(self.targets)
        return thinned(false / false[-1], true / true[-1])

    def precision_recall(self) -> Points:
        """Return recalls, ascending, and precisions, from the first positive row on."""
        true, all_ = self._above(self.targets), self._above(self.weights)
        some = true > 0
        return thinned(true[some] / true[-1], true[some] / all_[some])

    @property
    def average_precision(self) -> float:
        """The sum of precisions, weighted by the gain of recall."""
        true, all_ = self._above(self.targets), self._above(self.weights)
        precision = np.divide(true, all_, out=np.zeros_like(true), where=all_ > 0)
        return float((np.diff(true) * precision[1:]).sum() / true[-1])

    def _above(self, sums: Floats) -> Floats:
        """Return running sums from the highest bin that has rows, beginning with 0."""
        used = self.weights[::-1] > 0
        return np.concatenate([[0.0], np.cumsum(sums[::-1][used])])

    # ------------------------------------------------------------- calibration

    def calibration(self) -> tuple[Any, Any, Any]:
        """Return mean prediction, mean target and weight of groups of about equal weight.

        Groups are in the order of predictions, at most `GROUPS`, each of whole bins.
        """
        used = np.flatnonzero(self.weights)
        weights = self.weights[used]
        ends = np.cumsum(weights) - weights / 2
        group = np.minimum((ends / weights.sum() * GROUPS).astype(np.int64), GROUPS - 1)
        sums = [
            np.bincount(group, values[used], GROUPS)
            for values in (self.predictions, self.targets, self.weights)
        ]
        some = sums[2] > 0
        predicted, found, all_ = (values[some] for values in sums)
        return predicted / all_, found / all_, all_

    @property
    def calibration_error(self) -> float:
        """The mean distance of predictions from targets over the groups, by weight."""
        predicted, found, weights = self.calibration()
        return float(np.average(np.abs(predicted - found), weights=weights))


def thinned(x: Any, y: Any) -> Points:
    """Return at most `POINTS` of the points of a curve, evenly along it, with both ends."""
    if len(x) > POINTS:
        steps = np.hypot(np.diff(x), np.diff(y))
        along = np.concatenate([[0.0], np.cumsum(steps)])
        places = np.searchsorted(along, np.linspace(0, along[-1], POINTS))
        keep = np.unique(np.concatenate([[0], np.minimum(places, len(x) - 1), [len(x) - 1]]))
        x, y = x[keep], y[keep]
    return [float(value) for value in x], [float(value) for value in y]
