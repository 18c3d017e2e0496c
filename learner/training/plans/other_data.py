"""Train replicas on other data than they were planned for, where another plan would be the same.

To plan a model, its update is run several times on shapes. A stream of small parts would spend
most of its time so.
"""

from __future__ import annotations

from dataclasses import replace

from blocklearn.datasources import BlockShape
from blocklearn.matcache.operations.local import few_occur
from blocklearn.models import Needs, Shapes
from blocklearn.optimizers import Optimizer

from ..replicas.parts import Parts
from ..replicas.replica import Replica
from ..states.state import State
from ..teams.team import Team
from .assembly import Assembly

INITIAL = {"sample", "counts", "value_sums", "restored"}  # of initial numbers, see `Needs`


def shapes_to_keep(
    team: Team, wanted: Assembly, optimizer: Optimizer | None, state: State
) -> Shapes | None:
    """Return the shapes of other data, if replicas can train on these as new ones would.

    None: they cannot, or it is not certain.

    wanted: makes new replicas for the other data.
    optimizer: the one that was chosen, or the default one of the data so far.
    state: that both would start from.
    """
    replica, data = team.first, wanted.data
    plain = replica.trains and replica.complete and _in_memory(replica) and len(data.sides) == 1
    same = _same_parts(replica, wanted.parts, optimizer)
    numbers = replica.learned.mats().keys() <= state.tensors.keys()  # others would stay as they are
    if not (plain and same and numbers and blocks_fit(replica, data.training.shape)):
        return None
    if _counts_anew(replica, wanted.parts.model.needs, data.of_rows):
        return None
    shapes = replace(
        replica.shapes,
        total_rows=data.training.shape.total_rows,
        of_rows=data.of_rows,
        passes=wanted.passes,
        names=data.names,
        target_names=data.target_names,
    )
    return shapes if read_alike(replica, shapes) else None


def read_alike(replica: Replica, shapes: Shapes) -> bool:
    """Return whether other shapes have what the model reads of those that were planned."""
    before, read = replica.shapes, replica.noted.read - INITIAL
    return all(getattr(shapes, name) == getattr(before, name) for name in read)


def _in_memory(replica: Replica) -> bool:
    """Return whether all numbers lie in the memory of the host."""
    in_files = replica.files is not None or replica.shapes.states_in_files
    return replica.device == "cpu" and not in_files


def blocks_fit(replica: Replica, new: BlockShape) -> bool:
    """Return whether blocks of other data are as the planned ones, or have fewer entries."""
    planned = replica.blocks[0]  # scores and predictions may have made more room, but for X alone
    alike = (new.rows, new.columns, new.targets, new.dense) == (
        (planned.rows, planned.columns, planned.targets, planned.dense)
    )
    few = few_occur(new.nnz, new.columns) == few_occur(planned.nnz, planned.columns)
    return alike and few and new.nnz <= planned.nnz


def _counts_anew(replica: Replica, needs: Needs, of_rows: int | None) -> bool:
    """Return whether the model computes with sums over all rows, which are not known of others."""
    sums = (needs.counts or needs.value_sums) and not needs.initial
    tokens = replica.shapes.tokens is not None or (needs.tokens and of_rows is None)
    return bool(sums or tokens)


def _same_parts(replica: Replica, wanted: Parts, optimizer: Optimizer | None) -> bool:
    """Return whether the replica has these parts, and was planned with their present settings.

    The optimizer may be a new one that makes the same steps by block, from a state alone.
    """
    new = wanted.optimizer
    if new is not None and (new.steps_by_pass or new.keeps_rows):
        return False
    parts = [part for part in (wanted.model, optimizer, *wanted.mixins) if part is not None]
    before, now = replica.settings, wanted.settings()
    own = [id(part) for part, _ in before] == [id(part) for part in parts]
    alike = [(type(part), fields) for part, fields in before] == [
        (type(part), fields) for part, fields in now
    ]
    return own and alike
