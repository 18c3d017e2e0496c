"""The program of a model: its methods, run on the containers of one cache.

`planning.py` runs all of it on shapes, before there is any memory. `Replica` runs it on blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape
from blocklearn.matcache import IndexedBy, MatCache, ShapeError, make_backend, named
from blocklearn.matcache.containers.recording import Recording
from blocklearn.models import Block, Randomness, RowStore, Shapes, TrainingState
from blocklearn.models.inputs import Setting
from blocklearn.models.score import Score
from blocklearn.models.states.row_share import RowShare
from blocklearn.optimizers import Optimizer

from ...files.lent_tables import LentTables
from ...files.placed_tables import PlacedTables
from ...files.table_files import TableFiles
from ..settings.checks import (
    check_prediction,
    check_score,
    check_update_shapes,
    checked_scores,
)
from ..settings.execution import Execution
from ..settings.optimizer_checks import check_meaning, check_start
from .block_input import Intake
from .learned import Learned
from .names import OPTIMIZER
from .noted import NotedShapes
from .parts import Parts
from .states_at_hand import NEW_PREDICTED, NEW_SCORED, OTHER_SIDE, without_rows
from .terms import terms_of


class Program:
    """A model, its optimizer and mixins, bound to a cache.

    intakes: where blocks come in, by side.
    complete: whether the plan of memory covers everything.
    row_tables: states of rows that are read as tables.
    filled: whether an update had work for the optimizer.
    whole: names of updates that change all rows of a parameter in some phase.
    ends_change: whether the end of a pass launched or set something, while memory was planned.
    reads_rows_alone: whether training reads and changes only rows of tables that occur in a block;
        known once memory is planned.
    reads: numbers of blocks that methods read, and not as formulas, while memory was planned.
    noted: the shapes, as the model gets them.
    blocks: shapes of the blocks of each side that were planned.
    settings: of the parts, when they were planned.
    """

    def __init__(
        self,
        parts: Parts,
        shapes: Shapes,
        blocks: Sequence[BlockShape],
        execution: Execution,
        *,
        device: str,
        index: IndexedBy,
        files: PlacedTables | None,
        trains: bool,
        lent: Mapping[str, NDArray[Any]],
    ) -> None:
        """Bind the model to a cache without memory; see `Replica` for the arguments."""
        check_meaning(parts.model, parts.optimizer)
        if trains:
            check_start(parts.model, parts.optimizer)
        self.model, self.mixins, self.trains = parts.model, parts.mixins, trains
        self.optimizer = parts.optimizer if trains else None
        self.shapes, self.seed, self.device = shapes, execution.seed, device
        self.noted, self.blocks, self.settings = NotedShapes.of(shapes), blocks, parts.settings()
        self.tables, self.files = execution.tables, files
        self.lent = LentTables(lent if device == "cpu" else {}, shapes.columns)
        backend = make_backend(device, execution.threads_each, index)
        self.cache = MatCache(backend=backend, reserving=True)
        self.complete, self.filled, self.ends_change = True, False, False
        self.intakes = [
            Intake(self.cache, shape, side, shapes.whole_rows) for side, shape in enumerate(blocks)
        ]
        self.row_tables, self.whole = set[str](), set[str]()
        self.reads_rows_alone = False
        self.reads: dict[str, Any] = {}
        self._phase = 0  # of the present block

    def allocate(self) -> None:
        """Make the containers of the model and the optimizer; later calls find them again."""
        drawn_later = self.files is not None and not self.files.in_order
        few_occur = self.intakes[0].few_occur
        setting = Setting(
            self.trains,
            few_occur,
            self.lent.arrays.keys(),
            self.shapes.columns if drawn_later else None,
            self.rows_elsewhere,
        )
        self.model.attach(self.cache, setting)
        self.model.allocate(self.noted, Randomness(self.cache, self.seed))
        self.model.allocated = True
        if not self.model.needs_optimizer:
            self.optimizer = None
        self.learned = Learned(self.model, self.optimizer, self.files, self.shapes.columns)
        terms = terms_of(self.model, self.optimizer, self.mixins)
        if self.optimizer is not None:
            self.optimizer.attach(
                self.cache, self.model.parameters, terms=terms, rates=self.model.rates
            )
            self._keep_rows(self.optimizer)
            if few_occur:  # rows that no mixin moves
                moved = self.model.split_terms
                rests = {name: mat for name, mat in self.model.rests.items() if name not in moved}
                elsewhere = self.rows_elsewhere
                self.model.column_sums = self.optimizer.let_rest(rests, elsewhere=elsewhere)
        self.key = named(self.cache, "key of the block (seed, pass, block)", (1, 3), np.int64)

    @property
    def rows_elsewhere(self) -> bool:
        """Whether rows of tables belong to several workers: see `TableFiles.shared`."""
        return isinstance(self.files, TableFiles) and self.files.shared

    def _keep_rows(self, optimizer: Optimizer) -> None:
        """Make the states of rows that the optimizer keeps."""
        states, shapes = self.model.states, self.shapes
        kept: dict[str, Any] = {}
        for name, columns in optimizer.row_columns().items():
            own, size = f"{OPTIMIZER}{name}", (shapes.total_rows, columns)
            if own not in states:
                states[own] = TrainingState(self.cache, own, 0, size, shapes.rows, 0.0)
            kept[name] = states[own]
        weight = shapes.total_rows if shapes.counts is None else shapes.counts.weight
        optimizer.keep_rows(kept, shapes.total_rows, float(weight))

    def take(self, shapes: Shapes) -> None:
        """Expect blocks of other data, whose plan would be the same."""
        self.shapes = shapes
        self.noted.turn_to(shapes)
        self.intakes[0].whole_rows = shapes.whole_rows

    def connect(self, stores: Mapping[str, RowStore], shares: Mapping[str, RowShare]) -> None:
        """Use these stores, one for each of the model's states of rows.

        shares: of this worker, by the name of the state.
        """
        for name, state in self.model.states.items():
            state.connect(stores[name], shares[name], whole=self.has_whole(name, shares[name]))

    def has_whole(self, name: str, share: RowShare) -> bool:
        """Return whether a worker with this share of the rows needs the whole of a state."""
        return share.size == 1 or not self.complete or name in self.row_tables

    def rehearse(self, block: Block, record: Recording | None = None) -> None:
        """Run the update of a block of shapes, in its phase. record: what it launches."""
        self._phase = block.phase
        self._tell_phase()
        self._run(block, record=record)

    def _run(self, block: Block, *, begun: bool = False, record: Recording | None = None) -> None:
        """Run the update of the model and the step of the optimizer.

        begun: whether the optimizer has begun the block.
        """
        self.model.updates.clear()
        self.model.objective = None
        if not begun:
            self._begin(block)
        recording = nullcontext() if record is None else self.cache.recorded(record)
        with self._training(block.side), recording:
            self.model.update(block.reading(self.tables))
        self.filled = self.filled or bool(self.model.updates)
        if self.model.updates and self.optimizer is None:
            raise ShapeError(
                f"{type(self.model).__name__}.update fills self.updates, but there is no "
                "optimizer: pass one to the Learner, or let the model's default_optimizer() return "
                "one."
            )
        if self.optimizer is not None:
            if not self.cache.frozen:  # in the plan; if that is incomplete, in the first block, too
                check_update_shapes(self.model)
            self.optimizer.step(self.model.updates, self.model.objective)

    def _begin(self, block: Block) -> None:
        """Let the optimizer make the parameters exact that training on the block will read.

        In phases without updates no row comes to rest, and all woke at the end of the pass before.
        """
        until = self.model.rests_until
        if self.optimizer is not None and (until is None or self._phase < until):
            self.optimizer.begin(block.X)

    @contextmanager
    def _training(self, side: int) -> Iterator[None]:
        """Mark the states of this side as changing, within the `with` statement."""
        own = [state for state in self.model.states.values() if state.side == side]
        self.intakes[side].begin(own)
        for state in own:
            state.updating = True
        try:
            with without_rows(self.model.states.values(), 1 - side, OTHER_SIDE):
                yield
        finally:
            for state in own:
                state.updating = False

    def score(self, block: Block) -> Score:
        """Return the model's score of a bound block.

        Raises TypeError unless it holds sums.
        """
        self.intakes[0].begin(self.model.states.values())
        new, states = self.model.scores_new_rows, self.model.states.values()
        with without_rows(states, None if new else 1, NEW_SCORED if new else OTHER_SIDE):
            found = self.model.score(block)
        check_score(self.model, found)
        return found

    def predict(self, block: Block) -> Any:
        """Return the model's prediction for a bound block, a row for each of its rows.

        Raises TypeError or ShapeError if the model returns anything else.
        """
        self.intakes[block.side].begin(self.model.states.values())
        with without_rows(self.model.states.values(), None, NEW_PREDICTED):
            found = self.model.predict(block)
        check_prediction(self.model, found, block.X.shape[0])
        return found

    def end_pass(self) -> None:
        """Finish a pass."""
        with (
            nullcontext() if self.files is None else self.files.changing_all(),
            self.learned.refreshed(),
        ):
            self.end_model()
            self.end_steps()

    def end_model(self) -> None:
        """Let the model finish a pass."""
        self.model.end_pass()
        self.model.settle()

    def end_steps(self) -> None:
        """Let the optimizer finish a pass."""
        if self.optimizer is not None:
            self.optimizer.end_pass()

    def _phase_of(self, pass_: int) -> int:
        return bisect_right(self.model.phases(), pass_) - 1

    def _tell_phase(self) -> None:
        if self.optimizer is not None and self._phase != self.optimizer.phase:
            self.optimizer.enter(self._phase)

    def reads_index(self, pass_: int, side: int) -> bool:
        """Return whether blocks of a side must bring their transposed index in this pass.

        An update that may launch something else for each block may read it at any time, and so may
        one whose plan is incomplete.
        """
        always = not (self.model.recorded and self.complete)
        return always or self.intakes[side].reads_index(self._phase_of(pass_))

    @property
    def converged(self) -> bool:
        """Whether further passes would gain nothing."""
        by_optimizer = self.optimizer is not None and self.optimizer.converged
        return by_optimizer or self.model.converged

    def scores_of_mixins(self) -> dict[str, Any]:
        """Return the scores of the mixins: 1 x 1 Mats or expressions, by name."""
        found: dict[str, Any] = {}
        for mixin in self.mixins:
            for name, value in checked_scores(mixin).items():
                found[name if name not in found else f"{name} ({mixin.kind})"] = value.mat()
        return found

    @property
    def trained(self) -> list[Intake]:
        """Where blocks of training come in, by side."""
        return self.intakes[: self.shapes.sides] if self.trains else []

    def close(self) -> None:
        """Free the memory."""
        self.cache.close()
