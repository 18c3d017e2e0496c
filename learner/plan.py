"""The memory that training takes, known before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..datasources import DataSource, MatrixSource
from ..datasources.ring import ring_size
from ..datasources.source import readers_of
from .replica import Replica


@dataclass(frozen=True)
class Plan:
    """Memory by array: (name, shape, dtype, bytes) each, and the sum."""

    rows: list[tuple[str, tuple[int, ...], str, int]]
    total: int


def make_plan(replica: Replica, sources: Mapping[str, DataSource | None]) -> Plan:
    """The containers of a planned cache, the state of rows, and the blocks that are read ahead or
    kept by name.
    """
    rows: list[tuple[str, tuple[int, ...], str, int]] = [
        (row.label, row.shape, row.dtype, row.nbytes) for row in replica.cache.plan()
    ]
    for name, state in replica.model.states.items():
        rows.append((f"{name} (row state)", state.shape, "float32", state.nbytes))
    for name, data in sources.items():
        if data is None:
            continue
        shape = data.shape
        ring = ring_size(shape.nbytes, readers_of(data))
        rows.append(
            (f"ring of {ring} {name} blocks", (ring, shape.rows), "bytes", ring * shape.nbytes)
        )
        if isinstance(data, MatrixSource) and data.keeps:
            label = f"{name} blocks kept for later passes, at most"
            rows.append((label, (data.blocks, shape.rows), "bytes", data.keeps))
    return Plan(rows, sum(row[3] for row in rows))
