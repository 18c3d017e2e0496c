"""One pass over the training data, and what it says of its speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice

from ..datasources import DataSource, HostBlock, Reader
from .hooks import Progress
from .replica import Replica
from .team import Team


class Meter:
    """Counts what training did, into a `Progress`."""

    def __init__(self, progress: Progress) -> None:
        """From zero: speeds are of this process, not of those that it goes on from."""
        self.progress = progress
        self._rows, self._seconds, self._flops = 0, 0.0, 0

    def count(self, team: Team, blocks: int, rows: int, seconds: float, flops: int) -> None:
        """Some blocks are done."""
        progress = self.progress
        progress.block += blocks
        progress.rows += rows
        progress.seconds += seconds
        self._rows += rows
        self._seconds += seconds
        self._flops += flops
        progress.rows_per_s = self._rows / max(self._seconds, 1e-9)
        progress.gflops = self._flops / max(self._seconds, 1e-9) / 1e9
        stats = [replica.cache.stats() for replica in team.replicas]
        progress.cache_bytes = sum(s.bytes for s in stats)
        progress.allocations_after_warmup = sum(s.allocations_after_warmup for s in stats)


def train_pass(
    team: Team,
    sources: Sequence[DataSource],
    readers: Sequence[Reader],
    meter: Meter,
    tell: Callable[[str], None],
) -> None:
    """The blocks of the present pass that are left, of one side (source) after the other, and what
    the model does at the end of the pass. tell: is told "block" whenever replicas are merged.
    """
    progress, first = meter.progress, 0
    for side, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        done = min(max(progress.block - first, 0), source.blocks)
        first += source.blocks
        blocks = reader.blocks(progress.pass_, start=done)

        def train(replica: Replica, host: HostBlock, side: int = side) -> int:
            replica.update(replica.bind(host, side))
            if not replica.cache.frozen:
                replica.cache.freeze()
            return host.rows

        while done < source.blocks:
            flops, clock = team.flops, time.perf_counter()
            count = min(team.stretch, source.blocks - done)
            team.begin()
            rows = sum(team.in_turn(islice(blocks, count), train))
            done += count
            team.merge(complete=done == source.blocks)
            meter.count(team, count, rows, time.perf_counter() - clock, team.flops - flops)
            tell("block")
        for _ in blocks:  # none is left: this ends the reader's pass
            pass
    clock = time.perf_counter()
    team.each(lambda replica: replica.end_pass())
    progress.seconds += time.perf_counter() - clock
    progress.closed = True
