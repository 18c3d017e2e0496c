"""Check everything, try some blocks, leave no files: `learn --dry-run`."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.datasources.memory.handed import nbytes_of
from blocklearn.matcache.devices import device_name

from ..configuration.config import RunConfig
from ..engines.alike import check_share
from ..engines.crew import Crew
from ..figures import counted, duration, size
from ..files.allocated import nearest
from ..files.row_folder import RowFolder
from ..files.table_files import TableFiles
from ..learner import Learner
from ..training.plans.gpu_time import card_of
from ..training.plans.plan import ROW_STATE, Plan
from .build import build
from .decided import planned
from .exchange_plan import exchange_lines
from .inputs import kinds_of, of_length, open_data, sized
from .memory_check import array_lines, check_room, device_rooms, room
from .placing import placed
from .run_folder import RunFolder
from .state_files import StateFiles, state_files_of
from .training import run_notes, summary

BLOCKS = 3
SMALL = 0.001  # share of all memory; smaller arrays get no line of their own


def dry_run_lines(
    config: RunConfig, *, overwrite: bool, resume: bool, workers: int = 1
) -> Iterator[str]:
    """Yield the memory plan by array, the blocks of a pass, the expected time, and notes.

    workers: that have been started; the configuration may name more.

    Raises:
        ConfigError: there are more workers than blocks.
        MemoryPlanError: memory does not suffice; the message says which settings to lower.
    """
    RunFolder(config.out).check(overwrite=overwrite, resume=resume)
    config = of_length(config)
    train, eval = open_data(config)
    chosen = config.data.block_rows == "auto"
    config = sized(config, train)
    if config.model.undecided is not None:
        what = config.model.undecided.what
        yield f"{what}: chosen when the run starts; its time is not counted here"
        config = planned(config)
    with _files_elsewhere(config) as files:
        workers = max(workers, config.distributed.workers or 1)
        check_share(workers, train.blocks)
        make = partial(build, config, train, eval, [])
        files, learner, plan, note = placed(make, files, config, Crew(), workers)
        yield summary(config, learner, plan)
        if workers > 1:
            yield f"memory of each of {workers} workers:"
        yield from _memory(config, plan, learner.execution.replicas)
        if workers > 1:
            yield from _owners(plan, learner.plan(1), workers)
            yield from _handed(config, learner)
        if note:
            yield note
        check_room(plan, config)
        files.check(plan)
        yield from _blocks(train, learner, chosen=chosen)
        yield from _time(config, learner)
        yield from run_notes(learner)
        yield from exchange_lines(learner, workers)
        learner.close()


@contextmanager
def _files_elsewhere(config: RunConfig) -> Iterator[StateFiles]:
    """Yield temporary folders for row state and tables, on the disks of those of the run."""
    own = state_files_of(config, Crew())
    with ExitStack() as stack:

        def rows(folder: RowFolder | None) -> RowFolder | None:
            if folder is None:
                return None
            name = f".dry-run-{secrets.token_hex(4)}"
            made = RowFolder(nearest(folder.path.parent), name, remedy=folder.remedy)
            stack.callback(made.release)
            return made

        def beside(folder: Path) -> Path:
            made = tempfile.TemporaryDirectory(dir=nearest(folder), prefix=".dry-run-")
            return Path(stack.enter_context(made))

        tables = own.tables and TableFiles(
            [beside(folder) for folder in own.tables.parents], memory=own.tables.memory
        )
        yield StateFiles(rows(own.rows), tables, rows(own.spare))


def _memory(config: RunConfig, plan: Plan, copies: int) -> Iterator[str]:
    large = [
        row
        for row in plan.rows
        if row.nbytes * row.copies >= SMALL * max(plan.total, plan.on_device)
    ]
    yield from array_lines(large)
    rest = sum(row.nbytes * row.copies for row in plan.rows if not row.in_file and row not in large)
    yield f"{rest:>18,} bytes  {len(plan.rows) - len(large)} smaller arrays"
    yield f"{plan.total:>18,} bytes  in all"
    if plan.on_device:
        yield f"{plan.on_device:>18,} bytes  on the device, for each replica"
    for there in device_rooms(plan, config):
        shared = f", for each of its {there.replicas} replicas" if there.replicas > 1 else ""
        yield f"{there.left:>18,} bytes  {there.limit} on {there.device}{shared}"
    if copies > 1:
        each = sum(row.nbytes for row in plan.rows if row.copies > 1)
        yield f"{each:>18,} bytes  of it in each of {copies} replicas"
    if found := room(config):
        yield f"{found[0]:>18,} bytes  {found[1]}"


def _owners(plan: Plan, alone: Plan, workers: int) -> Iterator[str]:
    """Yield which states of rows are shared out, and the files of each worker.

    alone: the plan of one worker.
    """
    wholes = {row.name: row for row in alone.rows}
    if plan.table_files:
        nbytes = sum(plan.table_files.values())
        yield f"tables: all of them, {size(nbytes)}, in files of each of {workers} workers"
    for row in plan.rows:
        if row.name.endswith(ROW_STATE):
            name, whole = row.name.removesuffix(ROW_STATE), wholes[row.name]
            if row.shape == whole.shape:
                yield f"{name}: all of them, {size(row.nbytes)}, in each of {workers} workers"
            else:
                has = f"{size(row.nbytes)} of {size(whole.nbytes)}"
                yield f"{name}: each of {workers} workers has its own, {has}"


def _handed(config: RunConfig, learner: Learner) -> Iterator[str]:
    """Yield what worker 0 hands to the others, if it reads data into memory."""
    whole = [name for name, kind in kinds_of(config.data).items() if kind.reads_whole]
    if not whole:
        return
    given = [*learner.data.sides, *learner.data.given[1:]]
    nbytes = sum(nbytes_of(source) for source in given if isinstance(source, MatrixSource))
    yield (
        f"{' and '.join(whole)}: worker 0 reads all rows, and hands them to the others in a file "
        f"of {config.out}: {size(nbytes)} and names"
    )


def _blocks(train: DataSource, learner: Learner, *, chosen: bool) -> Iterator[str]:
    blocks = f"{counted(train.blocks, 'block')} of {train.shape.rows:,} rows"
    if learner.data.across is not None:
        across = learner.data.across
        blocks += f", then {counted(across.blocks, 'block')} of {across.shape.rows:,} columns"
    if chosen:
        blocks += " (data.block_rows: auto)"
    yield f"a pass: {blocks}; {size(train.shape.nbytes)} for each that is read ahead"


def _time(config: RunConfig, learner: Learner) -> Iterator[str]:
    trial = learner.trial(BLOCKS)
    passes = config.learner.passes
    for start, seconds in trial.passes:
        what = f"a pass from pass {start + 1} on" if start else "a pass"
        yield f"{what}: about {duration(seconds)}"
    visits = config.evaluation.visits(passes) if learner.eval is not None else 0
    if visits:
        yield f"an evaluation: about {duration(trial.evaluation)}"
    yield from _floor(learner)
    yield from _index(learner)
    yield from _checkpoint(learner)
    whole = trial.seconds(passes) + visits * trial.evaluation
    yield f"in all: about {duration(whole)}, estimated from {counted(trial.blocks, 'block')}"


def _checkpoint(learner: Learner) -> Iterator[str]:
    """Yield the bytes that a checkpoint writes."""
    placed = learner.placed_tables
    nbytes = sum(tensor.nbytes for tensor in learner.state(copy=False).tensors.values())
    if placed is None or not placed.tables:
        yield f"a checkpoint: {size(nbytes)}"
        return
    tables = sum(table.array.nbytes for table in placed.tables.values())
    yield (
        f"a checkpoint: {size(nbytes)}, and of {size(tables)} of tables the rows that have changed "
        "since the one before"
    )


def _floor(learner: Learner) -> Iterator[str]:
    """Yield what a pass must take on the kind of the first GPU, if there is one."""
    device = learner.execution.devices[0]
    if device == "cpu":
        return
    name, card = card_of(device_name(device))
    update = learner.assembly().gpu_floor(card)
    yield (
        f"a pass on one {name}, calculated: at least {duration(update.seconds(card))} for "
        f"{size(int(update.nbytes))} moved and {update.flops / 1e9:,.1f} Gflop in "
        f"{update.launches:,.0f} launches, and {size(int(update.copied))} copied from the host"
    )


def _index(learner: Learner) -> Iterator[str]:
    """Yield who makes the index of blocks for a GPU, and why, if it makes a difference."""
    times = learner.pass_times
    if times is None:
        return
    index = learner.execution.index
    chosen = times.faster if index == "auto" else index
    yield (
        f"the index of blocks is made by the {chosen} (learner.index: {index}); a pass, "
        f"calculated: at least {duration(times.host)} if the host makes it, "
        f"{duration(times.device)} if the device does"
    )
