"""Run the passes over the training data, and measure their speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from blocklearn.datasources import DataSource, HostBlock, Reader

from .divergence import FiniteCheck, blocks_between
from .evaluation import Evaluator
from .progress import Progress
from .replica import Replica
from .scoring import TrainingScores
from .team import Team
from .work import Stopwatch, Work


class Meter:
    """Counts what training does, into a `Progress`."""

    def __init__(self, progress: Progress) -> None:
        """Count from zero: speeds are of this process, without the run that it resumes."""
        self.progress = progress
        self.watch = Stopwatch()
        self._before = progress.work
        self._rows = 0  # of the blocks since the last merge

    def waiting(self, blocks: Iterator[HostBlock], reader: Reader) -> Iterator[HostBlock]:
        """Yield the same blocks, and count the time until each arrives as reading."""
        while True:
            ready, clock = reader.ready, time.perf_counter()
            block = next(blocks, None)
            waited = time.perf_counter() - clock
            if block is None:
                return
            self.progress.work += Work(read=waited, ready=ready)
            yield block

    def trained(self, work: Work) -> None:
        """Count one block that a replica has trained on."""
        self._rows += work.rows
        self.progress.ahead += 1
        self.progress.work += work

    @contextmanager
    def stretch(self, team: Team) -> Iterator[None]:
        """Count the blocks of a `with` statement, which lie between two merges."""
        progress = self.progress
        self._rows = progress.ahead = 0
        flops, clock = team.flops, time.perf_counter()
        yield
        seconds = time.perf_counter() - clock
        progress.block, progress.ahead = progress.block + progress.ahead, 0
        progress.rows += self._rows
        self._add(seconds, team.flops - flops)
        done = progress.work - self._before
        progress.rows_per_s, progress.gflops = done.rows_per_s, done.gflops
        progress.cache_bytes = team.nbytes
        if team.first.device != "cpu":
            progress.device_bytes = progress.cache_bytes
        progress.allocations_after_warmup = team.late_allocations

    @contextmanager
    def end_of_pass(self) -> Iterator[None]:
        """Count the work of the model at the end of a pass."""
        clock = time.perf_counter()
        self.watch.start()
        yield
        self.watch.lap("compute")
        self._add(time.perf_counter() - clock)

    def _add(self, seconds: float, flops: int = 0) -> None:
        self.progress.seconds += seconds
        self.progress.work += self.watch.take(flops=flops, seconds=seconds)


def train_passes(
    team: Team,
    sources: Sequence[DataSource],
    readers: Sequence[Reader],
    progress: Progress,
    evaluator: Evaluator,
    tell: Callable[[str], None],
) -> None:
    """Run the passes that are left.

    tell: called with "block", "pass_end" and "end".

    Raises:
        DivergedError: a parameter or state is no longer finite.
    """
    meter, scores = Meter(progress), TrainingScores(progress)
    check = FiniteCheck(blocks_between(team.first, [source.shape for source in sources]))

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
    """Train on the rest of the present pass, one side (source) after the other.

    Then the model ends the pass.

    merged: called after each merge of the replicas. If `progress.stop` is set then, the pass ends
        early.

    Raises:
        DivergedError: a parameter or state is no longer finite.
    """
    progress, first = meter.progress, 0
    for side, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        done = min(max(progress.block - first, 0), source.blocks)
        first += source.blocks
        blocks = meter.waiting(reader.blocks(progress.pass_, start=done), reader)
        while done < source.blocks:
            count = min(team.stretch, source.blocks - done)
            done += count
            with meter.stretch(team):
                team.begin()
                for work in team.train(islice(blocks, count), side, scores):
                    meter.trained(work)
                meter.watch.start()
                team.finish()
                meter.watch.lap("compute")
                team.merge(complete=done == source.blocks)
                meter.watch.lap("merge")
            check.after_block(team, progress, count)
            merged()
            if progress.stop and progress.block < progress.blocks:
                return
        for _ in blocks:  # none is left: this ends the reader's pass
            pass
    with meter.end_of_pass():
        team.each(Replica.end_pass)
    check.now(team, progress)
    progress.closed = True
