"""Table 1 of the BIDMach paper: single operations on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.benchmarks.operations import OPERATIONS

from .measure import Row, Scale, agreement, cache_on, floor, seconds_of


def rows(scale: Scale) -> Iterator[Row]:
    """Yield a row for each operation."""
    for name, make in OPERATIONS.items():
        seconds, results = [], []
        for device in ("cuda:0", "cpu"):
            with cache_on(device) as cache:
                work = make(cache, scale.of)
                seconds.append(seconds_of(cache, work.run, scale.least))
                results.append(work.run().numpy())
        yield Row(name, *seconds, floor(work.nbytes, work.flops), agreement(*results))
