"""Which tables of a model may lie in files, which models can train so, and how they resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from blocklearn.matcache import Mat
from blocklearn.optimizers import CombinationError, Gradient, LinearLoss, SparseEstimate

if TYPE_CHECKING:
    from .replica import Replica

REMEDY = "Leave out table_folder, and the tables are in memory."


def tables_of(replica: Replica) -> dict[str, Mat]:
    """Return the parameters and optimizer state with a row for each column of the data, by name.

    They come largest first.
    """
    columns = replica.shapes.columns
    found = {name: mat for name, mat in replica.mats().items() if mat.shape[0] == columns}
    return dict(sorted(found.items(), key=lambda item: -item[1].slot.nbytes))


def check_tables(replica: Replica) -> None:
    """Raise CombinationError unless training reads and changes single rows of tables only.

    Called when the memory of the replica is planned.
    """
    why = next(_hindrances(replica), None)
    if why is not None:
        title = type(replica.model).__name__
        raise CombinationError(f"table_folder: {title} cannot keep its tables in files: {why}")


def _hindrances(replica: Replica) -> Any:
    """Yield what would read or write whole tables for every block, with a remedy."""
    optimizer, tables = replica.optimizer, tables_of(replica)
    if not tables:
        yield f"none of its tables has a row for each column of the data. {REMEDY}"
    if replica.shapes.dense:
        yield "the data are dense. Give them as scipy.sparse.csr_array(X), or leave it out."
    if optimizer is None or optimizer.steps_by_pass:
        name = "it has no optimizer"
        if optimizer is not None:
            name = f"{type(optimizer).__name__} steps once a pass"
        yield f"{name}, and changes whole tables then. Use an optimizer that steps by block."
    if not replica.complete:
        yield f"its update reads numbers, so its memory cannot be planned. {REMEDY}"
    for name, update in replica.model.updates.items():
        if name in tables and not _of_rows(update):
            yield (
                f"its update of {name!r} is a whole table for every block, not the rows that occur "
                f"in the block. {REMEDY}"
            )
    for mat in replica.copied(apart=False):
        if any(mat.slot is table.slot for table in tables.values()):
            yield (
                f"penalties and averages change rows of {mat.label!r} that do not occur in a "
                "block. Leave out l1, l2, mixins and average_from; ftrl has an l1 and l2 of its "
                "own, which change no other rows."
            )
    own = {mat.slot.label for mat in tables.values()}
    least = min((mat.slot.nbytes for mat in tables.values()), default=0)
    for array in replica.cache.plan():
        whole = array.shape[0] == replica.shapes.columns and array.nbytes >= least
        if whole and array.label not in own:
            yield f"{array.label!r} at {array.where} is as large as a table, in memory. {REMEDY}"


def _of_rows(update: Any) -> bool:
    """Return whether an update changes the rows of a table that occur in the block only."""
    if isinstance(update, LinearLoss):
        return update.block.X.pattern is not None
    return isinstance(update, SparseEstimate) or (isinstance(update, Gradient) and update.sparse)


class Pages(Protocol):
    """Rows of tables, kept in files."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each table."""

    def parts(self) -> Iterator[tuple[np.ndarray[Any, Any], Mapping[str, np.ndarray[Any, Any]]]]:
        """Yield numbers of rows, and these rows of each table; later ones replace earlier ones."""


def give_pages(pages: Pages, replica: Replica) -> None:
    """Set rows of the tables of a replica, which have their initial values."""
    mats, files = replica.mats(), replica.files
    if files is None:
        arrays = {name: mats[name].numpy() for name in pages.shapes}
    else:
        arrays = {name: files.tables[name].array for name in pages.shapes}
    for rows, found in pages.parts():
        for name, numbers in found.items():
            arrays[name][rows] = numbers
        if files is not None:
            files.note(rows)
    if files is None:
        for name, array in arrays.items():
            mats[name].set(array)
    else:
        files.saved_as(pages)
