"""Read blocks for a team."""

from __future__ import annotations

from blocklearn.datasources import DataSource, Reader

from .block_input import Use, lent, readers_for
from .team import Team


def reader_of(team: Team, source: DataSource, use: Use, side: int = 0) -> Reader:
    """Return a reader of blocks for `team`.

    Its blocks are in memory that the device of the replicas can copy from.
    """
    first = team.first
    return Reader(
        source,
        lend=lent(use, len(team.replicas)),
        readers=readers_for(source, first.cache.backend.kind),
        indexed=use in first.intakes[side].indexed_for,
        zeros=first.cache.backend.zeros,
        prepare=first.prepare,
    )
