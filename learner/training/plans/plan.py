"""Plan the memory that training takes, before any of it is allocated.

Longer than 300 lines: each kind of array is planned by a short function here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.datasources.block import block_bytes
from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.read_ahead import ring_size
from blocklearn.matcache import Mat
from blocklearn.matcache.devices import free_bytes
from blocklearn.matcache.merge import CHUNK
from blocklearn.models import RowState
from blocklearn.models.score import Tally
from blocklearn.models.states.row_share import RowShare

from ...files.paging import PAGE, rows_of_page
from ...files.placed_tables import COLUMNS
from ...files.spread_tables import SpreadTables
from ...files.table_files import TableFiles
from ..replicas.block_input import Use, lent, readers_for
from ..replicas.paged_tables import in_order, tables_of
from ..replicas.replica import Replica
from ..teams.needed_states import RANGE, rows_at_a_time

Of = Literal["model", "block", "rows", "kept", "hooks", "scores"]
"""What an array's size depends on: the model, the rows of a block, all rows of the data, the bytes
that may be kept, the hooks, or the rows that are scored."""

ROW_STATE = " (row state)"  # follows the name of a state
ON_HOST = " (rows on the host)"  # follows the name of a table whose first rows lie on a device
OF_BLOCKS = "rows of tables, of two blocks at most"  # the name of what tables in files need


class Planned(NamedTuple):
    """An array of the plan, or several of one kind.

    nbytes: of one copy.
    of: what the size depends on.
    copies: one for each replica where there are several.
    in_file: whether it is mapped from a file, so that memory need not hold it.
    device: whose memory it is in (that of each replica, if there are several); "": the host's.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    of: Of = "model"
    copies: int = 1
    in_file: bool = False
    device: str = ""

    @property
    def held(self) -> int:
        """The bytes of all copies in the host's memory."""
        return 0 if self.in_file or self.device else self.nbytes * self.copies


class DeviceRoom(NamedTuple):
    """The memory of a device that replicas share.

    replicas: how many are on the device.
    free: its bytes that they may take.
    """

    device: str
    replicas: int
    free: int


class Feed(NamedTuple):
    """Data to read: a source, as blocks of one side, for one use."""

    name: str
    source: DataSource
    use: Use
    side: int


def feeds_of(
    train: DataSource | None, across: DataSource | None, eval: DataSource | None
) -> list[Feed]:
    """List the data that training reads: train, its transposed data, and eval."""
    given: list[tuple[str, DataSource | None, Use, int]] = [
        ("training", train, "train", 0),
        ("transposed training", across, "train", 1),
        ("evaluation", eval, "score", 0),
    ]
    return [Feed(name, data, use, side) for name, data, use, side in given if data is not None]


@dataclass(frozen=True)
class Plan:
    """The memory by array.

    rows: the arrays; those of the model come first, largest first.
    devices: the devices of the replicas, which all take the same memory; none on the CPU.
    """

    rows: list[Planned]
    devices: Sequence[DeviceRoom] = ()

    @property
    def total(self) -> int:
        """The bytes of the host's memory."""
        return sum(row.held for row in self.rows)

    @property
    def on_device(self) -> int:
        """The bytes that a replica takes on its device; 0 on the CPU."""
        return sum(row.nbytes for row in self.rows if row.device)

    @property
    def row_files(self) -> dict[str, int]:
        """The bytes of each state of rows that is kept in a file, by the file's name."""
        return {
            f"{row.name.removesuffix(ROW_STATE)}.{row.dtype}": row.nbytes
            for row in self.rows
            if row.in_file and row.of == "rows"
        }

    @property
    def table_files(self) -> dict[str, int]:
        """The bytes of each table that is kept in a file, by the file's name, largest first."""
        return {
            f"{row.name}.{row.dtype}": row.nbytes
            for row in self.rows
            if row.in_file and row.of == "model"
        }

    def json(self) -> str:
        """Return the plan as a JSON object."""
        rows = [row._asdict() for row in self.rows]
        found = {
            "total": self.total,
            "on_device": self.on_device,
            "devices": [room._asdict() for room in self.devices],
        }
        return json.dumps(found | {"rows": rows}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read the plan that `json` returned as `text`."""
        found = json.loads(text)
        rows = [
            Planned(**{k: v for k, v in row.items() if k in Planned._fields})._replace(
                shape=tuple(row["shape"])
            )
            for row in found["rows"]
        ]
        return cls(rows, tuple(DeviceRoom(**room) for room in found.get("devices", ())))


def make_plan(
    replica: Replica,
    feeds: Iterable[Feed],
    *,
    shares: Sequence[RowShare] = (),
    devices: Sequence[str] = ("cpu",),
    in_files: bool = False,
    keeps_best: bool = False,
    apart: bool = False,
) -> Plan:
    """Plan the arrays of training.

    These are the containers of a planned cache, the state of rows, the totals of scores, and the
    blocks that are read ahead or kept.

    feeds: the data to read.
    shares: of this worker, of the rows of each side; none: it has all rows.
    devices: of all replicas.
    in_files: whether the state of rows is kept in files.
    keeps_best: whether the best model is kept in memory during training.
    apart: whether replicas may differ when the best model is kept, or parameters are read.
    """
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
        for mat in replica.learned.copied(apart=apart)
    ]  # fmt: skip
    if keeps_best:
        rows += _of_best(replica, shares, replicas if apart else 1)
    rows += _of_scores(replica, None, "training")
    workers = shares[0].size if shares else 1
    for feed in feeds:
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
    ring = ring_size(nbytes, readers, lent(feed.use, replicas, workers))
    name = f"ring of {ring} {feed.name} blocks"
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
