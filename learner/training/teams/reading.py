"""Read blocks for a team."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from blocklearn.datasources import DataSource, Reader

from ..replicas.block_input import Intake, Use, lent, readers_for
from ..replicas.replica import Replica
from .team import Team


def reader_of(team: Team, source: DataSource, use: Use, side: int = 0) -> Reader:
    """Return a reader of blocks for `team`.

    Its blocks are in memory that the device of the replicas can copy from. What stays on the
    devices is copied there first, and left out of the blocks.
    """
    first = team.first
    intake = first.intakes[side]
    if use == "train":
        agree([replica.intakes[side] for replica in team.replicas])
        team.each(partial(Replica.bring, source=source, side=side))
    source = intake.read_from(source, use)
    return Reader(
        source,
        lend=lent(use, len(team.replicas), team.crew.size),
        readers=readers_for(source, first.cache.backend.kind),
        indexed=use in intake.indexed_for,
        zeros=first.cache.backend.zeros,
        prepare=None if use == "train" and team.places_blocks else first.prepare,
    )


def agree(intakes: Sequence[Intake]) -> None:
    """Use what all devices keep of the rows: replicas share a reader, also where devices differ."""
    every = [intake.all_rows for intake in intakes if intake.all_rows is not None]
    features = all(rows.features for rows in every)
    for intake in intakes:
        if intake.all_rows is None:
            continue
        intake.all_rows.features = features
        if len(every) < len(intakes) or not (features or intake.all_rows.Y):
            intake.all_rows = None
