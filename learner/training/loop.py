"""Run the passes over the training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from blocklearn.datasources import DataSource, HostBlock, Reader

from .divergence import FiniteCheck, blocks_between
from .meter import Meter
from .replicas.replica import Replica
from .scoring import TrainingScores
from .settings.evaluation import Evaluator
from .settings.progress import Progress
from .teams.team import Team

Lead = Callable[[Callable[[], None]], None]


class Training:
    """Trains replicas on the blocks of the sources, pass after pass."""

    def __init__(
        self,
        team: Team,
        sides: Sequence[tuple[DataSource, Reader]],
        progress: Progress,
        evaluator: Evaluator,
        tell: Callable[[str], None],
        heard: Callable[[], bool],
        lead: Lead,
        look: TrainingScores | None,
    ) -> None:
        """Begin at the position of `progress`.

        sides: the sources that a pass visits, with their readers.
        tell: called with "block", "pass_end" and "end".
        heard: whether "block" is of interest.
        lead: does what the worker that leads does alone.
        look: scores blocks of training now and then; None: nothing reads such scores.
        """
        self._team, self._sides, self._progress = team, sides, progress
        self._evaluator, self._tell, self._heard = evaluator, tell, heard
        self._lead, self._look = lead, look
        self._meter = Meter(team, [reader for _, reader in sides], progress)
        self._check = FiniteCheck(blocks_between(team.first, [source.shape for source, _ in sides]))

    def run(self) -> None:
        """Run the passes that are left.

        Raises:
            DivergedError: a parameter or state is no longer finite.
        """
        team, progress, evaluator = self._team, self._progress, self._evaluator
        progress.stop = team.first.converged or evaluator.exhausted
        while progress.pass_ < progress.passes and not progress.stop:
            self._meter.start()
            try:
                self._train_pass()
            finally:
                self._meter.pause()
            if progress.closed:
                progress.stop = progress.stop or team.first.converged
                self._meter.meet()
                self._lead(self._end_of_pass)
                progress.pass_, progress.block = progress.pass_ + 1, 0
                progress.closed = False
        if progress.block or not progress.pass_:
            self._meter.meet()
            self._lead(partial(self._tell, "end"))
            return
        progress.pass_, progress.block, progress.closed = progress.pass_ - 1, progress.blocks, True
        self._lead(partial(self._tell, "end"))
        progress.pass_, progress.block, progress.closed = progress.pass_ + 1, 0, False

    def _end_of_pass(self) -> None:
        """Evaluate if it is due, and tell of the end of the pass."""
        progress = self._progress
        self._evaluator.look(last=progress.stop or progress.pass_ + 1 == progress.passes)
        self._tell("pass_end")

    def _train_pass(self) -> None:
        """Train on the rest of the present pass, one side after the other; the model ends it.

        If `progress.stop` is set after a block, the pass ends early.
        """
        progress, first = self._progress, 0
        for side, (source, _) in enumerate(self._sides):
            done = min(max(progress.block - first, 0), source.blocks)
            self._train_side(side, done)
            if progress.stop and progress.block < progress.blocks:
                return
            first += source.blocks
        self._team.end_pass()
        self._team.each(Replica.finish)
        self._meter.pause()
        self._check.now(self._team, progress)
        progress.closed = True

    def _train_side(self, side: int, done: int) -> None:
        """Train on the blocks of a side, from block `done` on."""
        team, progress, (source, reader) = self._team, self._progress, self._sides[side]
        team.turn_to(side)
        own, end = team.crew.own(range(done, source.blocks)), source.blocks
        indexed = team.first.reads_index(progress.pass_, side)
        read = reader.blocks(progress.pass_, own.start, own.step, indexed=indexed)
        blocks = team.waiting(read)
        if team.total == 1:
            self._train_alone(blocks, side)
            return
        while done < end:
            count = min(team.stretch, end - done)
            stretch = range(done, done + count)
            done += count
            team.begin()
            own_blocks = islice(blocks, len(team.crew.own(stretch)))
            for _ in team.train(own_blocks, side, self._look, stretch=stretch):
                progress.ahead += 1
                self._check.rows(team, progress, progress.block + count)
            team.finish()
            team.merge(complete=done == end)
            progress.block, progress.ahead = progress.block + count, 0
            self._after(count)
            if progress.stop and progress.block < progress.blocks:
                return
        for _ in blocks:  # none is left: this ends the reader's pass
            pass

    def _train_alone(self, blocks: Iterator[HostBlock], side: int) -> None:
        """Train the only replica on blocks: nothing is merged."""
        progress = self._progress
        for _ in self._team.train(blocks, side, self._look):
            progress.block += 1
            self._check.rows(self._team, progress, progress.block)
            self._after_own(1)
            if progress.stop and progress.block < progress.blocks:
                return

    def _after(self, blocks: int) -> None:
        """Do what is due after so many blocks and their merge. The time is not that of training."""
        if self._team.crew.size > 1:
            self._after_together(blocks)
        else:
            self._after_own(blocks)

    def _after_own(self, blocks: int) -> None:
        """Do it where there is one worker."""
        progress, evaluator = self._progress, self._evaluator
        check, evaluate = self._check.due(progress, blocks), evaluator.due()
        if check or evaluate or self._heard():
            if check or evaluate:  # these wait for the device, in a time that is not counted
                self._team.each(Replica.finish)
            self._meter.pause()
            if check:
                self._check.recent(self._team, progress)
            if evaluate:
                evaluator.evaluate()
            self._tell("block")
            self._meter.start()

    def _after_together(self, blocks: int) -> None:
        """Do the same where there are several workers: they meet, and one of them decides."""
        progress, evaluator = self._progress, self._evaluator

        def decide() -> None:
            if evaluator.due():
                evaluator.evaluate()
            self._tell("block")

        self._meter.pause()
        self._meter.meet()
        if self._check.due(progress, blocks):
            self._check.recent(self._team, progress)
        self._lead(decide)
        self._meter.start()
