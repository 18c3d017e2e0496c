"""Choose who makes the transposed index of blocks for a GPU: the host's readers, or the GPU.

The bits are the same either way. The choice follows from data and model, never from how busy the
machine is. Its times are a model: those of threads were measured on one machine
(docs/explanation/gpu.md), the others are floors of an H200, and for kernels what may be left of
them. A wrong choice of the device costs the sort, a tenth of a block; one of the host may double
its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.matcache import IndexedBy

from ..replicas.block_input import readers_for
from ..replicas.replica import Replica
from .gpu_time import Card, Update, updates_of_sides

GATHERED, INDEXED = 2.5e-9, 7.9e-9  # seconds of a thread for a non-zero
CACHED = 0.5  # share of their floor that kernels may take, where caches answer: measured
INDEX_BYTES = 8  # of a non-zero, that need no copy if the device makes the index


class PassTimes(NamedTuple):
    """The least seconds of a pass, by who makes the index."""

    host: float = 0.0
    device: float = 0.0

    @property
    def faster(self) -> IndexedBy:
        """Who should make it; the host, if that takes no longer."""
        return "device" if self.device < self.host else "host"

    def plus(self, other: PassTimes) -> PassTimes:
        """Return the sum of both."""
        return PassTimes(self.host + other.host, self.device + other.device)


def changes(source: DataSource) -> bool:
    """Return whether sparse blocks of a source are indexed anew in each pass."""
    kept = isinstance(source, MatrixSource) and source.fixed_bytes() > 0
    return not source.shape.dense and not kept


def pass_times(
    replica: Replica, sources: Sequence[DataSource], card: Card, devices: int
) -> PassTimes | None:
    """Return the times of a pass over data; None if no block is indexed anew.

    replica: of `Assembly.counting`, with an index made by the host.
    devices: on which the blocks are shared out.
    """
    whole = None
    updates = updates_of_sides(replica, sources, card)
    for side, (source, update) in enumerate(zip(sources, updates, strict=True)):
        if "train" in replica.intakes[side].indexed_for and changes(source):
            found = _side_times(update, source, card, devices)
            whole = found if whole is None else whole.plus(found)
    return whole


def _side_times(update: Update, source: DataSource, card: Card, devices: int) -> PassTimes:
    """Return the times of the blocks of a side: of the longest of reading, copies and kernels."""
    from blocklearn.matcache.cuda.index import sorting

    shape = source.shape
    entries, threads = source.blocks * shape.nnz, readers_for(source, "cuda")
    gathered = GATHERED * entries / threads if isinstance(source, MatrixSource) else 0.0
    launches, nbytes = sorting(shape.columns)
    sort = source.blocks * max(launches * card.launch, nbytes * shape.nnz / card.memory)
    host = gathered + INDEXED * entries / threads
    copied, kernels = update.copied - INDEX_BYTES * entries, CACHED * update.kernels
    return PassTimes(
        max(host, update.copied / card.link / devices, kernels / devices),
        max(gathered, copied / card.link / devices, (kernels + sort) / devices),
    )
