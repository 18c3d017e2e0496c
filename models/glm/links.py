"""Links of generalised linear models: functions of the score eta = X W + b.

| link | mean | loss of one row | residual = d loss / d eta |
|---|---|---|---|
| linear | eta | (eta - y)^2 / 2 | eta - y |
| logistic | 1 / (1 + e^-eta) | ln(1 + e^eta) - y eta | mean - y |
| hinge | eta | max(0, 1 - s eta), s = 2y - 1 | -s where s eta < 1 |
| poisson | e^eta | e^eta - y eta | mean - y |
| softmax | e^eta_k / sum_j e^eta_j | -sum_k y_k ln mean_k | mean sum_j y_j - y |

y is 0 or 1 for logistic and hinge, where values in between are a mixture of both. It is a count or
rate for poisson. For softmax it is a column of 0 and 1 per class; a row of zeros is ignored.
McCullagh, Nelder, Generalized Linear Models (1989); hinge: Cortes, Vapnik (1995).

The functions run inside `@rowwise`, and in float64 in its reference. `mask` [1 x columns] is 1 at
the columns of a softmax group; None: all columns belong to the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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

LinkName = Literal["linear", "logistic", "hinge", "poisson", "softmax"]
LARGEST = 30.0  # poisson: bound of eta; e^30 = 10^13 is beyond any count, and does not overflow
NOWHERE = -1e30  # score of a class outside the group: its probability is 0
TINY = 1e-30


@dataclass(frozen=True)
class Link:
    """One row of the table above: functions of (eta, [y,] mask) [1 x columns].

    measure: what evaluations report, under the name `metric`.
    range: least and largest value of a target.
    """

    mean: Callable[[Rows, Row | None], Rows]
    loss: Callable[[Rows, Rows, Row | None], Rows]
    residual: Callable[[Rows, Rows, Row | None], Rows]
    measure: Callable[[Rows, Rows, Row | None], Rows]
    metric: str
    range: tuple[float, float] = (-math.inf, math.inf)

    @property
    def binary(self) -> bool:
        """Whether targets are 0 or 1, so that rows can be ranked by score (AUC)."""
        return self.range == (0.0, 1.0)


def _exponential(eta: Rows, mask: Row | None = None) -> Rows:
    return exp(minimum(eta, LARGEST))


def _squared_error(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    return (eta - y) * (eta - y)


def _logistic_loss(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    return softplus(eta) - y * eta


def _hinge_loss(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    return y * maximum(0.0, 1.0 - eta) + (1.0 - y) * maximum(0.0, 1.0 + eta)


def _hinge_residual(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    return (1.0 - y) * (eta > -1.0) - y * (eta < 1.0)


def _deviance(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    """2 (y ln(y / mean) - y + mean), with 0 ln 0 = 0."""
    return 2.0 * (y * (log(maximum(y, TINY)) - minimum(eta, LARGEST)) - y + _exponential(eta))


def _inside(x: Rows, mask: Row | None, outside: float) -> Rows:
    return x if mask is None else where(mask, x, outside)


def log_softmax(eta: Rows, mask: Row | None) -> Rows:
    """Return the logarithms of the probabilities of a group's classes."""
    shifted = _inside(eta, mask, NOWHERE)
    shifted = shifted - rowmax(shifted)
    return shifted - log(rowsum(exp(shifted)))


def _softmax(eta: Rows, mask: Row | None) -> Rows:
    shifted = _inside(eta, mask, NOWHERE)
    e = exp(shifted - rowmax(shifted))
    return e / rowsum(e)


def _softmax_loss(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    """Return each class's part of the loss; their sum is the loss."""
    return -(y * log_softmax(eta, mask))


def _softmax_residual(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    return _softmax(eta, mask) * rowsum(_inside(y, mask, 0.0)) - y


def softmax_hit(eta: Rows, y: Rows, mask: Row | None) -> Rows:
    """Return y of the most probable class, at that class; ties share it."""
    shifted = _inside(eta, mask, NOWHERE)
    top = equal(shifted, rowmax(shifted))
    return top * y / rowsum(top)


def softmax_label(eta: Rows, mask: Row | None) -> Rows:
    """Return 1 at the most probable class, or at each of several in a tie, else 0."""
    shifted = _inside(eta, mask, NOWHERE)
    return equal(shifted, rowmax(shifted))


LINKS: dict[str, Link] = {
    "linear": Link(
        mean=lambda eta, mask: +eta,
        loss=lambda eta, y, mask: _squared_error(eta, y, mask) / 2.0,
        residual=lambda eta, y, mask: eta - y,
        measure=_squared_error,
        metric="squared_error",
    ),
    "logistic": Link(
        mean=lambda eta, mask: sigmoid(eta),
        loss=_logistic_loss,
        residual=lambda eta, y, mask: sigmoid(eta) - y,
        measure=_logistic_loss,
        metric="log_loss",
        range=(0.0, 1.0),
    ),
    "hinge": Link(
        mean=lambda eta, mask: +eta,
        loss=_hinge_loss,
        residual=_hinge_residual,
        measure=_hinge_loss,
        metric="hinge_loss",
        range=(0.0, 1.0),
    ),
    "poisson": Link(
        mean=_exponential,
        loss=lambda eta, y, mask: _exponential(eta) - y * minimum(eta, LARGEST),
        residual=lambda eta, y, mask: _exponential(eta) - y,
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
    ),
}
