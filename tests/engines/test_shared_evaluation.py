"""Workers score the blocks of a source together, to the bits of one worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.memory import resident_bytes
from blocklearn.learner.training.teams.shared_scores import packed, unpacked
from blocklearn.models.score import Sum
from tests.engines.test_workers import CASES, FIRST, data_of, trained
from tests.support.workers import results


def copies(model: bl.Learner, folder: Path) -> Any:
    """Return what makes a learner of its own with this model, for each worker."""
    bl.save(model, folder / "model")
    kind = type(model.model)
    return lambda: bl.load(folder / "model", kind, threads=1)


OFTEN = [
    ("lda vb", 7),
    ("glm block", 2),
]  # seven have nine blocks: in the last round most have none
RARELY = [(name, 2) for name in FIRST if name != "glm block"]


@pytest.mark.parametrize(
    "name, workers",
    [*OFTEN, *(pytest.param(*case, marks=pytest.mark.slow) for case in RARELY)],
)
def test_workers_score_what_one_scores(name: str, workers: int, tmp_path: Path) -> None:
    data = data_of(CASES[name])
    made = copies(trained(CASES[name], passes=1), tmp_path)
    expected = made().evaluate(data)
    found = results(workers, lambda own: made().evaluate(data, crew=Crew(own)))
    assert found == [expected] * workers


def test_each_worker_scores_its_blocks_during_training() -> None:
    """There are nine blocks, and three evaluations."""
    found = results(2, lambda own: trained(CASES["glm block"], engine=own))
    assert [learner.progress.scored for learner in found] == [15, 12]


def test_metrics_are_of_all_workers() -> None:
    found = results(3, lambda own: trained(CASES["lda vb"], engine=own, eval=None))
    arrays = sum(learner.team.nbytes for learner in found if learner.team is not None)
    for learner in found:
        progress = learner.progress
        assert (progress.work.rows, progress.work.blocks) == (270, 27)
        assert progress.cache_bytes == arrays
        assert progress.bytes_elsewhere > resident_bytes()  # two workers: here of one process


def test_a_worker_that_cannot_score_ends_all(tmp_path: Path) -> None:
    made = copies(trained(CASES["glm block"], passes=1), tmp_path)
    data = data_of(CASES["glm block"])

    def work(own: Exchange) -> str:
        crew = Crew(own)
        try:
            with crew.guard(lambda error: 65):
                made().evaluate(np.ones((90, 2)) if own.rank else data, crew=crew)
        except (bl.BlocklearnError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    first, second = results(2, work)
    assert first.startswith(f"WorkerError: worker 1: {second}"[:60])


@dataclass(frozen=True)
class Odd:
    """A part of a score with numbers of all kinds."""

    low: float
    many: int
    kind: str
    both: tuple[float, float]
    none: None = None


def test_a_score_travels_as_its_numbers() -> None:
    score: Any = {"a": Odd(-0.0, 2**60 + 1, "x", (1e-300, float("inf"))), "b": Sum(0.1, 3, "root")}
    like: Any = {"a": Odd(1.0, 1, "x", (1.0, 1.0)), "b": Sum(1.0, 1, "root")}
    found, rows = unpacked(packed(score, 7), like)
    assert (repr(found), rows) == (repr(score), 7)


def test_a_part_that_is_no_dataclass_is_refused() -> None:
    score: Any = {"mine": object()}
    with pytest.raises(TypeError, match=r"^object: must be a dataclass"):
        packed(score, 1)
