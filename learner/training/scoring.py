"""Score a model on the blocks of a source."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from blocklearn.datasources import HostBlock
from blocklearn.models import Block, Score
from blocklearn.models.score import Tally

from ..errors import DivergedError
from .progress import Progress
from .replica import Replica
from .team import Team


def score_blocks(
    team: Team, blocks: Iterable[HostBlock], rows: int, progress: Progress
) -> dict[str, float]:
    """Return the figures of the blocks by name, and those of mixins.

    rows: of all blocks, at most.
    progress: of the training before; counts the scored blocks.

    Raises:
        DivergedError: a score is not finite.
    """

    def score_block(replica: Replica, host: HostBlock) -> tuple[Score, HostBlock]:
        score: Score = {name: part.read() for name, part in replica.score_of(host).items()}
        for name, part in score.items():
            if not part.finite:
                raise DivergedError(
                    f"{name} of block {host.index} is {part} after {progress.rows:,} rows of "
                    "training: the model has diverged. Lower the optimizer's rate or raise the "
                    "regularisation."
                )
        return score, host

    tally = team.tally(rows)
    with team.exact():
        tally.clear()
        reports = {name: float(value) for name, value in team.first.scores_of_mixins().items()}
        for score, host in team.in_turn(blocks, score_block):
            tally.add(score, host.rows)  # the replica waits: it gets its next block after this
            tally.count(host)
            progress.scored += 1
        return tally.figures() | reports


SHARE = 0.01  # of the time of training that scores may take


class TrainingScores:
    """Scores a block of the first replica now and then, before it is trained on.

    The scores do not affect training. Which blocks are scored depends on time.
    """

    def __init__(self, progress: Progress) -> None:
        """Write scores to `progress`, from the first block on."""
        self._progress = progress
        self._due = -math.inf
        self._tally: Tally | None = None

    def due(self, replica: Replica, side: int) -> bool:
        """Return whether a score of the present block is due."""
        return side == 0 and replica.complete and time.perf_counter() >= self._due

    def take(self, replica: Replica, block: Block) -> None:
        """Score this block."""
        begun = time.perf_counter()
        if self._tally is None:
            self._tally = Tally(replica.model.score_totals(None))
        self._tally.clear()
        score = {name: part.read() for name, part in replica.score(block).items()}
        self._tally.add(score, block.rows)
        found = self._tally.figures().items()
        self._progress.train_scores = {
            name: value for name, value in found if math.isfinite(value) and "/" not in name
        }
        now = time.perf_counter()
        self._due = now + (now - begun) / SHARE
