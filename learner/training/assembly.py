"""Make the replicas of a run: the model and its optimizer, for given data and devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape, DataSource
from blocklearn.matcache import IndexedBy, Tables
from blocklearn.matcache.devices import IDLE
from blocklearn.mixins import Mixin
from blocklearn.models import Model, RowStore, Shapes
from blocklearn.optimizers import Optimizer

from ..files.placed_tables import PlacedTables
from .checks import check_kept_rows
from .data import count_labels, count_tokens, sum_values
from .devices import Kept, share
from .replica import Replica
from .row_sample import take_rows
from .state import State, block_shapes


@dataclass(frozen=True)
class Parts:
    """The model, its optimizer, and the terms of the objective."""

    model: Model
    optimizer: Optimizer | None
    mixins: Sequence[Mixin]

    def copies(self) -> Parts:
        """Return copies, for another replica."""
        optimizer = None if self.optimizer is None else self.optimizer.model_copy()
        mixins = [mixin.model_copy() for mixin in self.mixins]
        return Parts(self.model.model_copy(), optimizer, mixins)


@dataclass(frozen=True)
class Facts:
    """What a model is told of the data and the run before its memory is planned.

    training: the training data, in each orientation that a pass visits.
    eval: the data for scores.
    targets: their number; None: unknown.
    of_rows: rows of the whole data, if the training data are one part of them.
    on_gpu: whether replicas are on GPUs.
    states_in_files: whether states of rows lie in files.
    rows_by_need: whether other workers have states of rows, too: see `Shapes`.
    """

    training: Sequence[DataSource]
    eval: DataSource | None
    names: Sequence[str] | None
    target_names: Sequence[str] | None
    targets: int | None
    of_rows: int | None
    passes: int
    on_gpu: bool
    states_in_files: bool
    rows_by_need: bool

    def shapes(self, blocks: Sequence[BlockShape], **found: Any) -> Shapes:
        """Return the shapes for the model. found: sums over the data."""
        return Shapes(
            rows=blocks[0].rows,
            columns=blocks[0].columns,
            on_gpu=self.on_gpu,
            states_in_files=self.states_in_files,
            rows_by_need=self.rows_by_need,
            total_rows=blocks[0].total_rows,
            of_rows=self.of_rows,
            targets=blocks[0].targets,
            names=self.names,
            target_names=self.target_names,
            passes=self.passes,
            sides=len(self.training) or len(blocks),
            dense=blocks[0].dense,
            **found,
        )

    def blocks(
        self, model: Model, shape: BlockShape, side: int, restored: State | None
    ) -> list[BlockShape]:
        """Return the block shapes of each side, with room for blocks of `shape` and of all data."""
        if self.targets is not None:
            shape = replace(shape, targets=self.targets)
        if not side:
            known = [data.shape.nnz for data in (*self.training[:1], self.eval) if data is not None]
            shape = replace(shape, nnz=max([shape.nnz, *known]))
        return block_shapes(model, shape, side, [data.shape for data in self.training], restored)


class _Unsent(RowStore):
    """Rows of a state that are all zeros and take no memory."""

    def changed(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Assembly:
    """Makes replicas of `parts`.

    devices: of each replica.
    threads: of all replicas; None: all that the process may use.
    index, tables, device_blocks: see `Learner`.
    extras: computations beside training: see `Replica`.
    workers: of the run.
    files: keep the tables; None: they lie with the other memory.
    """

    parts: Parts
    facts: Facts
    devices: Sequence[str]
    seed: int
    threads: int | None
    index: IndexedBy
    tables: Tables
    device_blocks: int | Literal["auto"]
    extras: Sequence[Callable[[Replica], None]]
    workers: int = 1
    files: PlacedTables | None = None

    def replicas(self, shape: BlockShape, side: int, restored: State | None) -> list[Replica]:
        """Return one replica for each device; the first has `parts`, the others copies.

        They take blocks of `shape` on that side. restored: the state that they will load, if any.
        """
        others = [self.parts.copies() for _ in self.devices[1:]]
        return [
            self._replica(parts, number, shape, side, restored)
            for number, parts in enumerate([self.parts, *others])
        ]

    def draft(self, shape: BlockShape, restored: State | None) -> Replica:
        """Return a replica whose memory is planned, but not allocated."""
        return self._replica(self.parts.copies(), 0, shape, 0, restored, commit=False)

    def counting(self, shape: BlockShape, room: int) -> Replica:
        """Return a replica on a GPU that does nothing, whose launches can be counted.

        room: bytes of its memory. No GPU is needed, and none of that memory.
        """
        facts, devices = replace(self.facts, on_gpu=True), [f"{IDLE}{room}"] * len(self.devices)
        replica = replace(self, facts=facts, devices=devices).draft(shape, None)
        replica.cache.commit()
        for state in replica.model.states.values():
            state.connect(_Unsent(*state.shape, state.dtype))
        return replica

    @cached_property
    def _tokens(self) -> tuple[NDArray[np.int64] | None, str]:
        """The tokens before each row of the training data, and why there are none."""
        most = self.parts.model.most_tokens
        if not most or not self.facts.training:
            return None, ""
        if any(mixin.acts for mixin in self.parts.mixins):
            return None, "terms of mixins act on sums, not on single tokens"
        if self.facts.of_rows is not None:
            return None, "the data are a part of those that are trained on"
        return count_tokens(self.facts.training[0], most)

    def _kept(self, device: str) -> Kept:
        """Return what may stay on a device."""
        facts, sharing = self.facts, self.devices.count(device)
        return Kept(facts.training, facts.eval, facts.passes > 1, self.device_blocks, sharing)

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
        model, blocks = parts.model, self.facts.blocks(parts.model, shape, side, restored)
        train = self.facts.training[0] if commit and self.facts.training else None
        trains = bool(self.facts.training or parts.mixins) or restored is None or not restored.exact
        optimizer = parts.optimizer
        check_kept_rows(optimizer, self.facts.training, len(self.devices) * self.workers)
        counted = model.needs_counts or (optimizer is not None and optimizer.keeps_rows)
        tokens, why = self._tokens
        wanted = model.sample_rows if train and restored is None else 0
        shapes = self.facts.shapes(  # counting is a pass over the data: not for a draft
            blocks,
            tokens=tokens,
            why_no_tokens=why,
            restored=() if restored is None else restored.tensors.keys(),
            counts=count_labels(train) if train and counted else None,
            value_sums=sum_values(train) if train and model.needs_value_sums else None,
            sample=take_rows(train, wanted) if train and wanted else None,
        )
        return Replica(
            model,
            parts.optimizer,
            parts.mixins,
            shapes,
            blocks,
            seed=self.seed,
            threads=share(self.threads, len(self.devices)),
            device=self.devices[number],
            index=self.index,
            tables=self.tables,
            replicas=len(self.devices),
            workers=self.workers,
            kept=self._kept(self.devices[number]),
            extras=self.extras,
            files=self.files,
            trains=trains,
            lent={} if trains or restored is None else restored.tensors,
            commit=commit,
        )
