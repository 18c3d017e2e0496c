"""Read blocks for a team."""

from __future__ import annotations

from functools import partial

from blocklearn.datasources import DataSource, HostBlock, Reader

from ..files.table_files import TableFiles
from .block_input import Use, lent
from .team import Team


def reader_of(team: Team, source: DataSource, use: Use, side: int = 0) -> Reader:
    """Return a reader of blocks for `team`.

    Its blocks are in memory that the device of the replicas can copy from.
    """
    first = team.first
    return Reader(
        source,
        lend=lent(use, len(team.replicas)),
        indexed=use in first.intakes[side].indexed_for,
        zeros=first.cache.backend.zeros,
        then=None if first.files is None else partial(_fetch, first.files),
    )


def _fetch(files: TableFiles, block: HostBlock) -> None:
    """Ask for the rows of tables in files that a block needs, before training comes to it."""
    files.fetch(block.active[: block.n_active] if block.indexed else block.indices[: block.nnz])
