"""Refine what a fit by full passes has found, by further rows: `partial_fit` after `fit`.

The fit has found w0, the optimum of N rows. Near w0 their loss grows by N / 2 (w - w0)' H (w - w0),
about. So the optimum of all rows is near that of the m new ones with an anchor at w0:

    mean loss of the new rows + penalty + N / (4 m) sum_j h_j (w_j - w0_j)^2.

h is the diagonal of H, in units in which columns have size 1. L-BFGS finds this optimum, so no step
is too long, whatever the loss and the units. Earlier rows count half, hence 4 m and not 2 m: the
noise of the new rows then never exceeds that of the fit, and rows of another kind displace the
earlier ones. N includes the new rows afterwards. (Toulis, Airoldi, Annals of Statistics 45 (2017):
implicit steps.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, from_array, named, total
from blocklearn.optimizers import LBFGS

from ..base import Array
from .moments import Moments, Numbers
from .seen import Seen
from .units import Units

LEAST = 1e-6  # of a second derivative
LEAST_PASSES = 100  # that L-BFGS may take: `max_iter` counts calls of `partial_fit` as passes


class Anchored(LBFGS):
    """L-BFGS with a term weight / 2 (w - w0)^2 for each entry; w0 is where it starts."""

    anchors: Any = Field(exclude=True)  # weights by name of the parameter, of its shape

    def attach(self, cache: Any, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Make room for w0 and the weights."""
        super().attach(cache, parameters, **kwargs)
        self.start: dict[str, Mat] = {}
        self.pull: dict[str, Mat] = {}
        for name, w in parameters.items():
            self.start[name] = named(cache, f"{name}: start", w.shape, w.dtype)
            weights = np.asarray(self.anchors[name], w.dtype)
            self.pull[name] = from_array(cache, weights, f"{name}: weights of the anchor")

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Take the parameters as w0."""
        super().resume(paused)
        for name, start in self.start.items():
            start <<= self.parameters[name]

    def _finish(self) -> tuple[float, float, float]:
        f, _, _ = super()._finish()
        for name, s in self.sum.items():
            moved = self.parameters[name] - self.start[name]
            s <<= s + self.pull[name] * moved
            f += self.read(total(self.pull[name] * moved * moved)) / 2.0
        return f, self.dot(self.sum, self.d), self.dot(self.sum, self.sum) ** 0.5


def bends_of(
    loss: str,
    shape: float | None,
    W: Array,
    targets: Moments,
    units: Units,
    class_weights: Sequence[float] | None,
) -> Numbers:
    """Return how the slope of the loss changes with the score, by target.

    It is the mean over scores as far apart as those of the rows: losses that are straight further
    out keep less of the fit where the data change.
    shape: of the loss; None: its default. W: the weights [features x targets] in these units.
    """
    mean = targets.mean
    spread = np.sqrt(np.square(W).sum(axis=0))  # of scores
    if loss == "log_loss":
        found = mean * (1.0 - mean) / (1.0 + spread / 2.0)
    elif loss == "hinge":
        found = 1.0 / (1.0 + 2.0 * spread)
    elif loss == "huber":
        found = np.minimum((1.0 if shape is None else shape) / units.spread, 1.0)
    elif loss == "quantile":
        found = np.full_like(mean, 0.5)
    elif loss == "poisson":
        found = mean
    elif loss == "tweedie":
        found = np.maximum(mean, 0.0) ** (2.0 - (1.5 if shape is None else shape))
    else:
        found = np.ones_like(mean)
    if class_weights is not None:
        shares = mean if mean.size > 1 else np.array([1.0 - mean[0], mean[0]])
        found = found * float(shares @ class_weights)
    bends: Numbers = np.maximum(found, LEAST)
    return bends


def anchors_of(seen: Seen, new: Seen, units: Units, bends: Numbers) -> dict[str, Numbers]:
    """Return the weights of the anchor by name of the parameter, of `new` rows after `seen` ones.

    bends: see `bends_of`.
    """
    earlier = seen.columns.weight / 2.0 / new.columns.weight
    squares = seen.columns.about(units.centre) / units.scale**2
    least = 1.0 / new.columns.weight  # a row of size 1, for columns that were never seen
    by_column = np.maximum(earlier * squares, least)[:, None]
    return {"W": by_column * bends[None], "intercept": earlier * bends[None]}
