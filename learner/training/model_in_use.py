"""A model with its data, on its devices: it predicts, is scored, and shows its numbers.

`inputs/run_data.py` opens the data, `plans/assembly.py` makes the replicas, `states/live_model.py`
holds them and their state, `predicting.py` and `scoring.py` use them.

Longer than 300 lines: half of them are signatures and descriptions of what users call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from blocklearn.answers import answered, no_attribute
from blocklearn.datasources import BlockShape, DataSource
from blocklearn.matcache import IndexedBy, make_backend
from blocklearn.matcache.containers.backend import Backend
from blocklearn.models.states.row_share import RowShare

from ..engines.crew import Crew
from ..files.placed_tables import PlacedTables
from ..files.row_folder import RowFolder
from .inputs.run_data import RunData
from .plans.assembly import Assembly
from .plans.gpu_time import CARDS
from .plans.index_choice import PassTimes
from .plans.other_data import shapes_to_keep
from .predicting import predicted, whole
from .replicas.parts import Parts
from .replicas.planning import Scored
from .replicas.replica import Replica
from .scoring import scoring
from .settings.checks import check_rows
from .settings.execution import Execution
from .settings.optimizer_checks import check_optimizer
from .settings.progress import Progress
from .states.live_model import LiveModel
from .states.state import State
from .teams.team import Team
from .topics import topic_words

MOVED = {
    "execution": "seed threads devices replicas index tables device_blocks sync_every sync_weight",
    "data": "across given targets columns block_rows of_rows",
}
"""Attributes of a learner that its records have now."""


class ModelInUse:
    """Uses a model: the replicas that hold its numbers are made when they are first needed.

    A `Learner` trains it.

    scores_training: see `Learner`.
    only_trains: whether nothing will be scored or predicted.
    """

    scores_training = True
    only_trains = False

    def __init__(
        self,
        parts: Parts,
        execution: Execution,
        data: RunData,
        *,
        passes: int,
        crew: Crew,
        row_folder: RowFolder | None,
        tables: PlacedTables | None,
    ) -> None:
        """Begin at the first pass of the data, with nothing learned.

        parts: an optimizer of None is the model's default for the data.
        passes: over the data.
        crew: the workers of the run.
        row_folder: keeps the states of rows; None: in memory.
        tables: keep the tables; None: in memory.
        """
        self.model, self.optimizer, self.mixins = parts.model, parts.optimizer, parts.mixins
        self._chosen = parts.optimizer is not None
        self.execution, self.data, self.passes, self.crew = execution, data, passes, crew
        self.row_folder, self.placed_tables = row_folder, tables
        self._planned: list[Callable[..., None]] = []  # what was planned with the replicas
        self._take_default_optimizer()
        self._begin()

    def _begin(self) -> None:
        """Begin at the first pass of the data, without any learned numbers."""
        blocks = sum(source.blocks for source in self.data.sides)
        self.progress = Progress(self.passes, blocks)
        self._live = LiveModel(self.progress, self.crew, self.row_folder, self.placed_tables)

    @property
    def train(self) -> DataSource | None:
        """The training data, as the model reads them; None: there are none."""
        return self.data.train

    @property
    def eval(self) -> DataSource | None:
        """The data of scores; None: there are none."""
        return self.data.eval

    @property
    def names(self) -> Sequence[str] | None:
        """The names of columns; None: unknown."""
        return self.data.names

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of targets; None: unknown."""
        return self.data.target_names

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows of training; None: unknown."""
        return self.data.row_names

    @property
    def parts(self) -> Parts:
        """The model, its optimizer and its mixins."""
        return Parts(self.model, self.optimizer, self.mixins)

    if not TYPE_CHECKING:  # else a checker of types would know any name

        def __getattr__(self, name: str) -> Any:
            """Return what has moved to `execution` or `data`, with a warning.

            Raises AttributeError, which says what does this here.
            """
            there = next((record for record, names in MOVED.items() if name in names.split()), "")
            if there in self.__dict__:
                text = f"Learner.{name} is now Learner.{there}.{name}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(self.__dict__[there], name)
            raise AttributeError(no_attribute("Learner", name), name=name, obj=self)

    # ------------------------------------------------------------- predictions and scores

    @answered
    def predict(self, X: Any, *, side: int = 0) -> np.ndarray[Any, Any]:
        """Return one result row per row of X, in source order.

        X: a matrix or a DataSource. Its targets, if any, are ignored.
        side: 1 if the rows of X are new columns of the training data, for models with a state of
            columns.
        """
        source = self.data.source(X, side=side)
        return whole(source.shape.total_rows, self.predictions(source, side=side))

    def predictions(
        self, X: Any, *, side: int = 0, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Yield the results of `predict` block by block, for data larger than memory.

        Each item holds the numbers of the rows [r], and their results [r x k], in source order.

        part: (i, n): only the blocks of part i of n nearly equal parts, one after another.
        """
        self._live.check_trained()
        source = self.data.prepared(self.data.source(X, side=side))
        team = self._prepare(source.shape, side=side)
        yield from predicted(team, source, side, part)

    @answered
    def evaluate(self, X: Any, *, crew: Crew | None = None) -> dict[str, float]:
        """Return the model's scores on the rows of X, by name.

        X: a matrix, (X, Y), (X, Y, weights) or a DataSource, as for `train`.
        crew: workers that share the blocks. All call this with the same model and data, and all get
            the scores, which have the bits of one worker. None: this one alone.
        """
        self._live.check_trained()
        source = self.data.prepared(self.data.source(X, "evaluate"))
        team = self._prepare(source.shape)
        rows = team.first.shapes.total_rows
        check_rows(self.model, rows, self.row_names, source, "evaluate")
        team.make_ready(source.shape)
        with scoring(team, source, self.progress, crew or Crew()) as score:
            return score()

    def report(self) -> list[str]:
        """Return the mixins' lines about the parameters."""
        team = self._live.ready()
        with team.exact():
            return self.parts.report(team.first.shapes.columns, self.names)

    @answered
    def topics(self, top: int = 10, relevance: float = 1.0) -> list[list[tuple[str, float]]]:
        """Return the first words of each topic, with their probabilities, best first.

        Parts of NMF count as topics.

        relevance: 1: most probable words first; less, such as 0.6, favours words that other topics
            rarely have.

        Raises:
            ValueError: the model has no topics, or nothing is trained.
        """
        self._live.check_trained()
        shown = partial(self._live.shown, prepare=self._trainable)
        return topic_words(self.model, shown, self.names, top, relevance)

    # ------------------------------------------------------------- numbers

    def parameter(self, name: str) -> np.ndarray[Any, Any]:
        """Return a copy of the parameter `name`; if it lies in a file, a file by column, read-only.

        Raises KeyError if the model does not have it, OSError if the disk has no room for the file.
        """
        return self._live.parameter(name, self._trainable)

    def row_state(self, name: str) -> np.ndarray[Any, Any]:
        """Return the state `name` of all rows (or columns) of the training data, float32.

        It is [rows x numbers], and not copied: do not change it. After `close` it is read-only; see
        there for states in files. Raises KeyError if the model has no such state.

        Of several workers, each may have its own rows only. Then all call this, and each gets all
        rows; of Ray, the program calls it.
        """
        if name not in self.model.row_states:
            known = ", ".join(self.model.row_states) or "none"
            raise KeyError(f"{type(self.model).__name__} has no row state {name!r}; known: {known}")
        return self._live.row_state(name)

    def rows_of(
        self, name: str, ids: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the state `name` of some rows, of several workers as `row_state` does.

        ids: int64, numbers of the rows.
        out: receives them. None: a new array.
        """
        return self._live.rows_of(name, ids, out)

    def state(self, *, copy: bool = True) -> State:
        """Return the state to continue from: parameters, rows, optimizer and position.

        Of several workers, all call this, as they do `row_state`.

        In the middle of a pass its parameters may be inexact: read them with `parameter`.

        copy: False returns the arrays of training itself, which will change. Tables in files are
            never copied: they are the `pages` of the state, which training will change. States of
            rows that each worker has its own of are then `SharedRows`, to be read piece by piece.
        """
        return self._live.state(copy=copy)

    def close(self) -> None:
        """Free the memory and stop the threads; the learner can be used again.

        The state of rows is not copied: it stays where it is, read-only. The names of its files in
        `row_folder` are removed, and other learners can take the folder. `row_state`, `state` and
        `save` still read the files.

        The files' disk space becomes free when the learner is deleted, or trains or predicts again,
        which copies the states to new files. Arrays from `row_state` and `state` must be deleted,
        too.

        After the loss of a worker nothing is kept: `fit` begins anew, or at a checkpoint.

        Raises:
            DeviceLostError: a device has failed, and what was learned is lost.
            WorkerLostError: a worker is lost now, and with it the states of its rows.
        """
        try:
            self._live.close()
        finally:
            self.crew.dismiss()

    # ------------------------------------------------------------- replicas

    @property
    def team(self) -> Team | None:
        """The replicas; None before they are made, and after `close`."""
        return self._live.team

    def backend_beside(self) -> Backend:
        """Return a backend for another cache on the device of the first replica.

        A device that is open is not opened again.
        """
        if self.team is not None and self.team.first.cache.backend.kind != "cpu":
            beside: Backend = self.team.first.cache.backend.beside()
            return beside
        return make_backend(self.execution.devices[0], self.execution.threads)

    def assembly(self, index: IndexedBy | None = None, workers: int | None = None) -> Assembly:
        """Return what makes the replicas, with the settings as they are now.

        index: who makes the transposed index; None: as chosen.
        workers: of the run; None: those that there are.
        """
        return Assembly(
            self.parts,
            self.data,
            self.execution,
            passes=self.passes,
            index=index or self._indexed_by,
            extras=self._beside(),
            workers=self.crew.size if workers is None else workers,
            states_in_files=self.row_folder is not None,
            files=self.placed_tables,
            scores=self._scored,
        )

    @property
    def _scored(self) -> Scored:
        if self.only_trains:
            return "never"
        return "soon" if self.scores_training or self.eval is not None else "later"

    def _beside(self) -> list[partial[None]]:
        """Return what is planned beside training: see `Replica`."""
        return []

    @cached_property
    def pass_times(self) -> PassTimes | None:
        """The least times of a pass on an H200, by who makes the index of blocks.

        None if it makes no difference.
        """
        return self.assembly("host").pass_times(CARDS["H200"])

    @property
    def _indexed_by(self) -> IndexedBy:
        """Who makes the transposed index of blocks."""
        if self.execution.index != "auto":
            return self.execution.index
        return "host" if self.pass_times is None else self.pass_times.faster

    def _shares(self, workers: int | None = None) -> list[RowShare]:
        """Return the rows of this worker, of each side; workers: the number of all."""
        rank, size = (self.crew.rank, self.crew.size) if workers is None else (0, workers)
        return self.data.shares(rank, size)

    def _trainable(self) -> Team:
        return self._prepare(self.data.training.shape)

    def _prepare(self, shape: BlockShape, side: int = 0) -> Team:
        """Return the replicas.

        The first call makes them, for blocks of `shape` on that side.
        """
        if self._live.team is not None:
            return self._live.team
        self.data.block_rows = shape.rows
        if side == 0:
            self.data.check_columns(shape)
        self._planned = [each.func for each in self._beside()]
        team = self.assembly().team(shape, side, self._live.restored, self.crew)
        self._live.open(team, self._shares(), seed=self.execution.seed)
        self.model.show_shapes(self._live.shapes())
        if self.eval is not None:
            team.make_ready(self.eval.shape)
            team.tally(self.eval.shape.total_rows)
        return team

    @contextmanager
    def _drafted(self, workers: int | None) -> Iterator[Replica]:
        """Lend the first replica; if there is none, one whose memory is planned only.

        workers: of the run; None: those that there are.
        """
        if self.team is not None:
            yield self.team.first
            return
        assembly, shape = self.assembly(workers=workers), self.data.training.shape
        with closing(assembly.draft(shape, self._live.restored)) as replica:
            yield replica

    @property
    def _planned_as_now(self) -> bool:
        """Whether the replicas were planned with what would be planned with new ones."""
        return self._planned == [each.func for each in self._beside()]

    def _take_default_optimizer(self) -> None:
        """Step with the model's default optimizer for the data, unless one was chosen."""
        if not self._chosen:
            found = self.assembly("host").optimizer_for_data()
            check_optimizer(self.model, found)
            self.optimizer = None if found is None else found.model_copy()

    def _keep_replicas(self, state: State | None) -> Team | None:
        """Return the present replicas, if they can train on the present data; else drop them."""
        optimizer = self.optimizer
        self._take_default_optimizer()
        if self._live.team is None or state is None:
            return None
        team = self._live.team
        shapes = shapes_to_keep(team, self.assembly(), optimizer, state)
        if shapes is None:
            self._live.drop()
            return None
        self.optimizer = optimizer  # the one that the replicas have
        for replica in team.replicas:
            replica.take(shapes)
        return self._live.let_go()
