"""Rows that blocks need, in `scripts/bench scale`: the loops of one worker, measured.

The busiest worker runs `NeededRows` on tables of full size, with other rows in each round. What the
others would send is made before; the network is simulated, so the time in which rows are put where
a network would is left out. A piece of a merge travels from when the code begins to exchange it, if
those before have arrived, until the code waits for it, or longer: then the worker waits, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.engines.cost import NeededSizes, Network, fetch_seconds, give_seconds
from blocklearn.learner.engines.errands import Errand
from blocklearn.learner.engines.given_rows import Piece
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.learner.engines.row_loops import mark
from blocklearn.matcache import MatCache, named, scalar
from blocklearn.optimizers.resting import Resting

ROUNDS = 3
Ids = NDArray[np.int32]
Blocks = Sequence[Sequence[Ids]]
"""The rows of each block of each worker from one merge to the next, ascending."""


class Trip(Errand[Piece]):
    """A piece of a merge, which a worker begins to exchange, and waits for.

    begun, waited: when, in seconds of its loops.
    rows: that the busiest worker sends or gets.
    """

    rows = 0

    def __init__(self, clock: Callable[[], float], exchange: Any, parts: Any, piece: Piece) -> None:
        super().__init__(exchange, (parts, piece))
        self.run()
        self._clock, self.own_rows = clock, (piece.first, piece.end)
        self.begun = self.waited = clock()

    def wait(self) -> None:
        """See `Errand`: the first time counts."""
        if self.waited == self.begun:
            self.waited = self._clock()


class Round(NamedTuple):
    """From one merge to the next. seconds: of the loops. trips: of pieces of the merge."""

    seconds: float
    trips: Sequence[Trip]

    def waited(self, travels: Callable[[int], float]) -> float:
        """Return how long the worker waits for pieces. travels: returns the seconds of rows."""
        found, ends, arrived = 0.0, list[float](), 0.0
        moments = [(trip.begun, True, i) for i, trip in enumerate(self.trips)]
        moments += [(trip.waited, False, i) for i, trip in enumerate(self.trips)]
        for moment, begins, i in sorted(moments, key=lambda each: each[0]):
            if begins:
                arrived = max(arrived, moment + found) + travels(self.trips[i].rows)
                ends.append(arrived)
            else:
                found += max(0.0, ends[i] - moment - found)
        return found


class Needed:
    """What one worker does from one merge to the next, measured.

    - rows, widths: of the tables. draw: returns the blocks of all workers, others at each call.
    - rests: whether rows rest: then an owner brings all of its own up to date.

    most: rows of each block that the busiest worker sends or gets.
    rounds: measured, the one with the shortest loops first.
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
        rank = int(owned.sum(axis=(0, 1)).argmax())
        self.rounds = sorted(self._measured(rows, draw, rank), key=lambda each: each.seconds)

    def merge(self, network: Network, block: float, number: int = 0) -> float:
        """Return the seconds that fetching rows and the merge add to those of training.

        block: seconds in which a worker trains on a block. The rows of the next one travel
            meanwhile. Its one thread does the loops, too.
        number: of the round.
        """
        first, *others = (fetch_seconds(self._needs(rows), network) for rows in self.most)
        waited = first + sum(max(0.0, seconds - block) for seconds in others)
        found = self.rounds[number]
        given = found.waited(lambda rows: give_seconds(self._needs(rows), network))
        return waited + given + found.seconds

    def _needs(self, rows: int) -> NeededSizes:
        return NeededSizes(self._workers, 1, rows, 4 * sum(self._widths))

    def _measured(self, rows: int, draw: Callable[[], Blocks], rank: int) -> list[Round]:
        """Return what some rounds take, after a first one."""
        n, width, away = self._workers, sum(self._widths), 0.0
        wanted, numbers = iter(list[list[Ids]]()), np.empty(0, np.float32)

        def clock() -> float:
            return time.process_time() - away

        def swap(
            parts: Sequence[NDArray[Any]], into: NDArray[Any] | None = None
        ) -> list[NDArray[Any]]:
            nonlocal away
            if into is None:
                return next(wanted)
            begun = time.process_time()
            into[:] = numbers[: into.size]
            away += time.process_time() - begun
            return []

        def aside(*call: Any) -> Any:
            trips.append(Trip(clock, *call))
            return trips[-1]

        rest = Clocked(rows, self._widths[0]) if self._rests else None
        tables = [np.ones((rows, width), np.float32) for width in self._widths]
        crew: Any = SimpleNamespace(rank=rank, size=n, gather=lambda given: [given] * n)
        needed, found = NeededRows(crew, rows, swap, rest, aside=aside), []
        needed.behind = True
        for _ in range(ROUNDS + 1):
            blocks, trips = draw(), list[Trip]()
            new = [_new(own, rows) for own in blocks]
            read = [np.concatenate(own) for own in new]
            wanted = iter(
                [[ids[ids % n == rank] for ids in part] for part in zip(*new, strict=True)]
            )
            most = max(*(ids.size for ids in read), sum(np.sum(ids % n == rank) for ids in read))
            numbers = np.random.default_rng(rank).random(int(most) * width, np.float32)
            begun = clock()
            for ids in blocks[rank]:
                needed.fetch(tables, ids)
            needed.merge(tables)
            found.append(Round(clock() - begun, trips))
            for trip in trips:
                trip.rows = _busiest(_owned(read, n, *trip.own_rows))
        return found[1:]


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


def _owned(read: Sequence[Ids], workers: int, first: int, end: int) -> NDArray[np.int64]:
    """Return how many rows of a range of own rows workers have read [workers x owners]."""
    inside = [ids[(ids // workers >= first) & (ids // workers < end)] for ids in read]
    return np.array([np.bincount(ids % workers, minlength=workers) for ids in inside])


def _new(blocks: Sequence[Ids], rows: int) -> list[Ids]:
    """Return the rows of each block that no block before has read. rows: of the table."""
    read, found = np.zeros(-(-rows // 8), np.uint8), []
    for ids in blocks:
        new = np.empty_like(ids)
        found.append(new[: mark(ids, read, new)].copy())
    return found
