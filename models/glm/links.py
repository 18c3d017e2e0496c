"""Links of generalised linear models: functions of the score eta = X W + b.

| link | mean | loss of one row | residual = d loss / d eta |
|---|---|---|---|
| linear | eta | (eta - y)^2 / 2 | eta - y |
| logistic | 1 / (1 + e^-eta) | ln(1 + e^eta) - y eta | mean - y |
| hinge | eta | max(0, 1 - s eta), s = 2y - 1 | -s where s eta < 1 |
| squared_hinge | eta | max(0, 1 - s eta)^2 | -2 s max(0, 1 - s eta) |
| poisson | e^eta | e^eta - y eta | mean - y |
| softmax | e^eta_k / sum_j e^eta_j | -sum_k y_k ln mean_k | mean sum_j y_j - y |
| huber | eta | r^2 / 2, r = eta - y; d (abs(r) - d / 2) where abs(r) > d | r, within -d and d |
| quantile | eta | max(q (y - eta), (q - 1) (y - eta)) | 1 - q where eta > y, -q where eta < y |
| gamma | e^eta | eta + y e^-eta | 1 - y / mean |
| tweedie | e^eta | y mean^(1-p) / (p - 1) + mean^(2-p) / (2 - p) | mean^(2-p) - y mean^(1-p) |

y is 0 or 1 for logistic and both hinges, where values in between are a mixture of both. It is a
count or rate for poisson, positive for gamma, and not negative for tweedie. For softmax it is a
column of 0 and 1 per class; a row of zeros is ignored. d, q and p are the `shape` of a target.
McCullagh, Nelder, Generalized Linear Models (1989); hinge: Cortes, Vapnik (1995); huber: Huber
(1964); quantile: Koenker, Bassett (1978); tweedie: Jorgensen (1987).

The functions run inside `@rowwise`, and in float64 in its reference.

Longer than 300 lines: each link is a row of one table, and its functions are short.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from blocklearn.matcache import (
    Row,
    Rows,
    equal,
    exp,
    log,
    maximum,
    minimum,
    rowmax,
    rowsum,
    sigmoid,
    softplus,
    where,
)
from blocklearn.matcache.notation.functions import TINY

LinkName = Literal[
    "linear",
    "logistic",
    "hinge",
    "squared_hinge",
    "poisson",
    "softmax",
    "huber",
    "quantile",
    "gamma",
    "tweedie",
]
HINGES = ("hinge", "squared_hinge")
KINKED = ("hinge", "quantile")  # whose losses are straight lines: no gradient of 0 to stop at
LARGEST = 30.0  # bound of eta where the mean is e^eta: e^30 = 10^13 does not overflow
NOWHERE = -1e30  # score of a class outside the group: its probability is 0


SMALLEST = float(np.finfo(np.float32).tiny)  # target of gamma


@dataclass(frozen=True)
class At:
    """What the functions of a link know of their columns.

    mask: [1 x columns], 1 at the columns of a softmax group; None: all belong to it.
    shape: [1 x columns], the shape of each column's loss; None: no link in use has one.
    """

    mask: Row | None
    shape: Row


class Shape(NamedTuple):
    """The shape of a link's losses: what it is, its default, and the bounds it lies between."""

    what: str
    default: float
    low: float
    high: float


@dataclass(frozen=True)
class Link:
    """One row of the table above: functions of (eta, [y,] at).

    measure: what evaluations report, under the name `metric`.
    range: least and largest value of a target.
    shape: of its losses; None: there is one loss.
    dual: the next dual variables of dual ascent: a function of (eta, a, s, y, factor, at), where
        the loss is multiplied by the factor; None: no second derivative is bounded.
    """

    mean: Callable[[Rows, At], Rows]
    loss: Callable[[Rows, Rows, At], Rows]
    residual: Callable[[Rows, Rows, At], Rows]
    measure: Callable[[Rows, Rows, At], Rows]
    metric: str
    range: tuple[float, float] = (-math.inf, math.inf)
    shape: Shape | None = None
    dual: Callable[[Rows, Rows, Rows, Rows, Rows, At], Rows] | None = None

    @property
    def binary(self) -> bool:
        """Whether targets are 0 or 1, so that rows can be ranked by score (AUC)."""
        return self.range == (0.0, 1.0)


def itself(eta: Rows, at: At) -> Rows:
    """Return the scores, which are the means."""
    return +eta


def _exponential(eta: Rows) -> Rows:
    return exp(minimum(eta, LARGEST))


def _squared_error(eta: Rows, y: Rows, at: At) -> Rows:
    return (eta - y) * (eta - y)


def _logistic_loss(eta: Rows, y: Rows, at: At) -> Rows:
    return softplus(eta) - y * eta


