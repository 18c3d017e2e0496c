"""Score a model on the blocks of a source."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from blocklearn.datasources import DataSource, HostBlock
from blocklearn.models import Score
from blocklearn.models.score import Tally

from ..engines.crew import Crew
from ..errors import REMEDIES, DivergedError
from .replicas.program import Program
from .replicas.replica import Replica
from .settings.progress import Progress
from .teams.reading import reader_of
from .teams.shared_scores import packed, unpacked
from .teams.team import Team


@contextmanager
def scoring(
    team: Team, source: DataSource, progress: Progress, crew: Crew
) -> Iterator[Callable[[], dict[str, float]]]:
    """Open a reader of `source`, and yield a function that scores the model on its rows.

    progress, crew: see `score_blocks`. There may be more workers than blocks.
    """
    count, rows = source.blocks, source.shape.total_rows
    with reader_of(team, source, "score") as reader:

        def score() -> dict[str, float]:
            blocks = reader.blocks(0, min(crew.rank, count), crew.size)
            return score_blocks(team, blocks, rows, progress, crew)

        yield score


def score_blocks(
    team: Team,
    blocks: Iterable[HostBlock],
    rows: int,
    progress: Progress,
    crew: Crew,
) -> dict[str, float]:
    """Return the figures of the blocks by name, and those of mixins.

    rows: of all blocks, at most.
    progress: of the training before; counts the scored blocks.
    crew: the workers that score them, each the blocks of its rank, `size` blocks apart. All call
        this, and all get the figures, which have the bits of one worker.

    Raises:
        DivergedError: a score is not finite.
    """

    def score_block(replica: Replica, host: HostBlock) -> tuple[Score, HostBlock]:
        score: Score = {name: part.read() for name, part in replica.score_of(host).items()}
        for name, part in score.items():
            if not part.finite:
                raise DivergedError(
                    f"{name} of block {host.index} is {part} after {progress.rows:,} rows of "
                    f"training: the model has diverged. {REMEDIES}"
                )
        return score, host

    tally = team.tally(rows)
    with team.exact():
        tally.clear()
        reports = {name: float(value) for name, value in team.first.scores_of_mixins().items()}
        for score, host in _in_step(team.in_turn(blocks, score_block), crew):
            for each, count in _of_all(score, 0 if host is None else host.rows, crew):
                tally.add(each, count)  # the replica waits: it gets its next block after this
            if host is not None:
                tally.count(host)
                progress.scored += 1
        for counted in tally.counted:
            for rank, found in enumerate(crew.pooled(counted) if crew.size > 1 else ()):
                if rank != crew.rank:
                    counted += found.reshape(counted.shape)
        return crew.told(tally.figures() | reports if crew.leads else None)  # type: ignore[no-any-return]


def score_names(team: Team, source: DataSource) -> list[str]:
    """Return the names of the figures of `score_blocks`, from the first block of `source`.

    What the figures are does not matter: the model may be untrained.
    """

    def score_block(replica: Replica, host: HostBlock) -> tuple[Score, HostBlock]:
        return {name: part.read() for name, part in replica.score_of(host).items()}, host

    tally = team.tally(source.shape.rows)
    with reader_of(team, source, "score") as reader, team.exact():
        tally.clear()
        for score, host in team.in_turn(reader.blocks(0, stop=1), score_block):
            tally.add(score, host.rows)
            tally.count(host)
        return [*tally.figures(), *team.first.scores_of_mixins()]


Scored = tuple[Score, HostBlock | None]


def _in_step(scored: Iterator[tuple[Score, HostBlock]], crew: Crew) -> Iterator[Scored]:
    """Yield what this worker scores; as often on all workers, so at last perhaps nothing."""
    while True:
        found: Scored = next(scored, ({}, None))
        if not any(crew.gather(found[1] is not None)):
            return
        yield found


def _of_all(score: Score, rows: int, crew: Crew) -> Iterator[tuple[Score, int]]:
    """Yield the score of a block, and its rows; to the leader those of all workers, by rank."""
    yield score, rows
    if crew.size == 1:
        return
    own, nothing = packed(score, rows), np.empty(0, np.uint8)
    found = crew.exchange.exchange([own if rank == 0 else nothing for rank in range(crew.size)])
    if crew.leads:
        for part in found[1:]:
            yield unpacked(part, score)


SHARE = 0.01  # of the time of training that scores may take
FIRST = 5.0  # seconds of training before the first score: one of an untrained model tells nothing


class TrainingScores:
    """Scores a block of the first replica now and then, before it is trained on.

    The scores do not affect training. Which blocks are scored depends on time. A run that is over
    before the first score is due has one from the beginning of its last pass.
    """

    def __init__(self, progress: Progress) -> None:
        """Write scores to `progress`."""
        self._progress = progress
        self._due = time.perf_counter() + FIRST
        self._tally: Tally | None = None

    def due(self, program: Program, side: int, pass_: int) -> bool:
        """Return whether a score of the next block, which is of this side and pass, is due."""
        if side or not program.complete:
            return False
        last = pass_ + 1 >= self._progress.passes
        return (last and self._tally is None) or time.perf_counter() >= self._due

    def take(self, program: Program, score: Callable[[], Score], rows: int) -> None:
        """Score a block of so many rows."""
        begun = time.perf_counter()
        if self._tally is None:
            self._tally = Tally(program.model.score_totals(None))
        self._tally.clear()
        self._tally.add({name: part.read() for name, part in score().items()}, rows)
        found = self._tally.figures().items()
        self._progress.train_scores = {
            name: value for name, value in found if math.isfinite(value) and "/" not in name
        }
        now = time.perf_counter()
        self._due = now + (now - begun) / SHARE
