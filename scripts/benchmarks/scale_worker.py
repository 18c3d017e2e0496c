"""A worker of MPI that times exchanges and merges, for `scripts/bench scale`. Worker 0 prints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from blocklearn.learner.engines import choice
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.lines import LINE
from blocklearn.learner.engines.merging import CrewMerger
from blocklearn.learner.engines.mpi import connect
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.matcache import MatCache, from_array

LINES = 2**17
SHARES = (0.01, 0.1)
ROUNDS = 7


def main() -> None:
    """Measure latency, bandwidth, and merges of all ways."""
    crew = Crew(connect(120.0))
    swap, size = crew.exchange.exchange, crew.size
    small, large = np.zeros(1, np.uint8), np.zeros(2**25 // size, np.uint8)
    latency, _ = timed(crew, lambda: swap([small] * size))
    moved, _ = timed(crew, lambda: swap([large] * size))
    found: dict[str, Any] = {
        "lines": LINES,
        "latency": latency,
        "bandwidth": large.nbytes * (size - 1) / max(moved - latency, 1e-9),
        "merges": {},
    }
    rng = np.random.default_rng(crew.rank)
    for share in SHARES:
        times = {}
        for way, few in (("dense", 2**62), ("differing", 0)):
            choice.FEW, choice.PATIENT = few, 0
            merger = CrewMerger(crew)
            table = np.zeros((LINES, LINE), np.float32)
            mat = from_array(MatCache(threads=1), table, "x")

            def prepare(table: Any = table, mat: Any = mat, share: float = share) -> None:
                table[:] = mat.shown()
                table[rng.random(LINES) < share] += 1 + crew.rank
                mat.set(table)

            def merge(mat: Any = mat, merger: Any = merger) -> None:
                merger.merge([("mean", [mat])])

            times[way] = timed(crew, merge, prepare)
        times["needed"] = needed_seconds(crew, rng, share)
        found["merges"][str(share)] = times
    if crew.leads:
        print(json.dumps(found))


def needed_seconds(crew: Crew, rng: np.random.Generator, share: float) -> tuple[float, float]:
    """Return the least seconds of a fetch and a merge at the owners: see `timed`."""
    tables, rows = (
        [np.zeros((LINES, LINE), np.float32)],
        NeededRows(crew, LINES, crew.exchange.exchange),
    )
    read = [np.empty(0, np.int32)]

    def draw() -> None:
        read[0] = np.flatnonzero(rng.random(LINES) < share).astype(np.int32)

    def fetch() -> None:
        rows.fetch(tables, read[0])
        rows.merge(tables)

    return timed(crew, fetch, draw)


def timed(
    crew: Crew, work: Callable[[], Any], prepare: Callable[[], Any] = lambda: None
) -> tuple[float, float]:
    """Return the least seconds of `work`, begun together, and its least processor seconds.

    A first time does not count.
    """
    found = []
    for _ in range(ROUNDS + 1):
        prepare()
        crew.gather(None)
        begun = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    clock, processor = zip(*found[1:], strict=True)
    return min(clock), min(processor)


if __name__ == "__main__":
    main()
