"""Plan the memory that training takes, before any of it is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.datasources.arrays.block_shape import block_bytes
from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.read_ahead import ring_size
from blocklearn.matcache import Mat
from blocklearn.matcache.devices import free_bytes
from blocklearn.matcache.merge import CHUNK
from blocklearn.models import RowState, TokenState
from blocklearn.models.score import Tally
from blocklearn.models.states.row_share import PIECE, RowShare

from ...files.paging import PAGE, rows_of_page
from ...files.placed_tables import COLUMNS
from ...files.spread_tables import SpreadTables
from ...files.table_files import TableFiles
from ..inputs.run_data import RunData
from ..replicas.block_input import Use, lent, readers_for
from ..replicas.paged_tables import in_order, tables_of
from ..replicas.replica import Replica
from ..settings.execution import Execution
from ..teams.needed_states import RANGE, rows_at_a_time
from ..teams.needs import chosen_needs
from .plan import OF_BLOCKS, ON_HOST, ROW_STATE, DeviceRoom, Of, Plan, Planned


class Feed(NamedTuple):
    """Data to read: a source, as blocks of one side, for one use."""

    name: str
    source: DataSource
    use: Use
    side: int


def feeds_of(data: RunData) -> list[Feed]:
    """List the data that training reads: train, its transposed data, and eval."""
    given: list[tuple[str, DataSource | None, Use, int]] = [
        ("training", data.train, "train", 0),
        ("transposed training", data.across, "train", 1),
        ("evaluation", data.eval, "score", 0),
    ]
    return [Feed(name, each, use, side) for name, each, use, side in given if each is not None]


def make_plan(
    replica: Replica,
    data: RunData,
    execution: Execution,
    *,
    shares: Sequence[RowShare],
    workers: int,
    keeps_best: bool,
) -> Plan:
    """Plan the arrays of training.

    These are the containers of a planned cache, the state of rows, the totals of scores, and the
    blocks that are read ahead or kept.

    shares: of this worker, of the rows of each side.
    workers: of the run.
    keeps_best: whether the best model is kept in memory during training.
    """
    devices, in_files = execution.devices, replica.shapes.states_in_files
    apart = len(devices) * workers > 1 and execution.sync_weight < 1.0  # when parameters are read
    replicas = len(devices)
    rows = [*_of_cache(replica, replicas), *_of_rows(replica, shares, replicas, in_files)]
    if pinned := replica.cache.backend.host_bytes:
        rows.append(Planned("pinned, for copies", (pinned,), "bytes", pinned, copies=replicas))
    in_table_files = isinstance(replica.files, TableFiles)
    if replica.files is not None and not in_order(replica):
        columns = replica.shapes.columns
        rows.append(Planned(COLUMNS, (columns, 1), "uint32", 4 * columns, in_file=in_table_files))
    tables = tables_of(replica) if in_table_files else {}
    if tables:
        rows += [_of_pages(replica, tables), _of_digests(replica, tables)]
    rows += [
        Planned(f"{mat.label} while it is read", mat.shape, str(mat.dtype), mat.slot.nbytes,
                copies=replicas, in_file=mat.label in tables)
        for mat in ([] if replica.rows_elsewhere else replica.learned.copied(apart=apart))
    ]  # fmt: skip
    if keeps_best:
        rows += _of_best(replica, shares, replicas if apart else 1)
    rows += _of_owner(replica, execution, workers)
    rows += _of_scores(replica, None, "training")
    for feed in feeds_of(data):
        rows += _of_data(replica, feed, replicas, workers)
        if feed.use == "score":
            rows += _of_scores(replica, feed.source.shape.total_rows, feed.name)
    if replica.cache.backend.free_bytes is None:
        return Plan(rows)
    sharing = {name: devices.count(name) for name in devices}
    return Plan(
        rows, tuple(DeviceRoom(name, n, _free(replica, name)) for name, n in sharing.items())
    )


def _free(replica: Replica, device: str) -> int:
    own = device == replica.device
    free = replica.cache.backend.free_bytes if own else free_bytes(device)
    assert free is not None  # replicas are all on the CPU, or none is
    return free


def _of_cache(replica: Replica, replicas: int) -> Iterator[Planned]:
    files = replica.files
    tables = {} if files is None else tables_of(replica)
    near = files.near(tables) if isinstance(files, SpreadTables) else 0
    block_rows = {intake.shape.rows for intake in replica.intakes}
    entries = {intake.shape.nnz for intake in replica.intakes}
    device = "" if replica.cache.backend.kind == "cpu" else replica.device
    for array in replica.cache.plan():
        of: Of = "block" if array.shape[0] in block_rows or array.shape[1] in entries else "model"
        of = "hooks" if array.label in replica.of_extras else of
        of = "kept" if array.label in replica.of_kept else of
        apart = array.label in tables
        of = "model" if apart else of
        found = Planned(
            array.label, array.shape, array.dtype, array.nbytes, of, replicas,
            apart and not device, device,
        )  # fmt: skip
        if apart and device:
            yield from _of_spread(found, near)
        else:
            yield found
    if replicas > 1 and not device:  # on a device, the cache plans the arrays of merges
        yield Planned("room to merge replicas", (CHUNK,), "float64", 8 * CHUNK)
        for name, mat in replica.learned.mats().items():
            if replica.learned.rule(name) == "sum":
                bytes_ = mat.slot.nbytes
                yield Planned(f"{name} before a merge", mat.shape, str(mat.dtype), bytes_)


def _of_spread(table: Planned, near: int) -> Iterator[Planned]:
    """Plan a table whose first `near` rows lie on the device, and the others on the host."""
    rows, columns = table.shape
    row = table.nbytes // rows
    yield table._replace(shape=(near, columns), nbytes=near * row)
    yield table._replace(
        name=f"{table.name}{ON_HOST}", shape=(rows - near, columns), nbytes=(rows - near) * row,
        device="",
    )  # fmt: skip


def _of_pages(replica: Replica, tables: Mapping[str, Mat]) -> Planned:
    """Plan the rows of tables in files that memory must have: those of this block and the next."""
    columns, entries = replica.shapes.columns, replica.intakes[0].shape.nnz
    shape = min(2 * entries, columns), sum(mat.slot.nbytes for mat in tables.values()) // columns
    return Planned(OF_BLOCKS, shape, "bytes", shape[0] * shape[1], "block")


def _of_digests(replica: Replica, tables: Mapping[str, Mat]) -> Planned:
    """Plan the digests of the pages of tables in files, and the bits of rows that leave them."""
    columns, largest = replica.shapes.columns, next(iter(tables.values()))
    pages = -(-columns // rows_of_page(largest.slot.nbytes // columns))
    of_tables = len(tables) + (not in_order(replica))
    nbytes = 8 * pages * of_tables + -(-columns // 8)
    return Planned("digests of pages", (pages, of_tables), "uint64", nbytes)


def _stored(replica: Replica, shares: Sequence[RowShare]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names of states of rows, with the shapes of the worker's stores."""
    for name, state in replica.model.states.items():
        share = shares[state.side] if state.side < len(shares) else None
        whole = share is None or replica.has_whole(name, share)
        yield name, state.shape if share is None or whole else state.stored(share)


