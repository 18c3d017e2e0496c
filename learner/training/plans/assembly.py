"""Make the replicas of a run: the model and its optimizer, for given data and devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape
from blocklearn.matcache import IndexedBy
from blocklearn.matcache.devices import IDLE
from blocklearn.models import Model, RowStore, Shapes
from blocklearn.optimizers import Optimizer

from ...engines.crew import Crew
from ...files.placed_tables import PlacedTables
from ...files.table_files import TableFiles
from ..inputs.counting import count_labels, count_tokens, sum_values
from ..inputs.row_sample import take_rows
from ..inputs.run_data import RunData
from ..replicas.parts import Parts
from ..replicas.planning import Scored
from ..replicas.replica import Replica
from ..settings.devices import Kept
from ..settings.execution import Execution
from ..settings.optimizer_checks import check_kept_rows
from ..states.state import State
from ..teams.team import Team
from .gpu_time import Card, Update, pass_of
from .index_choice import PassTimes, changes, pass_times


class _Unsent(RowStore):
    """Rows of a state that are all zeros and take no memory."""

    def changed(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Assembly:
    """Makes replicas of `parts`.

    data: a model is told of them before its memory is planned.
    passes: over the data.
    index: who makes the transposed index of blocks.
    extras: computations beside training: see `Replica`.
    workers: of the run.
    states_in_files: whether states of rows lie in files.
    files: keep the tables; None: they lie with the other memory.
    scores: when blocks are scored.
    """

    parts: Parts
    data: RunData
    execution: Execution
    passes: int
    index: IndexedBy
    extras: Sequence[Callable[[Replica], None]]
    workers: int
    states_in_files: bool
    files: PlacedTables | None
    scores: Scored

    def shapes(self, blocks: Sequence[BlockShape], **found: Any) -> Shapes:
        """Return the shapes for the model. found: sums over the data."""
        data, on_gpu = self.data, self.execution.on_gpu
        return Shapes(
            rows=blocks[0].rows,
            columns=blocks[0].columns,
            on_gpu=on_gpu,
            states_in_files=self.states_in_files,
            rows_by_need=self.workers > 1 and self.execution.replicas == 1 and not on_gpu,
            total_rows=blocks[0].total_rows,
            of_rows=data.of_rows,
            targets=blocks[0].targets,
            names=data.names,
            target_names=data.target_names,
            passes=self.passes,
            sides=len(data.sides) or len(blocks),
            dense=blocks[0].dense,
            **found,
        )

    def optimizer_for_data(self) -> Optimizer | None:
        """Return the model's default optimizer for the training data, if there are any."""
        model, mixins = self.parts.model, self.parts.mixins
        if self.data.train is None:
            return model.default_optimizer()
        terms = [mixin for mixin in mixins if mixin.acts]
        return model.optimizer_for(self.shapes([self.data.train.shape]), terms)

    def team(self, shape: BlockShape, side: int, restored: State | None, crew: Crew) -> Team:
        """Return one replica for each device; the first has `parts`, the others copies.

        They take blocks of `shape` on that side. An error releases the files of tables.

        restored: the state that they will load, if any.
        crew: the workers of the run.
        """
        others = [self.parts.copies() for _ in self.execution.devices[1:]]
        try:
            replicas = [
                self._replica(parts, number, shape, side, restored)
                for number, parts in enumerate([self.parts, *others])
            ]
            return Team(replicas, self.execution, crew)
        except BaseException:
            if self.files is not None:
                self.files.release()
            raise

    def draft(self, shape: BlockShape, restored: State | None) -> Replica:
        """Return a replica whose memory is planned, but not allocated."""
        return self._replica(self.parts.copies(), 0, shape, 0, restored, commit=False)

    def counting(self, shape: BlockShape, room: int) -> Replica:
        """Return a replica on a GPU that does nothing, whose launches can be counted.

        room: bytes of its memory. No GPU is needed, and none of that memory.
        """
        idle = replace(self.execution, devices=[f"{IDLE}{room}"] * self.execution.replicas)
        replica = replace(self, execution=idle).draft(shape, None)
        replica.cache.commit()
        for state in replica.model.states.values():
            state.connect(_Unsent(*state.shape, state.dtype))
        return replica

    def gpu_floor(self, card: Card) -> Update:
        """Return the least that a pass over the training data takes on a card; none is needed."""
        with closing(self.counting(self.data.training.shape, card.room)) as replica:
            return pass_of(replica, self.data.sides, card)

    def pass_times(self, card: Card) -> PassTimes | None:
        """Return the least times of a pass on a card, by who makes the index of blocks.

        None if it makes no difference. An `index` made by the host is required.
        """
        sources = self.data.sides
        if not self.execution.on_gpu or not any(map(changes, sources)):
            return None
        execution = replace(self.execution, device_blocks=0)
        bare = replace(self, execution=execution)
        with closing(bare.counting(sources[0].shape, card.room)) as replica:
            return pass_times(replica, sources, card, execution.replicas)

    @cached_property
    def _tokens(self) -> tuple[NDArray[np.int64] | None, str]:
        """The tokens before each row of the training data, and why there are none."""
        most = self.parts.model.needs.tokens
        if not most or self.data.train is None:
            return None, ""
        if any(mixin.acts for mixin in self.parts.mixins):
            return None, "terms of mixins act on sums, not on single tokens"
        if self.data.of_rows is not None:
            return None, "the data are a part of those that are trained on"
        return count_tokens(self.data.train, most)

    def _kept(self, device: str) -> Kept:
        """Return what may stay on a device."""
        data, execution = self.data, self.execution
        sharing = execution.devices.count(device)
        return Kept(data.sides, data.eval, self.passes > 1, execution.device_blocks, sharing)

    def _blocks(
        self, model: Model, shape: BlockShape, side: int, restored: State | None
    ) -> list[BlockShape]:
        """Return the block shapes of each side, with room for blocks of `shape` and of all data."""
        data = self.data
        if data.targets is not None:
            shape = replace(shape, targets=data.targets)
        if not side:
            known = [each.shape.nnz for each in (data.train, data.eval) if each is not None]
            shape = replace(shape, nnz=max([shape.nnz, *known]))
        return block_shapes(model, shape, side, [each.shape for each in data.sides], restored)

    def _replica(
        self,
        parts: Parts,
        number: int,
        shape: BlockShape,
        side: int,
        restored: State | None,
        *,
        commit: bool = True,
    ) -> Replica:
        model, optimizer, sides = parts.model, parts.optimizer, self.data.sides
        blocks = self._blocks(model, shape, side, restored)
        train = self.data.train if commit else None
        trains = bool(sides or parts.mixins) or restored is None or not restored.exact
        check_kept_rows(optimizer, sides, self.execution.replicas * self.workers)
        needs = model.needs
        counted = needs.counts or (optimizer is not None and optimizer.keeps_rows)
        tokens, why = self._tokens
        wanted = needs.sample if train and restored is None else 0
        shapes = self.shapes(  # counting is a pass over the data: not for a draft
            blocks,
            tokens=tokens,
            why_no_tokens=why,
            restored=() if restored is None else restored.tensors.keys(),
            counts=count_labels(train) if train and counted else None,
            value_sums=sum_values(train) if train and needs.value_sums else None,
            sample=take_rows(train, wanted) if train and wanted else None,
        )
        device = self.execution.devices[number]
        if isinstance(self.files, TableFiles):
            self.files.shared = self.workers > 1
        return Replica(
            parts,
            shapes,
            blocks,
            self.execution,
            device=device,
            index=self.index,
            workers=self.workers,
            kept=self._kept(device),
            extras=self.extras,
            files=self.files,
            trains=trains,
            scores=self.scores,
            lent={} if trains or restored is None else restored.tensors,
            commit=commit,
        )


def block_shapes(
    model: Model,
    shape: BlockShape,
    side: int,
    training: Sequence[BlockShape],
    restored: State | None,
) -> list[BlockShape]:
    """Return the block shapes of each side of `model`, given `shape` of `side`.

    training: shapes of the training data, if any.
    restored: a state; its row state tells the number of rows and columns.
    """
    saved = {} if restored is None else restored.tensors
    known = {of: len(saved[name]) for name, of in model.row_states.items() if name in saved}
    if 1 not in model.row_states.values():
        rows = training[0].total_rows if training else known.get(0, shape.total_rows)
        return [replace(shape, total_rows=rows)]
    if len(training) == 2:
        return list(training)
    rows, columns = shape.total_rows, shape.columns
    if side == 1:
        rows, columns = columns, rows
    rows = training[0].total_rows if training else known.get(0, rows)
    columns = known.get(1, columns)
    found = [
        BlockShape(shape.rows, m, 1, n, dense=shape.dense)
        for n, m in [(rows, columns), (columns, rows)]
    ]
    found[side] = replace(found[side], nnz=shape.nnz)
    return found
