"""Passes over the training data, and what they say of their speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from blocklearn.datasources import DataSource, HostBlock, Reader

from .divergence import FiniteCheck
from .evaluation import Evaluator
from .progress import Progress
from .replica import Replica
from .scoring import TrainingScores
from .team import Team
from .work import Work, data_bytes


class Meter:
    """Counts what training did, into a `Progress`."""

    def __init__(self, progress: Progress) -> None:
        """From zero: speeds are of this process, not of those that it goes on from."""
        self.progress = progress
        self._before = progress.work

    def waiting(self, blocks: Iterator[HostBlock], reader: Reader) -> Iterator[HostBlock]:
        """The same blocks; the time until each is there is counted as reading."""
        while True:
            ready, clock = reader.ready, time.perf_counter()
            block = next(blocks, None)
            waited = time.perf_counter() - clock
            if block is None:
                return
            self.add(Work(read=waited, ready=ready))
            yield block

    def add(self, work: Work) -> None:
        """This was done."""
        self.progress.work += work

    def merged(self, team: Team, blocks: int, rows: int, cost: Work) -> None:
        """Some blocks are done, and replicas are one model again. cost: what is not added yet."""
        progress = self.progress
        progress.block, progress.ahead = progress.block + blocks, 0
        progress.rows += rows
        progress.seconds += cost.seconds
        self.add(cost)
        done = progress.work - self._before
        progress.rows_per_s, progress.gflops = done.rows_per_s, done.gflops
        stats = [replica.cache.stats() for replica in team.replicas]
        progress.cache_bytes = sum(s.bytes for s in stats)
        if team.first.device != "cpu":
            progress.device_bytes = progress.cache_bytes
        progress.allocations_after_warmup = sum(s.allocations_after_warmup for s in stats)


def train_passes(
    team: Team,
    sources: Sequence[DataSource],
    readers: Sequence[Reader],
    progress: Progress,
    evaluator: Evaluator,
    tell: Callable[[str], None],
) -> None:
    """The passes that are left. tell: is told "block", "pass_end" and "end".

    Raises:
        DivergedError: what the model has learnt is no longer finite.
    """
    meter, check, scores = Meter(progress), FiniteCheck(), TrainingScores(progress)

    def after_block() -> None:
        evaluator.look()
        tell("block")

    progress.stop = team.first.converged or evaluator.exhausted
    while progress.pass_ < progress.passes and not progress.stop:
        train_pass(team, sources, readers, meter, check, scores, after_block)
        if progress.closed:
            progress.stop = progress.stop or team.first.converged
            evaluator.look(last=progress.stop or progress.pass_ + 1 == progress.passes)
            tell("pass_end")
            progress.pass_, progress.block = progress.pass_ + 1, 0
            progress.closed = False
    if progress.block or not progress.pass_:
        tell("end")
        return
    progress.pass_, progress.block, progress.closed = progress.pass_ - 1, progress.blocks, True
    tell("end")
    progress.pass_, progress.block, progress.closed = progress.pass_ + 1, 0, False


def train_pass(
    team: Team,
    sources: Sequence[DataSource],
    readers: Sequence[Reader],
    meter: Meter,
    check: FiniteCheck,
    scores: TrainingScores,
    merged: Callable[[], None],
) -> None:
    """The blocks of the present pass that are left, of one side (source) after the other, and what
    the model does at the end of the pass. merged: is called whenever replicas are merged; the pass
    is left where `progress.stop` is set then.

    Raises:
        DivergedError: what the model has learnt is no longer finite.
    """
    progress, first, share = meter.progress, 0, 1 / len(team.replicas)
    for side, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        done = min(max(progress.block - first, 0), source.blocks)
        first += source.blocks
        blocks = reader.blocks(progress.pass_, start=done)

        def train(replica: Replica, host: HostBlock, side: int = side) -> Work:
            begun = time.perf_counter()
            block = replica.bind(host, side)
            bound = time.perf_counter()
            scored = replica is team.first and scores.due(replica, block)
            replica.update(block, partial(scores.take, replica, block) if scored else None)
            if not replica.cache.frozen:
                replica.cache.freeze()
            copy = replica.handed_over + bound - begun
            compute = replica.awaited + time.perf_counter() - bound
            nbytes = data_bytes(host)
            return Work(1, host.rows, nbytes, copy=copy * share, compute=compute * share)

        while done < source.blocks:
            flops, clock = team.flops, time.perf_counter()
            count = min(team.stretch, source.blocks - done)
            team.begin()
            rows = progress.ahead = 0
            for work in team.in_turn(meter.waiting(islice(blocks, count), reader), train):
                rows += work.rows
                progress.ahead += 1
                meter.add(work)
            done += count
            finishing = time.perf_counter()
            team.finish()
            merging = time.perf_counter()
            team.merge(complete=done == source.blocks)
            now = time.perf_counter()
            cost = Work(
                flops=team.flops - flops,
                seconds=now - clock,
                compute=merging - finishing,
                merge=now - merging,
            )
            meter.merged(team, count, rows, cost)
            check.after_block(team, progress)
            merged()
            if progress.stop and progress.block < progress.blocks:
                return
        for _ in blocks:  # none is left: this ends the reader's pass
            pass
    clock = time.perf_counter()
    team.each(lambda replica: replica.end_pass())
    seconds = time.perf_counter() - clock
    progress.seconds += seconds
    meter.add(Work(seconds=seconds, compute=seconds))
    check.now(team, progress)
    progress.closed = True
