"""Derive class weights and first intercepts from counts of the labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.notation.functions import TINY
from blocklearn.optimizers.linear_loss import LEAST_WEIGHT

from ..errors import TargetError
from ..inputs import LabelCounts
from .links import HINGES
from .targets import Fit

Row = NDArray[np.floating] | None
INSIDE = 0.9  # of the hinge's kinks at -1 and 1: there, no step along the gradient lowers the loss


def class_weight_rows(fits: Sequence[Fit], counts: LabelCounts | None) -> tuple[Row, Row, Row]:
    """Return factors for y = 0, for y = 1, and for classes of softmax groups.

    Each is [columns], or None where no fit has any. "balanced" is n / (classes * n of the class),
    n being sums of the rows' weights. Without counts (a model that only predicts) it is 1.
    """
    columns = fits[-1].columns.stop
    low, high, shares = (np.ones(columns) for _ in range(3))
    binary = softmax = False
    for fit in fits:
        if fit.class_weight is None:
            continue
        if fit.link not in ("logistic", *HINGES, "softmax"):
            raise TargetError(
                f"GLM: target {fit.name!r} has class_weight, but its link {fit.link} has no "
                "classes; leave it out, or use row_weights."
            )
        if fit.link == "softmax":
            softmax = True
            shares[fit.columns] = weights_of(fit, counts)
        else:
            binary = True
            low[fit.start], high[fit.start] = weights_of(fit, counts)
    return low if binary else None, high if binary else None, shares if softmax else None


def weights_of(fit: Fit, counts: LabelCounts | None) -> list[float]:
    """Return the weights of a fit's classes: 0 and 1, or the softmax group."""
    if fit.class_weight != "balanced":
        return fit.weights_of_classes()
    size = 2 if fit.link != "softmax" else len(fit.y)
    if counts is None:
        return [1.0] * size
    ones = [float(counts.sums[y]) for y in fit.y]
    found = ones if fit.link == "softmax" else [counts.weight - ones[0], ones[0]]
    whole = sum(found)
    return [whole / (size * n) if n > 0 else 1.0 for n in found]


def best_constants(fits: Sequence[Fit], counts: LabelCounts) -> NDArray[np.float32]:
    """Return the best intercepts while W is zero, float32 [columns].

    Training starts there. Otherwise every feature would first learn that a rare label is rare.
    Half a row is added to each class, so a class that never occurs has a finite score.
    """
    found = np.zeros(fits[-1].columns.stop, np.float32)
    n = max(counts.weight, LEAST_WEIGHT)
    for fit in fits:
        sums = [float(counts.sums[y]) for y in fit.y]
        if fit.link in ("linear", "huber", "quantile"):
            found[fit.start] = sums[0] / n
        elif fit.link in ("gamma", "tweedie"):
            found[fit.start] = math.log(max(sums[0] / n, 1e-10))
        elif fit.link == "poisson":
            found[fit.start] = math.log(max(sums[0] + 0.5, 0.5) / (n + 0.5))
        else:
            amounts = sums if fit.link == "softmax" else [n - sums[0], sums[0]]
            weights = [1.0] * len(amounts)
            if fit.class_weight is not None:
                weights = weights_of(fit, counts)
            logs = [
                math.log(max(weight, TINY) * (max(amount, 0.0) + 0.5))
                for amount, weight in zip(amounts, weights, strict=True)
            ]
            if fit.link == "softmax":
                found[fit.columns] = np.array(logs) - sum(logs) / len(logs)
            elif fit.link == "hinge":
                found[fit.start] = INSIDE * np.sign(logs[1] - logs[0])
            elif fit.link == "squared_hinge":  # (a - b) / (a + b) of both classes
                found[fit.start] = math.tanh((logs[1] - logs[0]) / 2.0)
            else:
                found[fit.start] = logs[1] - logs[0]
    return found
