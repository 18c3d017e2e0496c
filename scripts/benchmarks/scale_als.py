"""ALS in `scripts/bench scale`: all workers get the factors of a side while it is trained.

Measured: a rating and a row of each side, by one thread. Simulated: a pass of many more, dealt to
workers, and the network. The rows of some blocks travel while the next are trained; the last ones
are waited for. They arrive in their places, moved by network cards: where processors move them, as
between workers of one machine, a pass takes longer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import blocklearn as bl

from .report import Row
from .scale_network import NETWORKS, shared_seconds

BLOCK_ROWS, SYNC = 1024, 8


@dataclass(frozen=True)
class Sizes:
    """What is trained on. rank: of the factors."""

    users: int
    items: int
    ratings: int
    rank: int

    @property
    def row_bytes(self) -> int:
        """The bytes of the factors and biases of a row."""
        return 4 * (self.rank + 2)


def pass_seconds(rows: int, columns: int, each: int, rank: int) -> float:
    """Return the processor seconds of a pass, by one thread: the least of two after the first.

    each: ratings of a row.
    """
    rng = np.random.default_rng(0)
    columns_of = rng.integers(0, columns, rows * each).astype(np.int32)
    values = rng.random(rows * each).astype(np.float32)
    X = sp.csr_array((values, columns_of, np.arange(0, rows * each + 1, each)), (rows, columns))
    X.sum_duplicates()
    learner = bl.Learner(bl.models.ALS(rank=rank), X, threads=1, verbose=False)
    found = []
    for passes in range(1, 4):
        learner.passes = passes
        begun = time.process_time()
        learner.fit()
        found.append(time.process_time() - begun)
    learner.close()
    return min(found[1:])


def simulated(sizes: Sizes, counts: Sequence[int], *, quick: bool = False) -> list[Row]:
    """Return a row for each number of workers and network.

    A pass takes a time for each row and one for each rating: two passes measure both.
    """
    rows, columns = (200, 50) if quick else (4000, 1000)
    few, many = (pass_seconds(rows, columns, each, sizes.rank) for each in (10, 40))
    rating = max(0.0, many - few) / (30 * rows)
    row = max(0.0, few - 10 * rows * rating) / (rows + columns)
    found = []
    for name, network in NETWORKS.items():
        for workers in counts:
            train = total = 0.0
            for side in (sizes.users, sizes.items):
                nbytes = sizes.row_bytes * side
                trained = (rating * sizes.ratings / 2 + row * side) / workers
                stretches = -(-side // (workers * BLOCK_ROWS * SYNC))
                given = shared_seconds(network, nbytes / stretches, workers)
                given += 2 * network.latency * (workers - 1)
                total += trained / stretches + (stretches - 1) * max(trained / stretches, given)
                total += given
                train += trained
            settings = {"model": "ALS", "sync": SYNC, "network": name}
            quality = {
                "block": train,
                "merge": total - train,
                "efficiency": train / total,
                "workers": workers,
            }
            found.append(Row("rows", "simulated", settings, total, quality))
    return found