def _hinge_loss(eta: Rows, y: Rows, at: At) -> Rows:
    return y * maximum(0.0, 1.0 - eta) + (1.0 - y) * maximum(0.0, 1.0 + eta)


def _hinge_residual(eta: Rows, y: Rows, at: At) -> Rows:
    return (1.0 - y) * (eta > -1.0) - y * (eta < 1.0)


def _squared_hinge_loss(eta: Rows, y: Rows, at: At) -> Rows:
    short, over = maximum(0.0, 1.0 - eta), maximum(0.0, 1.0 + eta)
    return y * short * short + (1.0 - y) * over * over


def _squared_hinge_residual(eta: Rows, y: Rows, at: At) -> Rows:
    return 2.0 * ((1.0 - y) * maximum(0.0, 1.0 + eta) - y * maximum(0.0, 1.0 - eta))


def _deviance(eta: Rows, y: Rows, at: At) -> Rows:
    """2 (y ln(y / mean) - y + mean), with 0 ln 0 = 0."""
    return 2.0 * (y * (log(maximum(y, TINY)) - minimum(eta, LARGEST)) - y + _exponential(eta))


def _bounded(eta: Rows) -> Rows:
    return minimum(maximum(eta, -LARGEST), LARGEST)


def _huber_loss(eta: Rows, y: Rows, at: At) -> Rows:
    error = abs(eta - y)
    inside = minimum(error, at.shape)
    return inside * (error - inside / 2.0)


def _huber_residual(eta: Rows, y: Rows, at: At) -> Rows:
    return maximum(minimum(eta - y, at.shape), -1.0 * at.shape)


def _quantile_loss(eta: Rows, y: Rows, at: At) -> Rows:
    return at.shape * maximum(y - eta, 0.0) + (1.0 - at.shape) * maximum(eta - y, 0.0)


def _quantile_residual(eta: Rows, y: Rows, at: At) -> Rows:
    return (1.0 - at.shape) * (eta > y) - at.shape * (eta < y)


def _gamma_deviance(eta: Rows, y: Rows, at: At) -> Rows:
    """2 (y / mean - 1 - ln(y / mean))."""
    eta = _bounded(eta)
    return 2.0 * (y * exp(-eta) - 1.0 - log(maximum(y, SMALLEST)) + eta)


def _tweedie_loss(eta: Rows, y: Rows, at: At) -> Rows:
    eta, p = _bounded(eta), at.shape
    return y * exp((1.0 - p) * eta) / (p - 1.0) + exp((2.0 - p) * eta) / (2.0 - p)


def _tweedie_residual(eta: Rows, y: Rows, at: At) -> Rows:
    eta, p = _bounded(eta), at.shape
    return exp((2.0 - p) * eta) - y * exp((1.0 - p) * eta)


def _tweedie_deviance(eta: Rows, y: Rows, at: At) -> Rows:
    """2 (loss - loss of the mean y); the latter is -y^(2-p) / ((1-p) (2-p)), 0 for y = 0."""
    p = at.shape
    least = (y > 0.0) * exp((2.0 - p) * log(maximum(y, SMALLEST))) / ((p - 1.0) * (2.0 - p))
    return 2.0 * (_tweedie_loss(eta, y, at) - least)


def _linear_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    return factor * (eta + s * a - y) / (1.0 + factor * s)


def _huber_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    most = factor * at.shape
    return _between(_linear_dual(eta, a, s, y, factor, at), -1.0 * most, most)


def _quantile_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    wanted = a + (eta - y) / maximum(s, TINY)
    return _between(wanted, -1.0 * factor * at.shape, factor * (1.0 - at.shape))


def _logistic_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    return a + (factor * (sigmoid(eta) - y) - a) / (1.0 + 0.25 * factor * s)


def _hinge_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    """Return the sum of both hinges' parts, at -1 and at 1: their derivatives add up."""
    s, middle = maximum(s, TINY), factor * (1.0 - 2.0 * y)
    low = _between(a + (eta + 1.0) / s, -1.0 * factor * y, middle)
    return low + _between(a + (eta - 1.0) / s, middle, factor * (1.0 - y)) - middle


def _squared_hinge_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    """Return the derivative where scores end, which is in one of three lines."""
    t, s = eta + s * a, 2.0 * factor * s
    low = (t + s * y) / (1.0 + s * y)
    high = (t - s * (1.0 - y)) / (1.0 + s * (1.0 - y))
    between = (t + s * (2.0 * y - 1.0)) / (1.0 + s)
    end = where(low < -1.0, low, where(high > 1.0, high, between))
    return factor * _squared_hinge_residual(end, y, at)


def _softmax_dual(eta: Rows, a: Rows, s: Rows, y: Rows, factor: Rows, at: At) -> Rows:
    y = factor * y
    share = 1.0 + 0.5 * rowsum(_inside(y, at, 0.0)) * s
    return a + (_softmax_residual(eta, y, at) - a) / share