def _of_rows(
    replica: Replica, shares: Sequence[RowShare], replicas: int, in_files: bool
) -> Iterator[Planned]:
    for name, stored in _stored(replica, shares):
        state = replica.model.states[name]
        dtype, shape = np.dtype(state.dtype), state.block_shape
        nbytes = dtype.itemsize * stored[0] * stored[1]
        yield Planned(f"{name}{ROW_STATE}", stored, dtype.name, nbytes, "rows", 1, in_files)
        if in_files and not state.held:
            pages = -(-nbytes // PAGE)
            yield Planned(f"digests of pages of {name}", (pages, 1), "uint64", 8 * pages, "rows")
        nbytes = 0 if state.held else dtype.itemsize * shape[0] * shape[1]
        yield Planned(f"{name} of a block", shape, dtype.name, nbytes, "block", replicas)
        if state.side < len(shares) and state.shape != stored and isinstance(state, RowState):
            yield from _on_their_way(replica, state, shares[state.side].size)
        if isinstance(state, TokenState) and state.terms is not None:
            copies = 1 if state.shape == stored else 3  # own ones, those received, and both
            most = copies * min(state.shape[0], PIECE // dtype.itemsize)
            yield Planned(f"{name} being summed up", (most, 1), dtype.name, dtype.itemsize * most)
    if (tokens := replica.shapes.tokens) is not None:
        yield Planned("tokens before each row", tokens.shape, "int64", tokens.nbytes, "rows")


def _on_their_way(replica: Replica, state: RowState, workers: int) -> Iterator[Planned]:
    """Plan the rows that workers exchange for a block of the other side, or to sum up all."""
    columns, name = state.shape[1], f"{state.name} on their way between workers"
    if state.by_need:
        shape = replica.intakes[1 - state.side].shape
        each = min(rows_at_a_time(state, workers), shape.nnz, shape.columns)
        rows = (1 + workers) * each  # given to all, and received
        yield Planned(name, (rows, columns), "float32", 4 * rows * columns, "block")
    if state.wants_gram:
        rows, name = 3 * min(RANGE, state.shape[0]), f"{state.name} being summed up"
        yield Planned(name, (rows, columns), "float32", 4 * rows * columns)


def _of_owner(replica: Replica, execution: Execution, workers: int) -> Iterator[Planned]:
    """Plan the rows of tables that a worker owns: see `NeededRows`."""
    needs = chosen_needs(replica, execution, workers)
    if needs is not None:
        shape = -(-replica.shapes.columns // workers), needs.row_bytes // 4
        yield Planned("own rows of tables, as merged", shape, "float32", 4 * shape[0] * shape[1])


def _of_best(replica: Replica, shares: Sequence[RowShare], copies: int) -> Iterator[Planned]:
    for name, mat in replica.learned.mats().items():
        nbytes = mat.slot.nbytes
        yield Planned(f"{name} of the best model", mat.shape, str(mat.dtype), nbytes, copies=copies)
    for name, stored in _stored(replica, shares):
        dtype = np.dtype(replica.model.states[name].dtype)
        nbytes = dtype.itemsize * stored[0] * stored[1]
        yield Planned(f"{name} of the best model", stored, dtype.name, nbytes, "rows")


def _of_scores(replica: Replica, rows: int | None, name: str) -> Iterator[Planned]:
    of: Of = "block" if rows is None else "scores"
    totals = replica.model.score_totals(rows)
    for room in Tally(totals, () if rows is None else replica.model.data_scores()).rooms:
        yield Planned(f"{room.name} ({name})", room.shape, room.dtype, room.nbytes, of)


def _of_data(replica: Replica, feed: Feed, replicas: int, workers: int) -> Iterator[Planned]:
    intake = replica.intakes[feed.side]
    data = intake.read_from(feed.source, feed.use)
    shape, indexed = data.shape, feed.use in intake.indexed_for
    nbytes = block_bytes(shape, indexed=indexed)
    readers = readers_for(data, replica.cache.backend.kind)
    ring = ring_size(nbytes, data.blocks, readers, lent(feed.use, replicas, workers))
    name = f"ring of {ring} {feed.name} block{'' if ring == 1 else 's'}"
    yield Planned(name, (ring, shape.rows), "bytes", ring * nbytes, "block")
    if data is not feed.source and isinstance(feed.source, MatrixSource):
        part = feed.source.shape_in_order
        nbytes, name = block_bytes(part, indexed=False), f"{feed.name} rows on their way to devices"
        yield Planned(name, (part.rows,), "bytes", nbytes, "block", replicas)
    if isinstance(data, BlockSource):
        name = f"{feed.name} blocks as they are stored"
        scratch = readers * data.scratch_bytes
        yield Planned(name, (readers, data.scratch_bytes), "bytes", scratch, "block")
    if isinstance(data, MatrixSource) and (kept := data.keeps(indexed=indexed)):
        name = f"{feed.name} blocks kept for later passes, at most"
        yield Planned(name, (data.blocks, shape.rows), "bytes", kept, "kept")
