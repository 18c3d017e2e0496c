"""Scores of a model on the blocks of a source."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from blocklearn.datasources import HostBlock
from blocklearn.models import Block, Score
from blocklearn.models.score import add_scores, values

from ..errors import DivergedError
from .progress import Progress
from .replica import Replica
from .team import Team


def score_blocks(team: Team, blocks: Iterable[HostBlock], progress: Progress) -> dict[str, float]:
    """Figures by name, those that mixins report of the parameters included.

    Raises:
        DivergedError: one of them is not finite. progress: of the training before.
    """

    def score_block(replica: Replica, host: HostBlock) -> Score:
        block = replica.bind(host, new=replica.model.scores_new_rows)
        sums: Score = {name: part.read() for name, part in replica.score(block).items()}
        for name, part in sums.items():
            if not part.finite:
                raise DivergedError(
                    f"{name} of block {host.index} is {part} after {progress.rows:,} rows of "
                    "training: the model has diverged. Lower the optimizer's rate or raise the "
                    "regularisation."
                )
        return sums

    score: Score = {}
    with team.exact():
        reports = {name: float(value) for name, value in team.first.scores_of_mixins().items()}
        for sums in team.in_turn(blocks, score_block):
            score = add_scores(score, sums)
            progress.scored += 1
    return values(score) | reports


SHARE = 0.01  # of the time, at most


class TrainingScores:
    """Scores a block of the first replica now and then, before it is trained on, into a `Progress`.

    That changes nothing of what is learnt. Which blocks are scored depends on time.
    """

    def __init__(self, progress: Progress) -> None:
        """The first block is scored."""
        self._progress = progress
        self._due = -math.inf

    def look(self, replica: Replica, block: Block) -> None:
        """Score this block if it is time to."""
        if self.due(replica, block):
            self.take(replica, block)

    def due(self, replica: Replica, block: Block) -> bool:
        """Whether it is time to score this block."""
        return block.side == 0 and replica.complete and time.perf_counter() >= self._due

    def take(self, replica: Replica, block: Block) -> None:
        """Score this block."""
        begun = time.perf_counter()
        score = {name: part.read() for name, part in replica.score(block).items()}
        found = values(score).items()
        self._progress.train_scores = {
            name: value for name, value in found if math.isfinite(value) and "/" not in name
        }
        now = time.perf_counter()
        self._due = now + (now - begun) / SHARE
