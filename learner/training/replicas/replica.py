"""One copy of a model, with its cache and its optimizer, which one thread owns.

Longer than 300 lines: blocks arrive, are trained on, scored and predicted from one set of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape, DataSource, HostBlock
from blocklearn.datasources.block import KeptBlock
from blocklearn.matcache import IndexedBy, Mat, plan_merge
from blocklearn.matcache.containers.recording import Recording
from blocklearn.matcache.containers.tape import Tape
from blocklearn.models import Block, RowState, Shapes, TokenState
from blocklearn.models.errors import TargetRangeError
from blocklearn.models.score import Score

from ...files.lost_pages import Watched
from ...files.placed_tables import PlacedTables
from ...files.table_files import TableFiles
from ..settings.checks import computed
from ..settings.devices import Kept
from ..settings.execution import Execution
from ..settings.work import Counter
from .block_input import check_nonnegative
from .committing import commit_plan
from .noted import NUMBERS, NotedBlock
from .paged_tables import check_tables, of_rows_alone, tables_bytes
from .parts import Parts
from .planning import Scored, noting, plan_extras, plan_host, plan_kept, plan_program
from .program import Program
from .replay import Replays

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Look(Protocol):
    """Looks at the scores of blocks that a program is about to train on."""

    def due(self, program: Program, side: int, pass_: int) -> bool:
        """Return whether to score the next block, which is of this side and pass."""

    def take(self, program: Program, score: Callable[[], Score], rows: int) -> None:
        """Score the block, which has so many rows, by parameters as the model will read them."""


class Replica(Program):
    """A model bound to a cache, which is planned, allocated in one slab, then frozen."""

    def __init__(
        self,
        parts: Parts,
        shapes: Shapes,
        blocks: Sequence[BlockShape],
        execution: Execution,
        *,
        device: str,
        index: IndexedBy,
        workers: int,
        kept: Kept,
        extras: Sequence[Callable[[Replica], None]],
        files: PlacedTables | None,
        trains: bool,
        scores: Scored,
        lent: Mapping[str, NDArray[Any]],
        commit: bool,
    ) -> None:
        """Plan the memory of the model, and allocate it.

        shapes: for the model's `allocate`.
        blocks: shapes of the blocks of each side.
        execution: of this worker.
        device, index: see `make_backend`.
        workers: of the run.
        kept: blocks to keep on the device.
        extras: add computations beside training to the plan; `of_extras` gets the labels of their
            arrays, as `of_kept` those of kept blocks.
        files: keep the tables of `tables_of`, if these are larger than their `memory`; None: they
            lie with the other memory.
        trains: whether it will train; False plans scores and predictions only, without optimizer.
        scores: when blocks are scored.
        lent: arrays that parameters of these names lie in, if the device is the CPU.
        commit: whether to allocate the memory; False plans only.
        """
        super().__init__(
            parts, shapes, blocks, execution,
            device=device, index=index, files=files, trains=trains, lent=lent,
        )  # fmt: skip
        self.watched: Sequence[Watched] = ()  # files of states of rows
        self.counter = Counter()  # of training
        self._side, self._pass = 0, -1  # of the present block
        self._states: list[RowState | TokenState] = []  # of its rows
        self._row_ids = np.empty(0, np.int64)  # of its true rows
        self._listed = np.empty(0, np.int32)  # the columns of its entries, on the host
        self._key_array = np.array([[self.seed, 0, 0]], np.int64)
        self._checked: WeakSet[KeptBlock] = WeakSet()  # kept blocks that are not negative
        self.replays = Replays(self.cache, type(self.model).__name__)
        self.endings = Replays(self.cache, type(self.model).__name__, "pass")
        replicas = execution.replicas
        plan_program(self, scores=scores)
        self.of_extras = plan_extras(self, extras) if self.complete else set()
        if replicas > 1:
            plan_merge(self.cache, self.learned.merged(), replicas)
        if files is not None and files.may_stay(tables_bytes(self)):
            self.files = files = None
        if files is not None:  # the host must know which columns occur
            kept = kept._replace(rows=False)
        self.of_kept = plan_kept(self, kept, alone=replicas * workers == 1)
        if isinstance(files, TableFiles):
            check_tables(self)
        self.reads_rows_alone = of_rows_alone(self)
        if commit:
            plan_host(self, kept)
            commit_plan(self)
        self._find_states()

    def bind(self, host: HostBlock, side: int = 0, *, new: bool = False) -> Block:
        """Return the block in `host` for the model, valid until the next is bound.

        new: whether its rows are new, so that the model keeps no state of them.
        """
        self._begin_rows()
        self._receive(host, side, new=new)
        return self.intakes[side].block(self.key)

    def bring(self, source: DataSource, side: int = 0) -> None:
        """Copy all rows of training data to the device, if they stay there.

        Raises DataError if the model does not take them.
        """
        rows = self.intakes[side].all_rows
        if rows is not None:
            rows.bring(source, self._check)

    def _check(self, host: HostBlock, *, new: bool = False) -> None:
        """Raise DataError if the model does not take these rows."""
        if self.model.nonnegative:
            if host.kept is None:
                check_nonnegative(host)
            elif host.kept not in self._checked:
                check_nonnegative(host)
                self._checked.add(host.kept)
        if host.shape.targets and host.pass_ == 0 and not new:
            try:
                self.model.check_targets(host.targets[: host.rows])
            except TargetRangeError as error:
                error.add_note(f"in row {host.row_ids[error.row]} of the data, counted from 0")
                raise

    def _receive(
        self, host: HostBlock, side: int, *, new: bool = False, training: bool = False
    ) -> None:
        """Bring the block in `host` to the containers of its side.

        training: whether it was read for training, without what stays on the device.
        """
        rows = self.intakes[side].all_rows if training else None
        if rows is None or not rows.features:
            self._check(host, new=new)
        self.turn_to(side)
        if not new:
            self._row_ids = host.row_ids[: host.rows]
        if self.files is not None and not host.shape.dense:
            self._listed = host.indices[: host.nnz]
        self._key_array[0, 1], self._key_array[0, 2] = host.pass_, host.index
        self.key.refill(self._key_array, self.key.slot.where)
        self.intakes[side].receive(host, rows)
        if not new:
            for state in self._states:
                if training or state.saved:  # others belong to the rows of training
                    state.load(self._row_ids, self.intakes[side].row_ids)

    def in_block(self, work: Callable[[Replica, Piece], Result], piece: Piece) -> Result:
        """Return `work(self, piece)`; the device takes it for a block of its own."""
        backend = self.cache.backend
        self._begin_rows()
        backend.begin_block()
        result = work(self, piece)
        backend.end_block()
        self.check_lost()
        return result

    def _begin_rows(self) -> None:
        """Draw rows of tables whose columns have occurred, also in blocks that are read ahead."""
        if self.files is not None:
            self.files.ready()

    def check_lost(self) -> None:
        """Raise PageError if a page of a state of rows or of a lent array was lost."""
        for each in (*self.lent.watched, *self.watched):
            each.check()

    def finish(self) -> None:
        """Wait until the device is done with all blocks."""
        self.counter.start()
        self.cache.backend.drain()
        self.counter.lap("compute")

    def turn_to(self, side: int) -> None:
        """Expect blocks of this side: the states of the other one are as the last pass left them.

        A replica without blocks of a side is told so, too: it reads states that others changed.
        """
        if side != self._side:
            self._side = side
            self._find_states()
            self.refresh()
            for state in self.model.states.values():
                state.expect(side)
                state.check()

    def refresh(self) -> None:
        """Update the tables of row state from their stores."""
        for state in self.model.states.values():
            state.refresh()

    def _find_states(self) -> None:
        """Note the states of the present block's rows."""
        self._states = [each for each in self.model.states.values() if each.side == self._side]

    def train(self, host: HostBlock, side: int = 0, look: Look | None = None) -> None:
        """Train on the block in `host`, and count the work.

        look: gets the score of the block before it is trained on, if it is due.
        """
        counter, backend = self.counter, self.cache.backend
        counter.start()
        self._begin_rows()
        backend.begin_block()
        if look is not None and not look.due(self, side, host.pass_):
            look = None
        if look is not None and "score" in self.intakes[side].indexed_for:
            host.transpose()  # updates of this pass may not read the index
        counter.lap("compute")  # of earlier blocks
        self._receive(host, side, training=True)
        counter.lap("copy")
        self.update(look)
        if not self.cache.frozen:
            self.cache.freeze()
        counter.lap("compute")
        backend.end_block()
        self.check_lost()
        counter.lap("copy")
        counter.blocks += 1
        counter.rows += host.rows
        counter.nbytes += self.intakes[side].data_bytes

    def update(self, look: Look | None) -> None:
        """Train on the present block. look: gets its score before; None: it is not due."""
        if self.files is None:
            self._update(look)
        else:
            with self._changing(self.files):
                self._update(look)
        for state in self._states:
            state.save(self._row_ids, self.intakes[self._side].row_ids)

    def _changing(self, files: PlacedTables) -> AbstractContextManager[None]:
        """Return the change of tables by the present block."""
        optimizer = self.optimizer
        by_all = optimizer is not None and optimizer.begins_with_all
        if by_all or not self.reads_rows_alone:
            return files.changing_all()
        return files.changing(self.occurring)

    def _update(self, look: Look | None) -> None:
        now, begun = self.intakes[self._side].numbers, look is not None
        self._enter(now["pass_"])
        if look is not None:
            look.take(self, partial(self._repeated, self._begin_scored, "score"), now["rows"])
        self._repeated(partial(self._interpret, begun=begun), "update", begun)

    def _repeated(self, program: Callable[[Tape | None], Result], name: str, *more: Any) -> Result:
        """Return the result of a program of training on the present block.

        name, more: tell apart programs that launch other things.
        """
        form = () if self.optimizer is None else self.optimizer.form
        if form is None:
            return program(None)
        return self._replayed(program, name, self._side, *more, self._phase, form)

    def _replayed(
        self, program: Callable[[Tape | None], Result], name: str, side: int, *more: Any
    ) -> Result:
        """Return the result of a program on the present block, which is of this side.

        name, more: tell apart programs that launch other things.
        """
        if not self._records:
            return program(None)
        intake = self.intakes[side]
        kind = name, side, intake.labelled, *more
        return self.replays.result(intake.numbers, kind, program, name=name)

    @property
    def prepare(self) -> Callable[[HostBlock], None] | None:
        """What readers do with each block, ahead of its use: for tables in files; None: nothing."""
        if self.files is not None:
            return self.files.place
        return self.lent.fetch if self.lent.paged and not self.shapes.dense else None

    @property
    def occurring(self) -> NDArray[np.int32]:
        """The columns that occur in the present block, which must be sparse, for tables in files.

        They may be listed several times.
        """
        if self.device != "cpu":
            return self._listed
        pattern = self.intakes[self._side].block(self.key).X.pattern
        found: NDArray[np.int32] = pattern.indices[: pattern.nnz]
        return found if pattern.active is None else pattern.active[: pattern.active_count]

    def _interpret(self, tape: Tape | None, *, begun: bool) -> None:
        """Run the update of the present block, which has `begun`. tape: records it."""
        block = self.intakes[self._side].block(self.key, self._phase)
        self._run(block if tape is None else NotedBlock.of(block, tape), begun=begun)

    def _begin_scored(self, tape: Tape | None) -> Score:
        """Begin to train on the present block, and return its score. tape: records both."""
        block = self.intakes[self._side].block(self.key, self._phase)
        self._begin(block)
        return self._score(replace(block, resting=self.model.has_resting_rows), tape)

    @property
    def _records(self) -> bool:
        """Whether programs are recorded now."""
        return self._rehearses and bool(self.cache.frozen)

    def rehearse(self, block: Block, record: Recording | None = None) -> None:
        """Run the update of a block of shapes; a block that launches the same confirms it."""
        self._phase = block.phase
        self._tell_phase()
        form = () if self.optimizer is None else self.optimizer.form
        if form is None or not self._rehearses:
            super().rehearse(noting(self, block), record)
            return
        numbers = {name: getattr(block, name) for name in NUMBERS}
        kind = "update", block.side, block.Y is not None, False, self._phase, form
        tape = self.replays.rehearse(
            numbers, kind, lambda tape: self._run(NotedBlock.of(block, tape), record=record)
        )
        self.reads.update(tape.reads)

    @property
    def _rehearses(self) -> bool:
        """Whether programs are recorded while memory is planned."""
        return self.model.recorded and self.complete and self.cache.backend.repeats

    def _enter(self, pass_: int) -> None:
        """Find the phase of the model that a pass belongs to, and tell the optimizer."""
        if pass_ != self._pass:
            self._pass, self._phase = pass_, self._phase_of(pass_)
            self._tell_phase()

    def end_pass(self) -> None:
        """Finish a pass, and count its time."""
        self.counter.start()
        super().end_pass()
        self.counter.lap("compute")

    def end_model(self) -> None:
        """Let the model finish a pass; its launches are repeated once two passes did the same."""
        self._end(super().end_model, "end_pass")

    def end_steps(self) -> None:
        """Let the optimizer finish a pass; see `end_model`."""
        if self.optimizer is not None:
            self._end(super().end_steps, "optimizer.end_pass", self.optimizer.end_form)

    def _end(self, end: Callable[[], None], name: str, form: Hashable | None = ()) -> None:
        """Run a program that ends a pass. form: what it launches depends on; None: unknown."""
        if form is not None and self._records:
            self.endings.result({}, (name, form), lambda _: end(), name=name)
        elif form is not None and self._rehearses and self.cache.reserving:
            tape = self.endings.rehearse({}, (name, form), lambda _: end())
            self.ends_change = self.ends_change or bool(tape.steps or tape.refused)
        else:
            end()
            self.ends_change = True

    def score_of(self, host: HostBlock) -> Score:
        """Return the model's score of the block in `host`. Read it before the next block."""
        self._receive(host, 0, new=self.model.scores_new_rows)
        return self._replayed(partial(self._score, self.intakes[0].block(self.key)), "score", 0)

    def _score(self, block: Block, tape: Tape | None) -> Score:
        """Return the score of the present block. tape: records it."""
        if tape is None:
            return self.score(block)
        found = computed(self.score(NotedBlock.of(block, tape)))
        parts = [(name, type(part), *vars(part).values()) for name, part in found.items()]
        tape.returns(found, parts)
        return found

    def prediction_of(self, host: HostBlock, side: int = 0) -> NDArray[Any]:
        """Return a copy of the model's prediction for the block in `host`, whose rows are new."""
        self._begin_rows()
        self._receive(host, side, new=True)
        found = self._replayed(partial(self._predict, side), "predict", side)
        return found.numpy()

    def _predict(self, side: int, tape: Tape | None) -> Mat:
        """Return the prediction for the present block, which is of this side. tape: records it."""
        block = self.intakes[side].block(self.key)
        if tape is None:
            found: Mat = self.predict(block).mat()
            return found
        found = self.predict(NotedBlock.of(block, tape)).mat()
        tape.returns(found, (found,))
        return found
