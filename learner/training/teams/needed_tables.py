"""Tables of which workers exchange only the rows that blocks need: `needs.py` chooses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HostBlock
from blocklearn.matcache.merge import opened
from blocklearn.optimizers import AtRest

from ...engines.choice import Choice
from ...engines.cost import NeededSizes
from ...engines.crew import Crew
from ...engines.errands import Aside, Errand, at_once
from ...engines.needed_rows import Came, NeededRows
from ...engines.owned_rows import OwnPart
from ...engines.row_places import Arrays, Scratch
from ...files.table_files import TableFiles
from ..replicas.names import OPTIMIZER
from ..replicas.paged_tables import Pages
from ..replicas.replica import Replica
from .lane import Lane
from .needs import at_rest_of, means_of, merged_tables

Ids = NDArray[np.int32]


class RestingTables:
    """Brings copies of rows of tables up to date, all of which rest: see `Rest`.

    parts: each of them, with its columns where rows of all lie side by side.
    """

    def __init__(self, parts: Sequence[tuple[AtRest, slice]]) -> None:
        self._parts = parts

    @property
    def now(self) -> NDArray[np.float64]:
        """See `Rest`."""
        return np.concatenate([part.clock for part, _ in self._parts])

    def settle(self, at: Ids, rows: NDArray[np.float32]) -> None:
        """See `Rest`."""
        for part, columns in self._parts:
            part.settle_elsewhere(at, rows[:, columns], part.clock)

    def wake(self, ids: Ids, rows: NDArray[np.float32], now: NDArray[np.float64]) -> None:
        """See `Rest`."""
        start = 0
        for part, columns in self._parts:
            size = part.clock.size
            part.wake_elsewhere(ids, rows[:, columns], now[start : start + size])
            start += size


class NeededTables:
    """The tables of the only replica of a worker that `NeededRows` merges.

    names: of these Mats, and of those that follow from them.
    """

    def __init__(self, replica: Replica, crew: Crew, needs: NeededSizes) -> None:
        tables = merged_tables(replica)
        self._names, self._mats = list(tables), list(tables.values())
        self.names = {*tables, *replica.model.derived}
        self._crew, self._lane = crew, Lane("blocklearn-needed-rows")
        swap = Choice(crew.exchange).swap(int(needs.touched * needs.row_bytes))
        self._model, self._optimizer = replica.model, replica.optimizer
        self._rests = at_rest_of(replica)
        beside = self._beside()
        parts = [(part, beside[name]) for name, part in self._rests.items()]
        assert replica.files is None or isinstance(replica.files, TableFiles)
        self._files = files = replica.files
        self._learned = replica.learned
        if files is not None:
            files.sent = self._names
        rest, columns = RestingTables(parts) if parts else None, replica.shapes.columns
        pool = replica.cache.backend.pool
        means = sum(tables[name].shape[1] for name in means_of(replica, tables))
        self._aside: Aside = self._lane.ask if crew.exchange.any_thread else at_once
        self._rows = NeededRows(
            crew, columns, swap, rest, files, means=means, aside=self._aside, pool=pool
        )

    @property
    def behind(self) -> bool:
        """Whether workers may have old rows. It is the same on all."""
        return self._rows.behind

    @property
    def in_files(self) -> bool:
        """Whether the tables lie in files."""
        return self._files is not None

    def own_parts(self) -> Iterator[tuple[Ids, dict[str, NDArray[np.float32]]]]:
        """Yield columns of the data, and their rows of each table that this worker owns.

        They are as they were merged. Rows that no worker yields have their first values. So have
        all rows of other tables: the times at which rows were up to date, which merges set back.
        """
        for columns, rows in self._rows.owned.parts(self._tables()):
            yield columns, {name: rows[:, there] for name, there in self._beside().items()}

    def _beside(self) -> dict[str, slice]:
        """Return the columns of each table where rows of all lie side by side."""
        found, start = {}, 0
        for name, mat in zip(self._names, self._mats, strict=True):
            found[name] = slice(start, start := start + mat.shape[1])
        return found

    def keep(self, pages: Pages | None) -> None:
        """Keep own rows of a state, where blocks are given places; all workers call it.

        pages: read by all workers but the leader, whose tables have all rows of the state; None:
            all have them.
        """
        assert self._files is not None
        found = self._files.kept() if pages is None or self._crew.leads else pages
        self._rows.keep(self._tables(), self._own_of(found, self._files))
        self._settled(np.empty(0, np.int32))
        self._model.resumed()
        self.measure()

    def _own_of(self, pages: Pages, first: Scratch) -> Iterator[OwnPart]:
        """Yield rows of a state that this worker owns, up to date. first: has the first values."""
        for columns, given in pages.parts():
            own = columns % self._crew.size == self._crew.rank
            ids = columns[own].astype(np.int32)
            rows = first.first_rows(ids)
            for name, there in self._beside().items():
                if name in given:
                    rows[:, there] = given[name][own]
            for name, part in self._rests.items():
                seen = given.get(f"{OPTIMIZER}{name}.seen")
                times = None if seen is None else seen[own]
                part.wake_elsewhere(ids, rows[:, self._beside()[name]], part.clock, times)
            yield ids, rows

    def measure(self) -> None:
        """Add up all rows, where their sums are not known; all workers call it."""
        for name, part in self._rests.items():
            if not part.known:
                columns = self._beside()[name]
                part.sums.set(self._rows.column_sums(self._tables(), columns, part.terms))
                part.known = True

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Let the model end a pass in a `with` statement: it gets all rows, if it changes all.

        Then all are added up anew, where the optimizer does so.
        """
        with nullcontext() if self._files is None else self._gathered(self._files):
            yield
        if self._files is not None and self._optimizer is not None:
            for part in self._rests.values():
                part.known = False
            self.measure()

    def _gathered(self, files: TableFiles) -> AbstractContextManager[None]:
        """Give all workers all rows, if the model changes all at the end of a pass."""
        if not self._model.ends_with_all:
            return nullcontext()
        if self.behind:
            self.gather()
        return files.changing_whole()

    @property
    def places_blocks(self) -> bool:
        """Whether blocks are given places here, not by their reader: these last until a merge."""
        return self._files is not None

    def brought(self, blocks: Iterator[HostBlock], rounds: int) -> Iterator[HostBlock]:
        """Yield each block when the tables have its rows; those of the next one travel meanwhile.

        No block changes what is fetched for the next one: both have read rows once they are there.
        Files change between blocks only: the thread that trains keeps the digests of their pages.

        rounds: blocks of the worker that has the most: all take part in what it fetches.
        """
        tables = self._tables()
        self._rows.begin(tables)
        self.measure()
        ready: HostBlock | None = None
        errand: Errand[Came | None] | None = None
        try:
            for _ in range(rounds):
                block = next(blocks, None)
                if errand is not None:
                    self._rows.arrive(tables, errand.result())
                errand = self._aside(self._fetch, tables, block)
                if ready is not None:
                    yield ready
                ready = block
            if errand is not None:
                self._rows.arrive(tables, errand.result())
            if ready is not None:
                yield ready
        finally:
            if errand is not None:
                errand.wait()

    def _fetch(self, tables: Arrays, block: HostBlock | None) -> Came | None:
        """Ask for the rows of a block; None: they are in the tables.

        It puts no rows into tables, which takes all threads: another block may train.
        """
        ids = np.empty(0, np.int32) if block is None else block.occurring()
        came = self._rows.ask(tables, ids)
        if block is not None and self._files is not None:
            indexed = block.has_index
            block.renumber(self._files.give, ordered=self._model.reads_in_order)
            if indexed:
                block.transpose()
        return came

    def merge(self) -> None:
        """Merge the rows that blocks have read since the last merge; rows that rest wake in it."""
        self._settled(self._rows.merge(self._tables()))

    def _settled(self, read: Ids) -> None:
        """Begin clocks anew: all rows are up to date. read: those that blocks have read."""
        if self._optimizer is None:
            self._model.settled_elsewhere()
        elif self._optimizer.rests:
            self._optimizer.settled_elsewhere(read if self._files is None else read[:0])
        else:
            self._optimizer.settle()  # changes no row: its clock begins anew, as of replicas

    def gather(self) -> None:
        """Give all workers the rows that have changed."""
        self.measure()
        self._rows.gather(self._tables())
        if self._files is not None and self._model.derived:
            self._model.derive()
            self._files.renew(self._model.derived)

    def alike(self) -> None:
        """Note that all workers have the same tables, in which rows may rest."""
        optimizer = self._optimizer if self._files is None else None
        if optimizer is not None and optimizer.rests and optimizer.pause()["time"]:
            self._learned.settle()
        self._rows.alike()

    def close(self) -> None:
        """Stop the thread that fetches rows."""
        self._lane.close()

    def _tables(self) -> list[NDArray[Any]]:
        arrays = opened(self._mats)
        return [array.reshape(mat.shape) for array, mat in zip(arrays, self._mats, strict=True)]
