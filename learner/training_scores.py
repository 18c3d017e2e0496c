"""How well a model explains rows that it is about to train on: an honest figure that costs little,
because the rows are there and the model has not learnt from them in this pass.
"""

from __future__ import annotations

import math
import time

from ..models import Block
from ..models.score import values
from .hooks import Progress
from .replica import Replica

SHARE = 0.01  # of the time, at most


class TrainingScores:
    """Scores a block of the first replica now and then, before it is trained on, into a `Progress`.

    That changes nothing of what is learnt. Which blocks are scored depends on time.
    """

    def __init__(self, progress: Progress) -> None:
        """The first block is scored."""
        self._progress = progress
        self._due = -math.inf

    def due(self, replica: Replica, block: Block) -> bool:
        """Whether to score this one."""
        return block.side == 0 and replica.complete and time.perf_counter() >= self._due

    def take(self, replica: Replica, block: Block) -> None:
        """Score it."""
        begun = time.perf_counter()
        score = {name: part.read() for name, part in replica.score(block).items()}
        found = values(score).items()
        self._progress.train_scores = {
            name: value for name, value in found if math.isfinite(value) and "/" not in name
        }
        now = time.perf_counter()
        self._due = now + (now - begun) / SHARE
