"""Which tables of several workers travel row by row, as blocks need them, and when it pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np

from blocklearn.matcache import Mat
from blocklearn.optimizers import AtRest, CombinationError

from ...engines.choice import FEW
from ...engines.cost import NeededSizes, dense_seconds, needed_seconds, sparse_seconds
from ...files.table_files import TableFiles
from ..replicas.paged_tables import tables_of
from ..replicas.replica import Replica
from ..settings.execution import Execution
from .merged_sizes import sizes_of

RULES = ("mean", "sum")
"""Of merges of rows."""


def needs_of(replica: Replica, execution: Execution, workers: int) -> NeededSizes | None:
    """Return what workers would exchange; None: they cannot do so.

    Each must have one replica, which merges make equal to the others. Training must read and change
    those rows of tables only that occur in a block. Merges must take the mean of float32, or add up
    by how much it has grown: then a row that no block has read stays as it is, or rests `at_rest`.
    """
    if not vars(type(replica.model)).get("reads_occurring") or replica.mixins:
        return None
    rules = {replica.learned.rule(name) for name in tables_of(replica)} - {"same"}
    merged, optimizer, model = merged_tables(replica), replica.optimizer, replica.model
    in_files = isinstance(replica.files, TableFiles)
    rests = model.at_rest or (optimizer is not None and optimizer.rests)
    if (
        execution.replicas > 1
        or execution.sync_weight < 1.0
        or replica.cache.backend.kind != "cpu"
        or replica.shapes.sides > 1
        or not {"mean"} <= rules <= set(RULES)
        or {mat.dtype.str for mat in merged.values()} != {np.dtype(np.float32).str}
        or not replica.reads_rows_alone
        or (optimizer is None and not (model.at_rest or model.changes_occurring))
        or (rests and at_rest_of(replica).keys() != means_of(replica, merged))
        or (model.at_rest and not in_files)
        or (in_files and not model.rests_alike)
    ):
        return None
    rounds = execution.sync_every
    touched = min(replica.shapes.columns, rounds * replica.intakes[0].shape.nnz)
    return NeededSizes(workers, rounds, touched, sum(4 * mat.shape[1] for mat in merged.values()))


def merged_tables(replica: Replica) -> dict[str, Mat]:
    """Return the tables that are merged, by name: first those of which merges take the mean."""
    tables, derived, rule = tables_of(replica), replica.model.derived, replica.learned.rule
    wanted = [name for name in tables if rule(name) in RULES and name not in derived]
    return {name: tables[name] for name in sorted(wanted, key=lambda name: RULES.index(rule(name)))}


def means_of(replica: Replica, tables: Iterable[str]) -> set[str]:
    """Return those of these tables of which merges take the mean."""
    return {name for name in tables if replica.learned.rule(name) == RULES[0]}


def chosen_needs(replica: Replica, execution: Execution, workers: int) -> NeededSizes | None:
    """Return what workers exchange if rows travel where blocks need them; None: all that differ do.

    It is decided by sizes, so all workers decide the same. Rows of tables in files always do.

    Raises CombinationError if tables lie in files, and their rows cannot travel so.
    """
    if workers == 1:
        return None
    needs = needs_of(replica, execution, workers)
    if isinstance(replica.files, TableFiles):
        if needs is None:
            raise _refusal(replica, replica.files.setting)
        return needs
    if needs is None or sum(prod(mat.shape) for mat in merged_tables(replica).values()) < FEW:
        return None
    sizes = sizes_of(replica, workers, execution.sync_every)
    if needed_seconds(needs) >= min(sparse_seconds(sizes), dense_seconds(sizes)):
        return None
    return needs


def _refusal(replica: Replica, setting: str) -> CombinationError:
    title, optimizer = type(replica.model).__name__, type(replica.optimizer).__name__
    steps = "" if replica.optimizer is None else f" with {optimizer}"
    remedy = "Train with one worker"
    if vars(type(replica.model)).get("reads_occurring"):
        kept = "penalties, averages" if replica.model.rests_alike else "priors of single words"
        remedy = f"Leave out {kept}, mixins and a sync_weight below 1; or train with one worker"
    return CombinationError(
        f"{setting}: {title}{steps} cannot keep its tables in files of several workers: with these "
        f"settings, rows change that no block reads, or may. {remedy}; or leave out {setting}."
    )


def at_rest_of(replica: Replica) -> Mapping[str, AtRest]:
    """Return the tables whose rows rest, of the model or of the optimizer, by name."""
    optimizer = replica.optimizer
    return replica.model.at_rest if optimizer is None else optimizer.at_rest
