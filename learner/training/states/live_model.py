"""The learned numbers of a run: in replicas and stores of rows, or in a state that waits.

Longer than 300 lines: each answer depends on which of these has the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from blocklearn.matcache import DeviceLostError
from blocklearn.models import RowState, RowStore, TokenState
from blocklearn.models.states.row_share import RowShare

from ...engines.crew import Crew
from ...engines.row_pieces import OwnRows, RowPieces, Rows
from ...engines.rows import SharedRows, gathered
from ...errors import ConfigError, WorkerError, WorkerLostError
from ...files.paging import read_only
from ...files.placed_tables import PlacedTables
from ...files.row_folder import RowFolder
from ...files.table_files import TableFiles
from ...files.table_rows import TableRows
from ..replicas.paged_tables import NoPages
from ..settings.progress import Progress
from ..teams.team import Team
from .shared_state import shared
from .state import State
from .stores import make_stores
from .team_state import give, set_progress, take

NOTHING = "Learner: nothing is trained or loaded yet; call fit()."


class LiveModel:
    """Holds the replicas of a model, and the states of rows.

    Before the replicas are made, and after `close`, a restored state may stand for them. It also
    does beside replicas that do not train, which change nothing.

    team: the replicas; None while there are none.
    stores: the states of rows, by name. Of several workers, each has its own rows: see `RowState`.
    restored: the state that the next replicas start from, or that the present ones never change.
    trained: whether parameters come from training or a restored state.
    """

    def __init__(
        self,
        progress: Progress,
        crew: Crew,
        row_folder: RowFolder | None,
        tables: PlacedTables | None = None,
    ) -> None:
        """progress: of the run. row_folder: keeps the states of rows; None: in memory.

        crew: the workers of the run.
        tables: keep the tables; None: in memory.
        """
        self.crew = crew
        self.team: Team | None = None
        self.stores: dict[str, RowStore] = {}
        self.restored: State | None = None
        self.trained = False
        self._progress, self._row_folder, self._tables = progress, row_folder, tables
        self._unshared: State | None = None  # was given to this worker, perhaps not to others
        self._moved = False  # whether the replicas may have trained
        self._states: Mapping[str, RowState | TokenState] = {}  # of `stores`, also after `close`

    # ------------------------------------------------------------- replicas

    def open(self, team: Team, shares: Sequence[RowShare], *, seed: int) -> None:
        """Take the replicas, make the stores of rows, and load the restored state.

        shares: of the rows of each side that is trained on.
        """
        self.team, self._states, self._moved = team, team.first.model.states, False
        of_states = {
            name: shares[state.side]
            if state.side < len(shares)
            else RowShare.of_all(state.shape[0])
            for name, state in self._states.items()
        }
        try:
            self.stores = make_stores(
                team, self._row_folder, of_states, seed=seed, restored=self.restored
            )
            self._load(team)
        except BaseException:  # do not keep a team without the restored state
            self.drop()
            raise

    def ready(self) -> Team:
        """Return the replicas. Raises ValueError if there are none."""
        if self.team is None:
            raise ValueError(NOTHING)
        return self.team

    @property
    def has_numbers(self) -> bool:
        """Whether anything is trained or restored."""
        return self.trained or self.restored is not None

    def check_trained(self) -> None:
        """Raise ValueError if nothing is trained or restored."""
        if not self.has_numbers:
            raise ValueError(NOTHING)

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return the shapes of what a saved model has: parameters and states of rows, by name."""
        model = self.ready().first.model
        found = {
            name: mat.shape for name, mat in model.parameters.items() if name not in model.unsaved
        }
        return found | {name: state.shape for name, state in self._states.items() if state.saved}

    def close(self) -> None:
        """Free the memory; a state stands for the replicas, with the states of rows read-only.

        Where an error has ended the exchange of the workers, no state is left: training begins
        anew.

        Raises:
            DeviceLostError: a device failed, and what was learned is lost. Memory is freed all the
                same, and training begins anew.
            WorkerLostError: the same, for a worker.
        """
        if self.team is not None and (lost := self.team.lost):
            self._lose()
            raise DeviceLostError(f"{', '.join(lost)}: what was learned is lost with the device.")
        if self.team is not None and self.restored is not None:
            self.drop()
        elif self.team is not None and self.crew.exchange.failed:
            self._lose()
        elif self.team is not None:
            rows = {name: read_only(store.array) for name, store in self.stores.items()}
            if self.crew.exchange.starts:  # the other workers end with the learner
                try:
                    rows |= {name: self.row_state(name) for name in self._shared()}
                except (WorkerError, WorkerLostError):
                    self._lose()
                    raise
            state, states = take(self.team, rows, self._progress, copy=True), self._states
            self.drop()
            self.restored = self._unshared = state
            self._states = states

    def _lose(self) -> None:
        """Free the memory of what is lost: training begins anew."""
        self.drop()
        self.trained = self._progress.closed = False
        self._progress.pass_ = self._progress.block = 0

    def let_go(self) -> Team:
        """Return the replicas, which have no states of rows, and keep nothing."""
        team = self.ready()
        self.team, self.stores, self._states = None, {}, {}
        return team

    def drop(self) -> None:
        """Free the memory, and keep nothing."""
        self.ready().close()
        self.team = None
        self.stores, self._states = {}, {}
        for folder in (self._row_folder, self._tables):
            if folder is not None:
                folder.release()

    # ------------------------------------------------------------- states

    def state(self, *, copy: bool) -> State:
        """Return the state to continue from: see `Learner.state`."""
        shared = {name: self._rows(name) for name in self._shared()}
        if self.restored is not None:
            rows = self.restored.tensors | shared
            if copy:
                rows = {name: _whole(each) for name, each in rows.items()}
            return replace(self.restored, tensors=rows)
        team = self.ready()
        if copy or team.owned is None:  # else its pages do so when they are read
            team.gather()
        rows = self.own_rows() | shared
        if copy:
            rows = {
                name: each.whole() if isinstance(each, RowPieces) else each.copy()
                for name, each in rows.items()
            }
        return take(team, rows, self._progress, copy=copy)

    def copy_into(self, state: State | None) -> State:
        """Return a copy of the state, with this worker's rows.

        state: None, or an earlier copy, whose arrays receive this one.
        """
        rows = self.own_rows()
        if state is None:
            rows = {name: each.copy() for name, each in rows.items()}
        return take(self.ready(), rows, self._progress, copy=True, into=state)

    def restore(self, state: State) -> None:
        """Set the replicas to `state`, now or when they are made."""
        moved = state.pages is not None and self._progress.position != (0, 0)
        if self.team is not None and (moved or not self._may_take(state)):
            self.drop()  # tables get their initial values again; or the state may be of training
        self._continue_from(state)

    def _continue_from(self, state: State) -> None:
        self.restored = self._unshared = state
        try:
            set_progress(state, self._progress)
            if self.team is not None:
                self._load(self.team)
        except BaseException:
            self.restored = self._unshared = None
            raise

    def _may_take(self, state: State) -> bool:
        """Return whether the present replicas can take a state that they were not made for."""
        team, before = self.ready(), self.restored
        if before is None:  # they train
            return True
        alike = {name: array.shape for name, array in before.tensors.items()} == {
            name: array.shape for name, array in state.tensors.items()
        }
        return alike and state.exact and not team.first.lent.arrays

    def share(self, kept: Mapping[str, Rows] | None = None) -> None:
        """Give the other workers the state that was restored on the one that leads, if any.

        kept: states of this worker's rows that belong to it, where the leader has its own only.

        Raises ConfigError if tables in files of this worker have other numbers already.
        """
        team, state, moved = self.ready(), self._unshared, self._moved
        self._unshared, self._moved = None, True
        if team.crew.size == 1:
            return
        state = shared(state, team, self.stores, kept or {})
        if state is None:
            return
        pages = state.pages
        if not team.crew.leads:
            if pages is None:
                self.restore(state)
            else:
                self._check_unchanged(state, moved=moved)
                files = team.first.files
                if isinstance(files, TableFiles) and team.places_blocks:
                    files.begin_anew()  # it may have rows that the state has not
                    files.complete()
                    state = replace(state, pages=NoPages(pages.shapes))
                self._continue_from(state)
            self._unshared = None
        if team.places_blocks:
            team.keep(pages)

    def _check_unchanged(self, state: State, *, moved: bool) -> None:
        """Raise ConfigError unless tables have their initial values, or the numbers of `state`.

        moved: whether the replicas may have trained since they were made.
        """
        position = int(state.position.get("pass", 0)), int(state.position.get("block", 0))
        if self._progress.position != (0, 0) and (moved or self._progress.position != position):
            raise ConfigError(
                [
                    f"restore: a state of tables in files, of {position}, goes to workers that "
                    f"have trained until {self._progress.position}: make a new Learner."
                ]
            )

    def _load(self, team: Team) -> None:
        if self.restored is not None:
            give(self.restored, team, self.stores)
            self.trained = True
            if team.first.trains:
                self.restored = None

    def own_rows(self) -> dict[str, Any]:
        """Return the states of the rows that this worker has, by name."""
        for store in self.stores.values():
            store.check()
        return {name: store.array for name, store in self.stores.items()}

    # ------------------------------------------------------------- rows of several workers

    def rows_of(self, name: str, ids: np.ndarray[Any, Any], out: Rows | None = None) -> Rows:
        """Return the rows `ids` of a state, of all workers, in `out` if given.

        All workers call this and get them, or the leader orders it and gets them.
        """
        if name not in self._shared():
            rows = _whole(self._rows(name))
            if out is None:
                some: Rows = rows[ids]
                return some
            np.take(rows, ids, axis=0, out=out, mode="clip")  # "raise" would make a copy
            return out
        everywhere = not self.crew.orders
        with self.crew.ordered("rows"):
            found = self._fetch(name, ids, everywhere=everywhere)
        if out is None:
            return found
        out[:] = found
        return out

    def give_rows(self) -> None:
        """Give the leader the rows that it asks for."""
        self._fetch("", np.empty(0, np.int64), everywhere=False)

    def _fetch(self, name: str, ids: np.ndarray[Any, Any], *, everywhere: bool) -> Rows:
        crew = self.crew
        name = crew.told(name if crew.leads else None)
        ids = crew.pooled(ids if crew.leads else ids[:0])[0].copy()
        return gathered(self._states[name], ids, crew, everywhere=everywhere)

    @property
    def owned(self) -> dict[str, RowState | TokenState]:
        """The states whose rows belong to several workers, by name."""
        return {name: state for name, state in self._states.items() if state.share.size > 1}

    def parted(self) -> dict[str, Rows | OwnRows]:
        """Return the rows that belong to this worker, of each state of `owned`."""
        own = self.own_rows()
        return {
            name: OwnRows(own[name], state.owned) if state.whole else own[name]
            for name, state in self.owned.items()
        }

    def _shared(self) -> list[str]:
        """Return the states of which this worker has its own rows only."""
        return [name for name, state in self._states.items() if not state.whole]

    def _rows(self, name: str) -> Rows | RowPieces:
        """Return the state of all rows, or what reads those of all workers."""
        state, given = self._states[name], self._unshared
        if state.whole and name in self.stores:
            self.ready().gather()
            self.stores[name].check()
            return self.stores[name].array
        if given is not None and name in given.tensors:
            whole: Rows | RowPieces = given.tensors[name]
            if whole.shape == state.shape:
                return whole
        return SharedRows(state, partial(self.rows_of, name))

    # ------------------------------------------------------------- single arrays

    def parameter(self, name: str, prepare: Callable[[], Team]) -> np.ndarray[Any, Any]:
        """Return a copy of the parameter `name`: see `Learner.parameter`.

        prepare: makes the replicas.
        """
        self.check_trained()
        if (kept := self._restored(name)) is not None:
            return kept.copy()
        if self.team is None and (state := self.restored) is not None:
            pages = state.pages if isinstance(state.pages, TableRows) else None
            resting = pages is not None and pages.in_order and state.position.get("block")
            if pages is not None and name in pages.tables and not resting:
                return pages.by_column(name)
            return self._read(prepare(), name)  # within a pass parameters are inexact
        return self._read(self.ready(), name)

    def shown(self, name: str, prepare: Callable[[], Team]) -> np.ndarray[Any, Any]:
        """Return the parameter `name`, not to be changed: a copy only if it has to be made exact.

        prepare: makes the replicas.
        """
        kept = self._restored(name)
        return self.parameter(name, prepare) if kept is None else kept

    def _restored(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return a parameter of the restored state; None: it is not there, or inexact."""
        if self.restored is None or self.restored.position.get("block"):
            return None
        found = self.restored.tensors.get(name)
        return None if found is None else _whole(found)

    def _read(self, team: Team, name: str) -> np.ndarray[Any, Any]:
        with team.exact():
            files = team.first.files
            if files is not None and name in files.tables:
                return files.kept().by_column(name)
            model = team.first.model
            if name not in model.parameters:
                known = ", ".join(model.parameters)
                raise KeyError(f"{type(model).__name__} has no parameter {name!r}; known: {known}")
            return model.parameters[name].numpy()

    def row_state(self, name: str) -> np.ndarray[Any, Any]:
        """Return the state `name` of all rows: see `Learner.row_state`."""
        self.check_trained()
        if name in self.stores or name in self._shared():
            return _whole(self._rows(name))
        if self.team is not None:  # of data in one orientation: columns are a parameter
            return self._read(self.team, name)
        assert self.restored is not None
        return _whole(self.restored.tensors[name])


def _whole(rows: Rows | RowPieces) -> Rows:
    return rows.whole() if isinstance(rows, RowPieces) else rows
