"""Rows that blocks need, in `scripts/bench scale`: the loops of one worker, measured.

The busiest worker runs `NeededRows` on tables of full size, with other rows in each round. What the
others would send is made before; the network is simulated, so the time in which rows are put where
a network would is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.engines.cost import Needs, Network, fetch_seconds, give_seconds
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.learner.engines.row_loops import mark
from blocklearn.matcache import MatCache, named, scalar
from blocklearn.optimizers.resting import Resting

ROUNDS = 3
Ids = NDArray[np.int32]
Blocks = Sequence[Sequence[Ids]]
"""The rows of each block of each worker from one merge to the next, ascending."""


class Needed:
    """What one worker does from one merge to the next, measured.

    - rows, widths: of the tables. draw: returns the blocks of all workers, others at each call.
    - rests: whether rows rest: then an owner brings all of its own up to date.

    seconds: of its loops. most: rows of each block that the busiest worker sends or gets; given:
    of all blocks.
    """

    def __init__(
        self, rows: int, widths: Sequence[int], draw: Callable[[], Blocks], *, rests: bool = False
    ) -> None:
        self._widths, self._rests = widths, rests
        blocks = draw()
        self._workers = workers = len(blocks)
        new = [_new(own, rows) for own in blocks]
        owned = np.array(
            [[np.bincount(ids % workers, minlength=workers) for ids in own] for own in new]
        )  # [workers x blocks x owners]
        self.most = [_busiest(owned[:, block]) for block in range(len(blocks[0]))]
        whole = owned.sum(axis=1)
        self.given = _busiest(whole)
        self.seconds = self._measured(rows, draw, int(whole.sum(axis=0).argmax()))

    def merge(self, network: Network, block: float) -> float:
        """Return the seconds that fetching rows and the merge add to those of training.

        block: seconds in which a worker trains on a block. The rows of the next one travel
        meanwhile. Its one thread does the loops, too.
        """
        first, *others = (fetch_seconds(self._needs(rows), network) for rows in self.most)
        waited = first + sum(max(0.0, seconds - block) for seconds in others)
        return waited + give_seconds(self._needs(self.given), network) + self.seconds

    def _needs(self, rows: int) -> Needs:
        return Needs(self._workers, 1, rows, 4 * sum(self._widths))

    def _measured(self, rows: int, draw: Callable[[], Blocks], rank: int) -> float:
        """Return the least processor seconds of some rounds, after a first one."""
        answers, arriving = iter(list[list[NDArray[Any]]]()), 0.0

        def swap(
            parts: Sequence[NDArray[Any]], into: NDArray[Any] | None = None
        ) -> list[NDArray[Any]]:
            nonlocal arriving
            found = list(next(answers))
            found[rank] = parts[rank].reshape(-1)
            if into is not None:
                begun = time.process_time()
                np.concatenate(found, out=into)
                arriving += time.process_time() - begun
            return found

        rest = Clocked(rows, self._widths[0]) if self._rests else None
        tables = [np.ones((rows, width), np.float32) for width in self._widths]
        n = self._workers
        crew: Any = SimpleNamespace(rank=rank, size=n, gather=lambda clock: [clock] * n)
        needed, found = NeededRows(crew, rows, swap, rest), []
        needed.behind = True
        for _ in range(ROUNDS + 1):
            blocks = draw()
            answers = iter(self._answers([_new(own, rows) for own in blocks], rank))
            begun, arriving = time.process_time(), 0.0
            for ids in blocks[rank]:
                needed.fetch(tables, ids)
            needed.merge(tables)
            found.append(time.process_time() - begun - arriving)
        return min(found[1:])

    def _answers(self, new: Blocks, rank: int) -> list[list[NDArray[Any]]]:
        """Return what the others give in each exchange: numbers of rows, and rows."""
        n, width, found = self._workers, sum(self._widths), []
        most = width * max(sum(ids.size for ids in own) for own in new) * 2
        numbers = np.random.default_rng(rank).random(most, np.float32)
        for block in range(len(self.most)):
            wanted = [ids[ids % n == rank] for ids in (own[block] for own in new)]
            given = np.bincount(new[rank][block] % n, minlength=n)
            found += [wanted, [numbers[: width * count] for count in given]]
        read = [np.count_nonzero(np.concatenate(own) % n == rank) for own in new]
        return [*found, [numbers[: width * count] for count in read]]


class Clocked:
    """Rows that rest, at a time after a merge: see `Rest` in `needed_rows.py`."""

    now = np.array([-0.5])

    def __init__(self, rows: int, width: int) -> None:
        cache = MatCache(threads=1)
        now = scalar(cache, self.now[0])
        w, rest = named(cache, "w", (1, width)), named(cache, "rest", (rows, 1))
        rest <<= 0.05
        self._resting = Resting("w", w, rest, now)
        self._resting.seen = named(cache, "times", (rows, 1), np.float64)
        self._resting.seen <<= self.now[0] / 2

    def settle(self, at: Ids, rows: NDArray[Any]) -> None:
        """Bring rows up to date that were read."""
        self._resting.settle_elsewhere(at, rows, self.now)

    def wake(self, ids: Ids, rows: NDArray[Any], now: NDArray[np.float64]) -> None:
        """Bring rows up to date that were not."""
        self._resting.wake_elsewhere(ids, rows, now)


def whole_settle_seconds(rows: int, width: int) -> float:
    """Return the processor seconds in which one thread brings all rows of a table up to date."""
    cache, found = MatCache(threads=1), []
    w, rest = named(cache, "w", (rows, width)), named(cache, "rest", (rows, 1))
    w <<= 1.0
    rest <<= 0.05
    now = scalar(cache, -0.5)
    resting = Resting("w", w, rest, now)
    for _ in range(ROUNDS + 1):
        begun = time.process_time()
        resting.wake_all(now)
        found.append(time.process_time() - begun)
    cache.close()
    return min(found[1:])


def _busiest(owned: NDArray[np.int64]) -> int:
    """Return the rows that the busiest worker sends or gets. owned: [workers x owners]."""
    return int(max(owned.sum(axis=0).max(), owned.sum(axis=1).max()))


def _new(blocks: Sequence[Ids], rows: int) -> list[Ids]:
    """Return the rows of each block that no block before has read. rows: of the table."""
    read, found = np.zeros(-(-rows // 8), np.uint8), []
    for ids in blocks:
        new = np.empty_like(ids)
        found.append(new[: mark(ids, read, new)].copy())
    return found
