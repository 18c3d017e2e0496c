"""Train on further rows in memory in the calling thread, without a reader and the loop.

To turn a learner to a hundred rows, and to run the loop over them, takes longer than their update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

from blocklearn.datasources import BlockShape, DataError, DataSource, HostBlock, MatrixSource

from .divergence import FiniteCheck
from .inputs.data import as_counts
from .model_in_use import ModelInUse
from .plans.other_data import blocks_fit, read_alike
from .states.same_bits import same_bits
from .states.state import State
from .teams.team import Team

MOST_BYTES = 2**26  # of the block, which stays in memory


def further_rows(learner: ModelInUse, before: Team | None) -> FurtherRows | None:
    """Return what trains on more rows such as those that a learner has just trained on.

    None: its replicas were made for these rows, or are several; states are not those of rows; a
    pass is more than one over a matrix as it is; or blocks are large.

    before: its replicas before that.
    """
    team, source = learner.team, learner.data.train
    if team is None or team is not before or team.total > 1:
        return None
    if team.first.model.states.keys() - team.first.model.row_states.keys():
        return None
    if type(source) is not MatrixSource or source is not learner.data.given[0]:
        return None
    if team.first.device != "cpu" or source.shape.nbytes > MOST_BYTES:
        return None
    return FurtherRows(learner, team, source.shape)


class FurtherRows:
    """Makes one more pass, over as many rows as the last one had; `further_rows` makes it."""

    def __init__(self, learner: ModelInUse, team: Team, shape: BlockShape) -> None:
        """Allocate a block for the rows. shape: of the blocks so far."""
        self._team, self._shuffled = team, learner.parts.shuffled
        first = team.first
        intake = first.intakes[0]
        self._room = replace(shape, nnz=intake.shape.nnz)
        indexed = "train" in intake.indexed_for
        self._block = HostBlock(self._room, indexed=indexed, zeros=first.cache.backend.zeros)

    def holds(self, state: State, learner: ModelInUse) -> bool:
        """Return whether the learner is at `state` already, so that nothing has to be restored.

        States of rows are restored: they were left by other rows.
        """
        if self._team.first.model.states:
            return False
        position, progress = state.position, learner.progress
        here = {
            "pass": progress.pass_,
            "rows": progress.rows,
            "seconds": progress.seconds,
            "optimizers": self._team.paused(),
        }
        mats = self._team.first.learned.mats()
        return all(position.get(name) == value for name, value in here.items()) and all(
            same_bits(mat.slot.data(), state.tensors[name]) for name, mat in mats.items()
        )

    def train(self, data: Any, of_rows: int, learner: ModelInUse) -> bool:
        """Train on `data` as `Learner.fit(data)` does.

        Returns whether all is done. Otherwise the learner has to begin again at the state before,
        and to plan anew or to say what is wrong.

        data: X, (X, Y) or (X, Y, weights), of numbers.
        of_rows: rows of the whole data.
        learner: the same one, at the end of a pass.

        Raises:
            DivergedError: a parameter is no longer finite.
        """
        begun, team, progress = perf_counter(), self._team, learner.progress
        shapes = replace(team.first.shapes, of_rows=of_rows, passes=progress.pass_ + 1)
        try:
            source = self._source(data, learner)
            if not (self._fits(source.shape) and read_alike(team.first, shapes)):
                return False
            team.first.take(shapes)
            for _ in team.train(self._blocks(source, progress.pass_), 0):
                progress.block += 1
        except DataError:
            return False
        team.end_pass()
        FiniteCheck(1).now(team, progress)
        progress.pass_, progress.block = progress.pass_ + 1, 0
        progress.rows += source.shape.total_rows
        progress.seconds += perf_counter() - begun
        return True

    def _source(self, data: Any, learner: ModelInUse) -> MatrixSource:
        X, Y, weights = (*data, None)[:3] if isinstance(data, tuple) else (data, None, None)
        return MatrixSource(
            as_counts(X) if learner.model.takes_counts else X,
            targets=Y,
            weights=weights,
            block_rows=self._room.rows,
            shuffle=self._shuffled,
            seed=learner.execution.seed,
            keep_bytes=0,
        )

    def _fits(self, shape: BlockShape) -> bool:
        """Return whether the block has room for blocks of this shape, and the plan suits them."""
        return self._room.has_room_for(shape) and blocks_fit(self._team.first, shape)

    def _blocks(self, source: DataSource, pass_: int) -> Iterator[HostBlock]:
        """Yield the blocks of a pass, in the same memory."""
        indexed = self._team.first.reads_index(pass_, 0)
        for index in range(source.blocks):
            source.read(pass_, index, self._block)
            if indexed:
                self._block.transpose()
            yield self._block
