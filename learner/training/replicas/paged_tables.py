"""Which tables of a model may lie apart, which models can train so, and how they resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat
from blocklearn.matcache.containers.slots import Slot
from blocklearn.optimizers import CombinationError, Gradient, LinearLoss, SparseEstimate

from ...files.spread_tables import SpreadTables
from .program import Program

ROWS = 2**16  # that are looked at together

REMEDY = "Leave out table_folder, and the tables are in memory."


def tables_of(program: Program) -> dict[str, Mat]:
    """Return the parameters and optimizer state with a row for each column of the data, by name.

    They come largest first.
    """
    columns = program.shapes.columns
    found = {name: mat for name, mat in program.learned.mats().items() if mat.shape[0] == columns}
    return dict(sorted(found.items(), key=lambda item: -item[1].slot.nbytes))


def tables_bytes(program: Program) -> int:
    """Return the bytes of all tables."""
    return sum(mat.slot.nbytes for mat in tables_of(program).values())


def check_tables(program: Program) -> None:
    """Raise CombinationError unless training reads and changes single rows of tables only.

    Called when the memory of the replica is planned.
    """
    why = next(_hindrances(program), None)
    if why is not None:
        title = type(program.model).__name__
        raise CombinationError(f"table_folder: {title} cannot keep its tables in files: {why}")


def _hindrances(program: Program) -> Any:
    """Yield what would read or write whole tables for every block, with a remedy."""
    optimizer, tables = program.optimizer, tables_of(program)
    own_rows = program.model.changes_occurring or program.model.unsettled(ever=True)
    if not tables:
        yield f"none of its tables has a row for each column of the data. {REMEDY}"
    if program.shapes.dense:
        yield "the data are dense. Give them as scipy.sparse.csr_array(X), or leave it out."
    if program.model.needs.sample and not own_rows:
        yield f"its first values are made of a sample of rows, as a table in memory. {REMEDY}"
    if optimizer is None and not own_rows:
        yield f"it has no optimizer: each block changes whole tables. {REMEDY}"
    elif optimizer is not None and optimizer.steps_by_pass:
        yield (
            f"{type(optimizer).__name__} steps once a pass, and changes whole tables then. Use an "
            "optimizer that steps by block."
        )
    if not program.complete:
        yield f"its update reads numbers, so its memory cannot be planned. {REMEDY}"
    for name in sorted(program.whole & tables.keys()):
        yield (
            f"its update of {name!r} is a whole table for every block, not the rows that occur "
            f"in the block. {_remedy(program)}"
        )
    if optimizer is not None and not optimizer.moves_rows_alone:
        yield (
            f"{type(optimizer).__name__} may change all rows of a table for every block. Use an "
            f"optimizer that changes only those that occur, such as AdaGrad. {REMEDY}"
        )
    own = {mat.slot.label for mat in tables.values()} | {*program.model.held_whole}
    least = min((mat.slot.nbytes for mat in tables.values()), default=0)
    few = program.intakes[0].few_occur  # else a table of the columns of a block is as large
    for array in program.cache.plan():
        whole = array.shape[0] == program.shapes.columns and array.nbytes >= least
        if few and whole and array.label not in own:
            yield f"{array.label!r} at {array.where} is as large as a table, in memory. {REMEDY}"


def of_rows_alone(program: Program) -> bool:
    """Return whether training reads and changes only rows of tables that occur in a block.

    Called when the memory of the replica is planned.
    """
    return next(_hindrances(program), None) is None


def in_order(program: Program) -> bool:
    """Return whether rows of tables must lie in the order of columns.

    So they must where rows rest: at the end of a pass all are brought up to date. So do tables on a
    device and the host that are read or changed as a whole for every block. Rows of several workers
    are brought up to date by their owners, and files have those of some blocks.
    """
    if program.rows_elsewhere:
        return False
    if isinstance(program.files, SpreadTables) and not program.reads_rows_alone:
        return True
    if program.model.changes_occurring:  # and all rows at the end of a pass
        return True
    tables = {mat.guid for mat in tables_of(program).values()}
    return any(mat.guid in tables for mat in program.learned.copied(apart=False))


def _remedy(program: Program) -> str:
    """Return how an update of rows may be had."""
    if not program.model.rests or program.intakes[0].few_occur:
        return REMEDY
    shape = program.intakes[0].shape
    return (
        f"Blocks have up to {shape.nnz:,} entries; with at most half as many as the "
        f"{shape.columns:,} columns, only rows that occur are read. Set a smaller block_rows. "
        f"{REMEDY}"
    )


def check_initial(program: Program) -> None:
    """Raise CombinationError unless rows of tables that lie apart begin alike, or are drawn.

    For they belong to columns that are not known before they occur, unless tables are `in_order`.
    """
    if program.files is None or program.files.in_order:
        return
    for name, mat in tables_of(program).items():
        rule = program.model.rules.get(name)  # None: state of the optimizer
        if rule is not None and rule.drawn is not None:
            continue
        table, rows = program.files.tables[name].array, mat.shape[0]
        starts = () if is_new(mat.slot) else range(0, rows, ROWS)
        parts = (table[np.arange(i, min(i + ROWS, rows))] for i in starts)
        if any((part != table[0]).any() for part in parts):
            title, setting = type(program.model).__name__, program.files.setting
            raise CombinationError(
                f"{setting}: {title}: {name!r}: all rows of a table outside memory must have the "
                f"same initial values, and these differ. Leave out {setting}."
            )


def is_new(slot: Slot) -> bool:
    """Return whether a table in a file has not been written to: it is all zeros."""
    return slot.version == slot.cleared


def of_rows(update: Any) -> bool:
    """Return whether an update changes the rows of a table that occur in the block only."""
    if isinstance(update, LinearLoss):
        return update.block.X.pattern is not None
    return isinstance(update, SparseEstimate) or (isinstance(update, Gradient) and update.sparse)


class Pages(Protocol):
    """Rows of tables that differ from their initial values."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each table."""

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Mapping[str, NDArray[Any]]]]:
        """Yield columns of the data, and their rows of each table; later ones replace earlier."""


@dataclass(frozen=True)
class NoPages:
    """The `Pages` of tables that all have their initial values."""

    shapes: Mapping[str, tuple[int, ...]]

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Mapping[str, NDArray[Any]]]]:
        """See `Pages`."""
        return iter(())


def give_pages(pages: Pages, program: Program) -> None:
    """Set rows of the tables of a replica, which have their initial values."""
    mats, files = program.learned.mats(), program.files
    if files is not None:
        for columns, numbers in pages.parts():
            files.set(columns, numbers)
        return
    tables = {name: mats[name].numpy() for name in pages.shapes}
    for columns, numbers in pages.parts():
        for name, rows in numbers.items():
            tables[name][columns] = rows
    for name, table in tables.items():
        mats[name].set(table)
