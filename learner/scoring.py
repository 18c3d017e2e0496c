"""Scores of a model on the blocks of a source."""

from __future__ import annotations

from collections.abc import Iterable

from ..datasources import HostBlock
from ..models import Score
from ..models.score import add_scores, values
from .errors import DivergedError
from .hooks import Progress
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
