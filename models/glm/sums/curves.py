"""Losses of links and their derivatives in NumPy, many rows at once: `links.py` defines them.

The reference of the definition goes row by row. So each link has a second text here, in float64,
with few passes over its arrays. A test compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..links import LARGEST, LinkName

Array = NDArray[np.float64]
LOWEST = -700.0  # score of logistic, below which e^-eta overflows


class Loss(NamedTuple):
    """A link, and the shape of its loss where it has one (tweedie)."""

    link: LinkName
    shape: float = 0.0


class Curve(NamedTuple):
    """Functions of eta and y [rows x columns] and of the shape of the loss.

    losses: losses and residuals. bends: second derivatives; of a softmax, by the class's own score;
    of huber, those of parabolas that touch the losses, and are nowhere below them.
    """

    losses: Callable[[Array, Array, float], tuple[Array, Array]]
    bends: Callable[[Array, Array, float], Array]


def _linear(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    residuals = eta - y
    return residuals * residuals * 0.5, residuals


def _logistic(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    within = np.maximum(eta, LOWEST)
    odds = np.negative(within)
    np.exp(odds, out=odds)
    odds += 1.0
    losses = np.log(odds)
    within -= y * eta
    losses += within
    np.divide(1.0, odds, out=odds)
    odds -= y
    return losses, odds


def _logistic_bends(eta: Array, y: Array, shape: float) -> Array:
    e = np.exp(-abs(eta))
    return np.asarray(e / (1.0 + e) ** 2)


def probabilities(eta: Array) -> tuple[Array, Array, Array]:
    """Return scores less their largest, probabilities, and logarithms of sums, by class.

    eta: [rows x classes]. NumPy sums over many rows at a time several times as fast as over the few
    numbers of each, so the first two are [classes x rows].
    """
    eta = np.array(eta.T, order="C")
    eta -= eta.max(axis=0)
    e = np.exp(eta)
    sums = e.sum(axis=0)
    e /= sums
    return eta, e, np.log(sums)


def _softmax(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    eta, mean, logs = probabilities(eta)
    eta -= logs
    eta *= y.T
    mean -= y.T
    return np.negative(eta, out=eta).T, np.ascontiguousarray(mean.T)


def _softmax_bends(eta: Array, y: Array, shape: float) -> Array:
    _, mean, _ = probabilities(eta)
    mean *= 1.0 - mean
    return np.ascontiguousarray(mean.T)


def _poisson(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    eta = np.minimum(eta, LARGEST)
    mean = np.exp(eta)
    return mean - y * eta, mean - y


def _poisson_bends(eta: Array, y: Array, shape: float) -> Array:
    return np.exp(np.minimum(eta, LARGEST))


def _gamma(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    eta = eta.clip(-LARGEST, LARGEST)
    share = y * np.exp(-eta)
    return eta + share, 1.0 - share


def _gamma_bends(eta: Array, y: Array, shape: float) -> Array:
    return np.asarray(y * np.exp(-eta.clip(-LARGEST, LARGEST)))


def _tweedie_terms(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    eta = eta.clip(-LARGEST, LARGEST)
    return y * np.exp((1.0 - shape) * eta), np.exp((2.0 - shape) * eta)


def _tweedie(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    share, power = _tweedie_terms(eta, y, shape)
    return share / (shape - 1.0) + power / (2.0 - shape), power - share


def _tweedie_bends(eta: Array, y: Array, shape: float) -> Array:
    share, power = _tweedie_terms(eta, y, shape)
    return (2.0 - shape) * power + (shape - 1.0) * share


def _huber(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    error = eta - y
    inside = error.clip(-shape, shape)
    return inside * (error - 0.5 * inside), inside


def _huber_bends(eta: Array, y: Array, shape: float) -> Array:
    """Return what is never 0: the loss itself has no second derivative where it is linear."""
    return shape / np.maximum(abs(eta - y), shape)


def _squared_hinge(eta: Array, y: Array, shape: float) -> tuple[Array, Array]:
    short, over = np.maximum(1.0 - eta, 0.0), np.maximum(1.0 + eta, 0.0)
    below, above = y * short, (1.0 - y) * over
    return below * short + above * over, 2.0 * (above - below)


def _squared_hinge_bends(eta: Array, y: Array, shape: float) -> Array:
    return 2.0 * (y * (eta < 1.0) + (1.0 - y) * (eta > -1.0))


CURVES: dict[LinkName, Curve] = {
    "linear": Curve(_linear, lambda eta, y, shape: np.ones_like(eta)),
    "logistic": Curve(_logistic, _logistic_bends),
    "softmax": Curve(_softmax, _softmax_bends),  # of rows in one class
    "poisson": Curve(_poisson, _poisson_bends),
    "gamma": Curve(_gamma, _gamma_bends),
    "tweedie": Curve(_tweedie, _tweedie_bends),
    "huber": Curve(_huber, _huber_bends),
    "squared_hinge": Curve(_squared_hinge, _squared_hinge_bends),
}
"""The links whose losses have second derivatives, but for two scores of a row (the last two)."""


def robust_start(y: Array, weights: Array, shape: float, *, intercept: bool) -> tuple[float, float]:
    """Return a constant near that of the least Huber loss, and the mean of bends there.

    The constant is the median of y [n], or 0.

    >>> robust_start(np.array([0.0, 1.0, 9.0]), np.ones(3), 1.0, intercept=True)
    (1.0, 0.708...)
    """
    order, middle = np.argsort(y, kind="stable"), 0.0
    if intercept:
        sums = np.cumsum(weights[order])
        middle = float(y[order[np.searchsorted(sums, 0.5 * sums[-1])]])
    bends = _huber_bends(np.full_like(y, middle), y, shape)
    return middle, float(weights @ bends / weights.sum())


def best_constants(mean: Array, total: float, link: LinkName) -> Array:
    """Return the best scores where W = 0, from the means of targets [k].

    total: of the weights of rows. Half a row is added to each class, so that one that never occurs
    has a finite score.

    >>> best_constants(np.array([0.5, 1.0]), 2.0, "logistic").round(3).tolist()
    [0.0, 1.609]
    """
    if link == "linear":
        return mean
    if link == "squared_hinge":
        return 2.0 * mean - 1.0
    if link not in ("logistic", "softmax"):
        return np.log(np.maximum(mean, 1e-10))
    ones = mean * total + 0.5
    if link == "softmax":
        return np.asarray(np.log(ones) - np.log(ones).mean())
    return np.log(ones / (total - mean * total + 0.5))


def mean_bends(scores: Array, loss: Loss) -> Array:
    """Return the mean second derivatives of losses [k] where W = 0, with the best constants."""
    link, shape = loss
    if link in ("linear", "gamma"):
        return np.ones(scores.size)
    if link == "squared_hinge":
        return np.full(scores.size, 2.0)
    if link == "tweedie":
        return np.exp((2.0 - shape) * scores)
    e = np.exp(scores)
    if link == "poisson":
        return e
    share = e / e.sum() if link == "softmax" else e / (1.0 + e)
    return np.maximum(share * (1.0 - share), 1e-6)