def _between(x: Rows, low: Rows, high: Rows) -> Rows:
    return minimum(maximum(x, low), high)


def _inside(x: Rows, at: At, outside: float) -> Rows:
    return x if at.mask is None else where(at.mask, x, outside)


def log_softmax(eta: Rows, at: At) -> Rows:
    """Return the logarithms of the probabilities of a group's classes."""
    shifted = _inside(eta, at, NOWHERE)
    shifted = shifted - rowmax(shifted)
    return shifted - log(rowsum(exp(shifted)))


def _softmax(eta: Rows, at: At) -> Rows:
    shifted = _inside(eta, at, NOWHERE)
    e = exp(shifted - rowmax(shifted))
    return e / rowsum(e)


def _softmax_loss(eta: Rows, y: Rows, at: At) -> Rows:
    """Return each class's part of the loss; their sum is the loss."""
    return -(y * log_softmax(eta, at))


def _softmax_residual(eta: Rows, y: Rows, at: At) -> Rows:
    return _softmax(eta, at) * rowsum(_inside(y, at, 0.0)) - y


def softmax_hit(eta: Rows, y: Rows, at: At) -> Rows:
    """Return y of the most probable class, at that class; ties share it."""
    shifted = _inside(eta, at, NOWHERE)
    top = equal(shifted, rowmax(shifted))
    return top * y / rowsum(top)


def softmax_label(eta: Rows, at: At) -> Rows:
    """Return 1 at the most probable class, or at each of several in a tie, else 0."""
    shifted = _inside(eta, at, NOWHERE)
    return equal(shifted, rowmax(shifted))


LINKS: dict[str, Link] = {
    "linear": Link(
        mean=itself,
        loss=lambda eta, y, at: _squared_error(eta, y, at) / 2.0,
        residual=lambda eta, y, at: eta - y,
        measure=_squared_error,
        metric="squared_error",
        dual=_linear_dual,
    ),
    "logistic": Link(
        mean=lambda eta, at: sigmoid(eta),
        loss=_logistic_loss,
        residual=lambda eta, y, at: sigmoid(eta) - y,
        measure=_logistic_loss,
        metric="log_loss",
        range=(0.0, 1.0),
        dual=_logistic_dual,
    ),
    "hinge": Link(
        mean=itself,
        loss=_hinge_loss,
        residual=_hinge_residual,
        measure=_hinge_loss,
        metric="hinge_loss",
        range=(0.0, 1.0),
        dual=_hinge_dual,
    ),
    "squared_hinge": Link(
        mean=itself,
        loss=_squared_hinge_loss,
        residual=_squared_hinge_residual,
        measure=_squared_hinge_loss,
        metric="squared_hinge_loss",
        range=(0.0, 1.0),
        dual=_squared_hinge_dual,
    ),
    "poisson": Link(
        mean=lambda eta, at: _exponential(eta),
        loss=lambda eta, y, at: _exponential(eta) - y * minimum(eta, LARGEST),
        residual=lambda eta, y, at: _exponential(eta) - y,
        measure=_deviance,
        metric="deviance",
        range=(0.0, math.inf),
    ),
    "softmax": Link(
        mean=_softmax,
        loss=_softmax_loss,
        residual=_softmax_residual,
        measure=_softmax_loss,
        metric="log_loss",
        range=(0.0, 1.0),
        dual=_softmax_dual,
    ),
    "huber": Link(
        mean=itself,
        loss=_huber_loss,
        residual=_huber_residual,
        measure=_huber_loss,
        metric="huber_loss",
        shape=Shape("error from which the loss is linear", 1.0, 0.0, math.inf),
        dual=_huber_dual,
    ),
    "quantile": Link(
        mean=itself,
        loss=_quantile_loss,
        residual=_quantile_residual,
        measure=_quantile_loss,
        metric="pinball_loss",
        shape=Shape("share of targets below the prediction", 0.5, 0.0, 1.0),
        dual=_quantile_dual,
    ),
    "gamma": Link(
        mean=lambda eta, at: _exponential(eta),
        loss=lambda eta, y, at: _bounded(eta) + y * exp(-_bounded(eta)),
        residual=lambda eta, y, at: 1.0 - y * exp(-_bounded(eta)),
        measure=_gamma_deviance,
        metric="gamma_deviance",
        range=(SMALLEST, math.inf),
    ),
    "tweedie": Link(
        mean=lambda eta, at: _exponential(eta),
        loss=_tweedie_loss,
        residual=_tweedie_residual,
        measure=_tweedie_deviance,
        metric="tweedie_deviance",
        range=(0.0, math.inf),
        shape=Shape("power of the mean that the variance grows with", 1.5, 1.0, 2.0),
    ),
}
