"""Gradients of a model against differences of its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HostBlock
from blocklearn.matcache import Mat, MatCache, colsum, scalar, total
from blocklearn.models import Sum
from blocklearn.optimizers import Gradient, LinearLoss, Objective, Optimizer

from ..training.replicas.replica import Replica
from .runs import Case

STEPS = (3e-2, 3e-3, 3e-4)
"""Lengths of the step that the loss is compared over; one of them must agree."""
NEAR = 0.05
"""Relative difference that rounding and curvature may make."""

Arrays = dict[str, NDArray[np.float64]]


class Probe(Optimizer):
    """Keeps the gradients and the loss of a block as matrices; changes no parameter."""

    def attach(self, cache: MatCache, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Nothing is known yet."""
        super().attach(cache, parameters)
        self.gradients: dict[str, Mat] = {}
        self.masks: dict[str, Any] = {}
        self.loss: tuple[Any, Any] | None = None
        self._norm = scalar(cache, 1.0, "weight of the block (check of gradients)")

    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Compute the gradients, and the sum of losses and of weights where they are known."""
        self.gradients, self.masks = {}, {}
        self.loss = None if objective is None else (objective[0].mat(), objective[1].mat())
        for name, update in updates.items():
            self.masks[name] = getattr(update, "mask", None)
            if isinstance(update, LinearLoss):
                self._linear(name, update, alone=len(updates) == 1)
            elif isinstance(update, Gradient):
                self.gradients[name] = update.at(self.parameters[name]).mat()
            else:
                self.gradients[name] = update.mat()
        self.steps += 1

    def _linear(self, name: str, update: LinearLoss, *, alone: bool) -> None:
        self._norm.set(update.block.weight or 1.0)
        R = update.derivatives(name, self.parameters, self._norm)
        self.gradients[name] = (update.block.X.T @ R).mat()
        if update.bias is not None:
            self.gradients[update.bias] = colsum(R).mat()
        if alone:
            _, losses = update.row_by_row(name, self.parameters)
            weights = update.block.weights
            self.loss = total(losses * weights).mat(), total(weights).mat()


class WrongGradient(NamedTuple):
    """By a parameter: the slope that its gradient gives, and that of the loss."""

    parameter: str
    given: float
    found: float


def wrong_gradient(case: Case) -> WrongGradient | bool | None:
    """Find the first parameter whose gradient is wrong.

    Returns None where all are right, False where no loss is known.

    See `check_model` for which loss that is.
    """
    if case.model.meaning != "gradients" or case.model.row_states:
        return False
    learner = case.learner(optimizer=Probe(), mixins=(), passes=1).fit()
    probe, team = learner.optimizer, learner.team
    assert isinstance(probe, Probe) and team is not None
    try:
        if team.first.optimizer is None:  # `update` assigns the parameters after all
            return False
        return _Slopes(case, probe, team.first).wrong()
    finally:
        learner.close()


class _Slopes:
    """The loss of the first block, as a function of the parameters."""

    def __init__(self, case: Case, probe: Probe, replica: Replica) -> None:
        self.probe, self.replica = probe, replica
        self.host = HostBlock(case.source.shape)
        case.source.read(0, 0, self.host)
        self.host.transpose()
        self.random = np.random.default_rng(0)
        parameters = replica.model.parameters
        self.at: Arrays = {n: mat.numpy().astype(np.float64) for n, mat in parameters.items()}
        self.gradients: Arrays = {}

    def wrong(self) -> WrongGradient | bool | None:
        """See `wrong_gradient`."""
        if self._loss(self.at) is None:
            return False
        masks = {n: mask.numpy() for n, mask in self.probe.masks.items() if mask is not None}

        def drawn(name: str) -> NDArray[np.float64]:
            numbers = self.random.standard_normal(self.at[name].shape)
            return np.asarray(numbers * masks.get(name, 1.0))

        names = list(self.probe.gradients)
        self.at |= {name: self.at[name] + 0.1 * drawn(name) for name in names}
        self._loss(self.at)
        found = self.probe.gradients
        gradients = {n: found[n].numpy().astype(np.float64) * masks.get(n, 1.0) for n in names}
        for name, gradient in gradients.items():
            direction = _unit(gradient) + _unit(drawn(name))
            given = float((gradient * direction).sum())
            slopes = [self._slope(name, direction, step) for step in STEPS]
            if not any(_close(given, slope) for slope in slopes):
                best = min(slopes, key=lambda slope: abs(slope - given))
                return WrongGradient(name, given, best)
        return None

    def _slope(self, name: str, direction: NDArray[np.float64], step: float) -> float:
        ahead, behind = (
            self._loss(self.at | {name: self.at[name] + sign * step * direction})
            for sign in (1.0, -1.0)
        )
        assert ahead is not None and behind is not None
        return (ahead - behind) / (2 * step)

    def _loss(self, values: Arrays) -> float | None:
        """Return the mean loss of the block at the parameters `values`; None: unknown."""
        for name, mat in self.replica.model.parameters.items():
            mat.set(values[name].astype(np.float32))
        self.replica.train(self.host)
        if self.probe.loss is not None:
            loss, weight = self.probe.loss
            return float(loss) / float(weight)
        for name, mat in self.replica.model.parameters.items():  # `update` may have set some
            mat.set(values[name].astype(np.float32))
        scores = self.replica.score(self.replica.bind(self.host))
        losses = [s for n, s in scores.items() if n == "loss" or n.endswith("_loss")]
        if len(losses) != 1 or not isinstance(losses[0], Sum) or losses[0].kind != "mean":
            return None
        found = losses[0].read()
        return float(found.total) / float(found.count)


def _unit(array: NDArray[np.float64]) -> NDArray[np.float64]:
    return array / max(float(np.linalg.norm(array)), 1e-30)


def _close(given: float, found: float) -> bool:
    return abs(given - found) <= NEAR * max(abs(given), abs(found)) + 1e-5
