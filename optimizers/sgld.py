"""Stochastic gradient Langevin dynamics: iterates that are draws from a posterior.

Welling, Teh, *Bayesian learning via stochastic gradient Langevin dynamics*, ICML 2011.

    w <- w - rate g + sqrt(2 rate / rows) z,     z standard normal.

g is the gradient of the mean loss, so `rate` is their eps_t / 2 times `rows`. If the loss of a row
is its negative log likelihood, and the terms of the objective are minus the log prior divided by
`rows`, then the iterates of small rates are draws from the posterior. No step is rejected, so large
rates and small blocks widen it; with a falling rate both errors vanish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from blocklearn.matcache import Draws, Mat, named, scalar, sqrt

from .gradient import GradientOptimizer
from .linear_loss import Weighted
from .managed import Slot
from .updates import Gradient, Update, masked

PASS = 2**31 - 2  # of the key of noise: no training reaches it, and first values use another


class SGLD(GradientOptimizer):
    """Draws weights from a posterior: steps against gradients, with noise.

    Takes gradients. Each step moves all weights, also those of features that a block lacks. With
    `average_from`, the parameters of a pass are means over draws: the posterior mean.
    """

    kind: Literal["sgld"] = "sgld"
    rate: float = Field(0.01, gt=0, description="step size")
    rows: float = Field(gt=0, description="rows of the training data, or the sum of their weights")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of the noise")
    step_per: Literal["block"] = Field("block", description="always one step per block")
    moves_rows_alone: ClassVar[bool] = False  # noise moves all

    @model_validator(mode="after")
    def _agree(self) -> Self:
        clips = ("clip_value", "clip_row_norm", "clip_global_norm")
        for name in clips:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}={getattr(self, name)}: must be null, as it would clip the "
                    "noise, too. Lower the rate."
                )
        return self

    def attach(
        self,
        cache: Any,
        parameters: dict[str, Mat],
        *,
        terms: Any = None,
        rates: Any = None,
    ) -> None:
        """Make the key of the noise, beside what every rule has."""
        super().attach(cache, parameters, terms=terms, rates=rates)
        self._key = named(cache, "key of noise (sgld)", (1, 3), np.int64)
        self._key.set(np.array([[self.seed, PASS, 0]]))
        self._noise = scalar(cache, 0.0, "noise (sgld)")

    def slots(self) -> dict[str, Slot]:
        """No state."""
        return {}

    def _advance(self, weighted: Weighted | None) -> None:
        """Set the noise of the step, beside what every rule sets."""
        rate = self.rate * self.schedule.factor(self.steps)
        self._noise.set(math.sqrt(2.0 / (rate * self.rows)))
        self._key.set(np.array([[self.seed, PASS, self.steps]]))
        super()._advance(weighted)

    def _of_means(self, updates: Mapping[str, Update]) -> dict[str, Update]:
        """Return dense gradients with noise, which becomes that of the step when it is scaled."""
        found = super()._of_means(updates)
        return {name: self._with_noise(name, update) for name, update in found.items()}

    def _with_noise(self, name: str, update: Update) -> Any:
        p, draws = self._find(name), Draws(self._key)
        noise = self._noise * draws.normal(p.w.shape, stream=list(self._managed).index(name))
        g = update.at(p.w) if isinstance(update, Gradient) else update
        g = g - (noise if p.rates is None else noise / sqrt(p.rates))
        return masked(g, update.mask if isinstance(update, Gradient) else None)
