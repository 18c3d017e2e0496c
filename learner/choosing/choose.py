"""Choose the settings that a model leaves open, such as `reg: auto`, by short trainings.

Every candidate trains on a part of the entries for a few passes, from the same random numbers. The
one with the best score on the other entries is chosen, and then trained on all. See `parts.py`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blocklearn.datasources import DataSource, IterableSource, blocks_of_entries
from blocklearn.models import Model, ValueMoments
from blocklearn.models.undecided import Settings

from ..figures import counted, number
from ..hooks import Hook
from ..learner import Learner
from ..recommendation.ranking_evaluation import RankingEvaluation
from ..training.settings.evaluation import Evaluation
from .parts import FEW, PARTS, held_out, in_turn, one_part

PASSES = 5  # of a trial, at most
MARGIN = 0.005  # of a score, by which others must be better than the safest, of few entries

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tried:
    """A candidate and how it did.

    settings: fields of the model, by name.
    score: on the held-out entries; NaN: none of them can be scored.
    """

    settings: Mapping[str, object]
    score: float

    def __str__(self) -> str:
        """Show the settings and the score."""
        return f"{shown(self.settings)}: {number(self.score)}"


@dataclass(frozen=True)
class Choice:
    """What was tried, and what is chosen.

    metric: the name of the scores.
    passes: of each trial.
    parts: in which all entries are held out in turn; 1: a tenth of them is.
    tried: in the order of the trials.
    settings: the fields that are chosen.
    seconds: of all trials together.
    """

    metric: str
    passes: int
    parts: int
    tried: Sequence[Tried]
    settings: Mapping[str, object]
    seconds: float

    def __str__(self) -> str:
        """Show what is chosen, and why."""
        chosen = next(each for each in self.tried if each.settings == self.settings)
        return (
            f"chosen among {len(self.tried)} settings: {shown(self.settings)} "
            f"({self.metric} {number(chosen.score)} on {held_out(self.parts)}, "
            f"{counted(self.passes, 'pass', 'passes')})"
        )

    def plain(self) -> dict[str, object]:
        """Return everything as numbers, texts, lists and mappings; NaN is None, as in JSON."""
        tried = [
            {**each.settings, "score": None if math.isnan(each.score) else each.score}
            for each in self.tried
        ]
        return asdict(self) | {"tried": tried, "settings": dict(self.settings)}


def choose(learner: Learner) -> Choice | None:
    """Choose the settings that the model of `learner` leaves open, and set them there.

    The held-out entries depend on `learner.seed` and on nothing else. Trials use the threads and
    the first device of `learner`, one after the other. Returns None if nothing is open.

    Raises:
        ValueError: there are no training data, or they come from an `IterableSource`, whose rows
            may have another order in every pass.

    >>> import blocklearn as bl
    >>> X = bl.sparse([[5, 4, 0, 1], [4, 0, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5.0]])
    >>> learner = bl.Learner(bl.models.ALS(rank=2, reg="auto"), X, threads=1, verbose=False)
    >>> choice = bl.choose(learner)
    >>> len(choice.tried), learner.model.reg == choice.settings["reg"]
    (10, True)
    """
    model, train = learner.model, learner.train
    undecided = model.undecided
    if undecided is None:
        return None
    check_source(model, train)
    assert train is not None
    begun = time.perf_counter()
    values, seed = moments_of(train), learner.execution.seed
    parts = PARTS if undecided.by_entry and PARTS <= values.number <= FEW else 1
    sources = one_part(train, seed) if parts == 1 else in_turn(train, seed)
    passes = min(learner.passes, PASSES)
    judge = Evaluation(metric=undecided.judged_by)

    def trials(candidates: Settings) -> list[Tried]:
        tried = []
        for settings in candidates:
            trial = model.model_copy(update=dict(settings))
            score = score_of(learner, trial, sources, passes, judged_by=undecided.judged_by)
            tried.append(Tried(settings, score))
            log.info("%s: tried %s, %s", undecided.what, tried[-1], judge.metric)
        return tried

    tried = trials(undecided.to_try(values))
    safest = tried[-1]
    tried += trials(undecided.then(values, best_of(tried, judge).settings))
    best = best_of(tried, judge)
    if parts > 1 and abs(safest.score - best.score) <= MARGIN * abs(best.score):
        best = safest
    learner.model = model.model_copy(update=dict(best.settings))
    seconds = time.perf_counter() - begun
    return Choice(undecided.judged_by, passes, parts, tried, best.settings, seconds)


def best_of(tried: Sequence[Tried], judge: Evaluation) -> Tried:
    """Return the candidate with the best score, the first of equally good ones."""
    best = tried[0]
    for each in tried[1:]:
        if judge.improves(each.score, best.score):
            best = each
    return best


def provisional(model: Model) -> Model:
    """Return `model` with the first candidate for what is open, to plan the memory."""
    if model.undecided is None:
        return model
    return model.model_copy(update=dict(model.undecided.to_try(None)[0]))


def check_source(model: Model, train: DataSource | None) -> None:
    """Raise ValueError if nothing can be held out of `train`."""
    assert model.undecided is not None
    what = f"{type(model).__name__}: {model.undecided.what}"
    if train is None:
        raise ValueError(f"{what}: needs data to try settings on; pass train=X.")
    if isinstance(train, IterableSource):
        raise ValueError(
            f"{what}: needs data whose rows keep their order, to hold some out and to read the "
            "others several times, but an IterableSource may yield others in every pass. Give a "
            "number, or write the data to blocks with blocklearn.datasources.write_blocks."
        )


def score_of(
    learner: Learner, model: Model, sources: Sequence[Any], passes: int, *, judged_by: str
) -> float:
    """Train `model` on the first of two sources, and return its score on the second.

    NaN: the second has no entry that can be scored.
    """
    hooks: list[Hook] = []
    execution = learner.execution
    if "@" in judged_by:
        hooks = [RankingEvaluation(top=int(judged_by.split("@")[1]))]
    trial = Learner(
        model,
        *sources,
        passes=passes,
        seed=execution.seed,
        threads=execution.threads,
        optimizer=learner.optimizer,
        mixins=learner.mixins,
        hooks=hooks,
        evaluation=Evaluation(every_passes=passes),
        row_folder=learner.row_folder,
        device=execution.devices[0],
        index=execution.index,
        tables=execution.tables,
        verbose=False,
    )
    try:
        return float(trial.fit().progress.scores.get(judged_by, math.nan))
    finally:
        trial.close()


def moments_of(source: DataSource) -> ValueMoments:
    """Return the moments of all stored values, in one pass over the source."""
    count, total, squares, magnitude = 0, 0.0, 0.0, 0.0
    for _, matrix in blocks_of_entries(source):
        values = matrix.data.astype(np.float64)
        count += values.size
        total += float(values.sum())
        squares += float(values @ values)
        magnitude += float(np.abs(values).sum())
    mean = total / max(count, 1)
    variance = max(0.0, squares / max(count, 1) - mean * mean)
    return ValueMoments(count, math.sqrt(variance), magnitude / max(count, 1))


def shown(settings: Mapping[str, object]) -> str:
    """Return settings as text: `reg=0.05, row_reg=5`."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
        if value is not None
    )
