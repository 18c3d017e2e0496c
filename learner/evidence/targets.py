"""Collect the held-out scores of the targets of a linear model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from blocklearn.models import GLM
from blocklearn.models.glm.links import HINGES
from blocklearn.models.glm.targets import Fit

from ..learner import Learner
from ..reports.targets import PATH_METRICS, different_columns
from ..results.outputs import fits_of
from ..training.settings.evaluation import HIGHER
from .opened import RunData, predicted_blocks
from .score_bins import Scale, ScoreBins

MOST = 12  # targets with curves: the best and the worst
BINARY = ("logistic", "softmax", *HINGES)


@dataclass(frozen=True)
class Output:
    """A column of a model's predictions.

    name: of the target or class. column: of the predictions. y: of the data's targets.
    """

    name: str
    fit: Fit
    column: int
    y: int


@dataclass(frozen=True)
class TargetEvidence:
    """Sums by bin of some targets' held-out predictions, the best target first.

    rows, of: rows that were read, and those of the data. outputs: all that there are.
    """

    rows: int
    of: int
    outputs: int
    bins: Mapping[str, tuple[Output, ScoreBins]]


def target_evidence(learner: Learner, data: RunData) -> TargetEvidence | None:
    """Read held-out rows once; None if there are none to read."""
    source = data.held_out
    if source is None or not isinstance(learner.model, GLM):
        return None
    known = ordered(outputs_of(learner), learner.progress.scores)
    chosen = known if len(known) <= MOST else [*known[: MOST // 2], *known[-(MOST // 2) :]]
    bins: dict[str, tuple[Output, ScoreBins]] = {}
    rows = 0
    output, learner.model.output = learner.model.output, "mean"
    try:
        for block, values in predicted_blocks(learner, source, data.rows):
            n = block.rows
            for one in chosen:
                predictions, fit = values[:, one.column], one.fit
                if one.name not in bins:
                    bins[one.name] = one, ScoreBins(Scale.of(fit.link, predictions))
                weights = block.weights[:n].astype("float64")
                if fit.row_weights is not None:
                    weights = weights * block.targets[:n, fit.row_weights]
                bins[one.name][1].add(predictions, block.targets[:n, one.y], weights)
            rows += n
    finally:
        learner.model.output = output
    found = {name: both for name, both in bins.items() if both[1].weights.any()}
    return TargetEvidence(rows, source.shape.total_rows, len(known), found)


def outputs_of(learner: Learner) -> list[Output]:
    """Return the columns of predictions that say different things.

    Of each grid of settings they are those of the best fit.
    """
    best: dict[str, Fit] = {}
    scores = learner.progress.scores
    for fit in fits_of(learner):
        if fit.base not in best or quality(fit.name, scores) > quality(best[fit.base].name, scores):
            best[fit.base] = fit
    return [
        Output(name, fit, fit.start + place, fit.y[place])
        for fit in best.values()
        for place, name in different_columns(fit)
    ]


def ordered(outputs: list[Output], scores: Mapping[str, float]) -> list[Output]:
    """Return outputs by held-out quality, the best first."""
    return sorted(outputs, key=lambda one: -quality(one.name, scores))


def quality(name: str, scores: Mapping[str, float]) -> float:
    """Return a number that is larger for better targets; -inf without a score.

    It is the first of `PATH_METRICS` that the target has.

    >>> quality("a", {"auc/a": 0.75}), quality("b", {"log_loss/b": 0.5}), quality("c", {})
    (0.75, -0.5, -inf)
    """
    for metric in PATH_METRICS:
        value = scores.get(f"{metric}/{name}", math.nan)
        if not math.isnan(value):
            return value if metric in HIGHER else -value
    return -math.inf
