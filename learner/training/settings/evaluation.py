"""Score a model during training, and stop when a score no longer improves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, Self

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from blocklearn.fields import Fields
from blocklearn.synonyms import nearest

from ...errors import ConfigError
from .progress import Best, Progress
from .schedule import Cadence

LOWER = frozenset(
    "perplexity rmse mae objective divergence deviance log_loss hinge_loss squared_error"
    " squared_hinge_loss huber_loss pinball_loss gamma_deviance tweedie_deviance"
    " calibration_error calibration_error_4096"
    " topic_closeness mean_squared_distance mean_cosine_distance l1_change".split()
)
HIGHER = frozenset(
    "elbo_per_token log_likelihood explained accuracy r2 auc auc_4096 average_precision"
    " average_precision_4096 top_precision top_precision_4096 ndcg precision recall map mrr"
    " above_random c_npmi c_v c_uci u_mass distinct_words".split()
)
"""Scores that are better when they are lower, and when they are higher."""


class Evaluation(Fields):
    """When to score the eval data, besides at the end, and which score to watch."""

    model_config = ConfigDict(frozen=True)

    every_passes: PositiveInt | None = Field(
        1, description="passes between evaluations; null: not by passes"
    )
    every_blocks: PositiveInt | None = Field(
        None, description="blocks between evaluations, counted over all passes"
    )
    every_seconds: PositiveFloat | None = Field(None, description="seconds between evaluations")
    metric: str | None = Field(
        None, description="score to watch, such as perplexity, auc/TARGET, ndcg@10"
    )
    better: Literal["lower", "higher"] | None = Field(
        None, description="the better direction of metric; null: by its name"
    )
    patience: PositiveInt | None = Field(
        None, description="training ends after so many evaluations without a better metric"
    )
    keep_best: bool = Field(
        True, description="whether the final model is the best by metric; false: the last one"
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.metric is None and self.patience is not None:
            raise ValueError("patience needs a metric to watch, such as metric: perplexity")
        if self.metric is not None and self._direction is None:
            raise ValueError(
                f"metric={self.metric}: unknown score{self._hint}. Correct its name; of a score of "
                "your own, set better to lower or higher"
            )
        if self._known is not None and self.better not in (None, self._known):
            raise ValueError(
                f"better={self.better}: {self.metric} is better when it is {self._known}. Leave "
                "out better; if the score is your own, give it another name"
            )
        return self

    @property
    def _known(self) -> Literal["lower", "higher"] | None:
        name = (self.metric or "").split("/")[0].split("@")[0]
        return "lower" if name in LOWER else "higher" if name in HIGHER else None

    @property
    def _direction(self) -> Literal["lower", "higher"] | None:
        return self.better or self._known

    @property
    def _hint(self) -> str:
        near = nearest(self.metric or "", sorted(LOWER | HIGHER))
        return f" (did you mean {near!r}?)" if near else ""

    @property
    def keeps_best(self) -> bool:
        """Whether the best model is kept, by a score that is watched."""
        return self.keep_best and self.metric is not None

    def improves(self, score: float, best: float) -> bool:
        """Return whether `score` is better than `best`; a NaN is worse than any number."""
        if math.isnan(score) or math.isnan(best):
            return math.isnan(best) and not math.isnan(score)
        return score < best if self._direction == "lower" else score > best

    def visits(self, passes: int) -> int:
        """Estimate how often the eval data are read in so many passes."""
        if self.every_blocks is not None or self.every_seconds is not None:
            return passes + 1
        return -(-passes // (self.every_passes or passes))


class Evaluator:
    """Scores the eval data when that is due, and watches one of the scores."""

    def __init__(
        self,
        settings: Evaluation,
        progress: Progress,
        score: Callable[[], dict[str, float]] | None,
        tell: Callable[[str], None],
    ) -> None:
        """Watch from where `progress` is now.

        score: scores the eval data; None: there are none.
        tell: called with "evaluated", and with "improved" when the metric is the best so far.
        """
        self._settings, self._progress, self._score, self._tell = settings, progress, score, tell
        self._cadence = Cadence(
            progress,
            passes=settings.every_passes,
            blocks=settings.every_blocks,
            seconds=settings.every_seconds,
        )
        if progress.best is not None and progress.best.metric != settings.metric:
            progress.best = None

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        best, patience = self._progress.best, self._settings.patience
        return best is not None and patience is not None and best.waited >= patience

    def due(self) -> bool:
        """Return whether to evaluate. Call it once after blocks, and when a pass is complete."""
        return self._score is not None and self._cadence.due(self._progress)

    def look(self, *, last: bool = False) -> None:
        """Evaluate if it is due. last: evaluate in any case."""
        if self.due() or (last and self._score is not None):
            self.evaluate()

    def evaluate(self) -> None:
        """Score the eval data.

        Raises:
            ConfigError: no score has the metric's name.
        """
        assert self._score is not None
        self._progress.scores = self._score()
        self._cadence.restart()
        self._tell("evaluated")
        if self._settings.metric is not None:
            self._watch(self._settings.metric)

    def _watch(self, metric: str) -> None:
        progress, best = self._progress, self._progress.best
        check_metric(metric, progress.scores)
        score = float(progress.scores[metric])
        if best is None or self._settings.improves(score, best.score):
            progress.best = Best(metric, score, *progress.position)
            self._tell("improved")
        else:
            progress.best = replace(best, waited=best.waited + 1)
        progress.stop = progress.stop or self.exhausted


def check_metric(metric: str, scores: Iterable[str]) -> None:
    """Raise ConfigError if no score has the metric's name."""
    known = list(scores)
    if metric not in known:
        raise ConfigError([f"evaluation.metric: {metric!r}, but the scores are {', '.join(known)}"])
