"""Tables of which workers exchange only the rows that blocks need: which ones, and when it pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HostBlock
from blocklearn.matcache import Mat
from blocklearn.matcache.merge import opened
from blocklearn.optimizers import CombinationError, Optimizer

from ...engines.choice import FEW, Choice
from ...engines.cost import Needs, dense_seconds, needed_seconds, sparse_seconds
from ...engines.crew import Crew
from ...engines.needed_rows import Came, NeededRows
from ...engines.owned_rows import OwnPart
from ...engines.row_places import Arrays, Scratch
from ...files.table_files import TableFiles
from ..replicas.paged_tables import Pages, tables_of
from ..replicas.replica import Replica
from .lane import Errand, Lane
from .merged_sizes import sizes_of

Ids = NDArray[np.int32]

PIECE_BYTES = 2**24
"""Bytes of rows of tables in files that a worker gives at a time, at most about."""


def needs_of(replica: Replica, workers: int, sync_every: int) -> Needs | None:
    """Return what workers of one replica each would exchange; None: they cannot do so.

    Training must read and change those rows of tables only that occur in a block. Merges must take
    the mean of float32: then a row that no block has read stays as it is, or rests `at_rest`.
    """
    if not vars(type(replica.model)).get("reads_occurring") or replica.mixins:
        return None
    rules = {replica.learned.rule(name) for name in tables_of(replica)} - {"same"}
    merged, optimizer = merged_tables(replica), replica.optimizer
    if (
        replica.cache.backend.kind != "cpu"
        or replica.shapes.sides > 1
        or rules != {"mean"}
        or {mat.dtype.str for mat in merged.values()} != {np.dtype(np.float32).str}
        or not replica.reads_rows_alone
        or optimizer is None
        or (optimizer.rests and optimizer.at_rest.keys() != merged.keys())
    ):
        return None
    touched = min(replica.shapes.columns, sync_every * replica.intakes[0].shape.nnz)
    return Needs(workers, sync_every, touched, sum(4 * mat.shape[1] for mat in merged.values()))


def merged_tables(replica: Replica) -> dict[str, Mat]:
    """Return the tables that are merged, by name."""
    tables = tables_of(replica)
    return {name: mat for name, mat in tables.items() if replica.learned.rule(name) == "mean"}


def chosen_needs(
    replica: Replica, replicas: int, workers: int, sync_every: int, sync_weight: float
) -> Needs | None:
    """Return what workers exchange if rows travel where blocks need them; None: all that differ do.

    It is decided by sizes, so all workers decide the same. Rows of tables in files always do.

    replicas: of each worker.

    Raises CombinationError if tables lie in files, and their rows cannot travel so.
    """
    if workers == 1:
        return None
    alone = replicas == 1 and sync_weight == 1.0
    needs = needs_of(replica, workers, sync_every) if alone else None
    if isinstance(replica.files, TableFiles):
        if needs is None:
            raise _refusal(replica, replica.files.setting)
        return needs
    if needs is None or sum(prod(mat.shape) for mat in merged_tables(replica).values()) < FEW:
        return None
    sizes = sizes_of(replica, workers, sync_every)
    if needed_seconds(needs) >= min(sparse_seconds(sizes), dense_seconds(sizes)):
        return None
    return needs


def _refusal(replica: Replica, setting: str) -> CombinationError:
    title, optimizer = type(replica.model).__name__, type(replica.optimizer).__name__
    steps = "" if replica.optimizer is None else f" with {optimizer}"
    remedy = "Train with one worker"
    if vars(type(replica.model)).get("reads_occurring"):
        kept = "kept assignments" if replica.model.needs.tokens else "penalties, averages"
        remedy = f"Leave out {kept}, mixins and a sync_weight below 1; or train with one worker"
    return CombinationError(
        f"{setting}: {title}{steps} cannot keep its tables in files of several workers: with these "
        f"settings, rows change that no block reads, or may. {remedy}; or leave out {setting}."
    )


def needed_tables(
    replicas: Sequence[Replica], crew: Crew, sync_every: int, sync_weight: float
) -> NeededTables | None:
    """Return the tables whose rows travel where blocks need them; None: there are none."""
    needs = chosen_needs(replicas[0], len(replicas), crew.size, sync_every, sync_weight)
    return None if needs is None else NeededTables(replicas[0], crew, needs)


class Resting:
    """Brings copies of rows of tables up to date, all of which are `at_rest`: see `Rest`."""

    def __init__(self, optimizer: Optimizer, tables: Mapping[str, Mat]) -> None:
        self._optimizer, self._parts, start = optimizer, [], 0
        for name, mat in tables.items():
            columns = slice(start, start + mat.shape[1])
            self._parts.append((optimizer.at_rest[name], columns))
            start = columns.stop

    @property
    def now(self) -> float:
        """See `Rest`."""
        return float(self._optimizer.pause()["time"])

    def settle(self, ids: Ids, rows: NDArray[np.float32]) -> None:
        """See `Rest`."""
        for rest, columns in self._parts if self.now else ():
            rest.settle_elsewhere(ids, rows[:, columns], self.now)

    def wake(self, ids: Ids, rows: NDArray[np.float32], now: float) -> None:
        """See `Rest`."""
        for rest, columns in self._parts if now else ():
            rest.wake_elsewhere(ids, rows[:, columns], now)


class NeededTables:
    """The tables of the only replica of a worker that `NeededRows` merges.

    names: of these Mats.
    """

    def __init__(self, replica: Replica, crew: Crew, needs: Needs) -> None:
        tables = merged_tables(replica)
        self.names, self._mats = tables.keys(), list(tables.values())
        self._crew, self._lane = crew, Lane("blocklearn-needed-rows")
        swap = Choice(crew.exchange).swap(int(needs.touched * needs.row_bytes))
        optimizer = replica.optimizer
        assert optimizer is not None
        self._optimizer = optimizer
        rest = Resting(optimizer, tables) if optimizer.rests else None
        assert replica.files is None or isinstance(replica.files, TableFiles)
        self._files = files = replica.files
        self._learned = replica.learned
        self._scratch = scratch = None if files is None or files.in_order else files
        assert scratch is None or list(scratch.tables) == list(tables)
        pieces = 1 if files is None else -(-int(needs.touched) * needs.row_bytes // PIECE_BYTES)
        columns = replica.shapes.columns
        pool = replica.cache.backend.pool
        self._rows = NeededRows(crew, columns, swap, rest, files, scratch, pieces=pieces, pool=pool)

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
        for name, mat in zip(self.names, self._mats, strict=True):
            found[name] = slice(start, start := start + mat.shape[1])
        return found

    def keep(self, pages: Pages) -> None:
        """Keep own rows of a state, where blocks are given places; all workers call it.

        pages: read by all workers but the leader, whose tables have all rows of the state.
        """
        assert self._scratch is not None
        parts = None if self._crew.leads else self._own_of(pages, self._scratch)
        self._rows.keep(self._tables(), parts)

    def _own_of(self, pages: Pages, first: Scratch) -> Iterator[OwnPart]:
        """Yield rows of a state that this worker owns. first: has the first values."""
        for columns, given in pages.parts():
            own = columns % self._crew.size == self._crew.rank
            ids = columns[own].astype(np.int32)
            rows = first.first_rows(ids)
            for name, there in self._beside().items():
                if name in given:
                    rows[:, there] = given[name][own]
            yield ids, rows

    @property
    def places_blocks(self) -> bool:
        """Whether blocks are given places here, not by their reader: these last until a merge."""
        return self._scratch is not None

    def brought(self, blocks: Iterator[HostBlock], rounds: int) -> Iterator[HostBlock]:
        """Yield each block when the tables have its rows; those of the next one travel meanwhile.

        No block changes what is fetched for the next one: both have read rows once they are there.
        Files change between blocks only: the thread that trains keeps the digests of their pages.

        rounds: blocks of the worker that has the most: all take part in what it fetches.
        """
        tables = self._tables()
        self._rows.begin(tables)
        ready: HostBlock | None = None
        errand: Errand[Came | None] | None = None
        try:
            for _ in range(rounds):
                block = next(blocks, None)
                if errand is not None:
                    self._rows.arrive(tables, errand.result())
                errand = self._ask(tables, block)
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

    def _ask(self, tables: Arrays, block: HostBlock | None) -> Errand[Came | None]:
        """Fetch rows in a thread of their own, if the engine lets other threads exchange."""
        if self._crew.exchange.any_thread:
            return self._lane.ask(self._fetch, tables, block)
        errand = Errand(self._fetch, (tables, block))
        errand.run()
        return errand

    def _fetch(self, tables: Arrays, block: HostBlock | None) -> Came | None:
        """Ask for the rows of a block; None: they are in the tables."""
        ids = np.empty(0, np.int32) if block is None else block.occurring()
        if self._files is None:
            self._rows.fetch(tables, ids)
            return None
        came = self._rows.ask(tables, ids)
        if self._scratch is not None and block is not None:
            indexed = block.has_index
            block.renumber(self._scratch.give)
            if indexed:
                block.transpose()
        return came

    def merge(self) -> None:
        """Merge the rows that blocks have read since the last merge; rows that rest wake in it."""
        read = self._rows.merge(self._tables())
        if not self._optimizer.rests:
            self._optimizer.settle()  # changes no row: its clock begins anew, as of replicas
            return
        with nullcontext() if self._files is None else self._files.changing(read):
            self._optimizer.settled_elsewhere(read)

    def gather(self) -> None:
        """Give all workers the rows that have changed."""
        self._rows.gather(self._tables())

    def alike(self) -> None:
        """Note that all workers have the same tables, in which rows may rest."""
        if self._optimizer.rests and self._optimizer.pause()["time"]:
            with nullcontext() if self._files is None else self._files.changing_all():
                self._learned.settle()
        self._rows.alike()

    def close(self) -> None:
        """Stop the thread that fetches rows."""
        self._lane.close()

    def _tables(self) -> list[NDArray[Any]]:
        arrays = opened(self._mats)
        return [array.reshape(mat.shape) for array, mat in zip(arrays, self._mats, strict=True)]
