"""The replicas of a run: they train in turn, and merge at fixed blocks.

Block i of a side goes to replica i mod n, and merges come after fixed blocks. So the result depends
on the number of replicas, but not on their timing. With one replica there are no threads and no
merges.

Replicas may be shared out among workers: each has a team of its own, and replica r is in the team
of worker r mod workers. What they learn has the same bits as if one process had all replicas.

Longer than 300 lines: training, merges and scores share the replicas and their threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar

from blocklearn.datasources import BlockShape, HostBlock
from blocklearn.matcache import Mat, Merge, Merger, make_merger
from blocklearn.models.score import Tally

from ...engines.crew import Crew
from ...engines.errands import Errand
from ...engines.merging import CrewMerger
from ..replicas.block_input import TRAINED_AHEAD
from ..replicas.paged_tables import Pages
from ..replicas.replica import Look, Replica
from ..settings.execution import Execution
from ..settings.work import Counter, Work, counted
from .lane import Lane, Piece
from .needed_states import NeededStates, sum_tokens, sum_up
from .needed_tables import NeededTables
from .needs import chosen_needs
from .trained_rows import TrainedRows

Result = TypeVar("Result")


class Team:
    """Replicas; if there are several, each has a thread of its own.

    execution: of each worker, such as how many blocks lie between merges.
    crew: the workers of the run, each with as many replicas.

    total: the number of replicas of all workers.
    stretch: blocks of all replicas from one merge to the next.
    """

    def __init__(self, replicas: Sequence[Replica], execution: Execution, crew: Crew) -> None:
        """Make the team. Its threads start with the first work."""
        self.replicas, self.crew = replicas, crew
        self.total = len(replicas) * crew.size
        self._weight = execution.sync_weight
        self.stretch = 1 if self.total == 1 else execution.sync_every * self.total
        self._trained = TrainedRows(crew)  # of states that all workers read
        self._paused: list[Mapping[str, Any]] = []  # of all workers, since `meet`
        lanes = len(replicas) if len(replicas) > 1 else 0
        self._lanes = [Lane(f"blocklearn-model-{i}") for i in range(lanes)]
        self.apart = False  # whether replicas may differ
        self.counter = Counter() if self._lanes else self.first.counter  # of the calling thread
        self._counters = [replica.counter for replica in replicas]
        self._merger: Merger | None = None
        needs = chosen_needs(self.first, execution, crew.size)
        self._needed = None if needs is None else NeededTables(self.first, crew, needs)
        sides = range(len(self.first.trained) if crew.size > 1 else 0)
        self._needed_states = [NeededStates(self.first, crew, side) for side in sides]
        self._tally, self._rows_scored = Tally({}), -1

    @property
    def first(self) -> Replica:
        """The replica that stands for all after a complete merge."""
        return self.replicas[0]

    def in_turn(
        self, blocks: Iterable[Piece], work: Callable[[Replica, Piece], Result]
    ) -> Iterator[Result]:
        """Yield `work(replica, block)` for each block, given to the replicas in turn.

        A replica gets its next block when the result of the one before was used. An error of `work`
        is raised for the earliest block, with a note that names the block and the replica.
        """
        return self._in_turn(blocks, lambda replica, block: replica.in_block(work, block), 1)

    def _in_turn(
        self,
        blocks: Iterable[Piece],
        work: Callable[[Replica, Piece], Result],
        ahead: int,
        turn: int = 0,
    ) -> Iterator[Result]:
        """Do what `in_turn` does, from the replica `turn` on.

        ahead: how many blocks each replica has at most.
        """
        if not self._lanes:
            only = self.first
            for host in blocks:
                yield _work(work, only, 0, host)
            return
        pending: deque[Errand[Result]] = deque()
        source, lanes = iter(blocks), len(self._lanes)
        try:
            while True:
                if len(pending) == ahead * lanes:
                    yield pending.popleft().result()
                if (block := next(source, None)) is None:
                    break
                replica, lane = self.replicas[turn], self._lanes[turn]
                pending.append(lane.ask(_work, work, replica, turn, block))
                turn = (turn + 1) % lanes
            while pending:
                yield pending.popleft().result()
        finally:
            for errand in pending:
                errand.wait()

    def train(
        self,
        blocks: Iterable[HostBlock],
        side: int,
        look: Look | None = None,
        *,
        stretch: range = range(0),
    ) -> Iterator[None]:
        """Train the replicas on `blocks` in turn, and yield after each block.

        While a replica is at work, its next block waits for it already. Block i of a pass is of
        replica i mod replicas, among those of all workers: so it is where the states of its rows
        are, wherever a pass resumes.

        look: shown blocks of the first replica; see `Replica.train`.
        stretch: where there are several replicas, which blocks of the pass all workers train on.
        """
        looking = self.first if self.crew.leads else None
        states = [each for each in self.first.model.states.values() if each.side == side]
        read = [each for each in states if each.whole] if self.crew.size > 1 else []
        fetching = self._needed_states[side] if self._needed_states else None
        if read:
            self._trained.begin(read, stretch, early=not fetching and self._needed is None)

        def train(replica: Replica, host: HostBlock) -> None:
            replica.train(host, side, look if replica is looking else None)
            if read:
                self._trained.add(host.index, host.row_ids[: host.rows])

        rounds = -(-len(stretch) // self.crew.size)  # of the worker that has the most blocks
        if self._needed is not None:
            blocks = self._brought(self._needed.brought(iter(blocks), rounds))
        if fetching:
            blocks = self._brought(fetching.brought(iter(blocks), rounds))
        turn = self.crew.own(stretch).start // self.crew.size % len(self.replicas)
        return self._in_turn(blocks, train, TRAINED_AHEAD, turn)

    def _brought(self, blocks: Iterable[HostBlock]) -> Iterator[HostBlock]:
        """Yield the same blocks, and count the time that their rows take as merging."""
        for block in blocks:
            self.counter.lap("merge")
            yield block
            self.counter.lap("compute")
        self.counter.lap("merge")

    def waiting(self, blocks: Iterator[HostBlock]) -> Iterator[HostBlock]:
        """Yield the same blocks, and count the time until each arrives as reading."""
        counter = self.counter
        while True:
            counter.lap("compute")  # of several replicas, which work at the same time
            block = next(blocks, None)
            counter.lap("read")
            if block is None:
                return
            yield block

    def each(self, work: Callable[[Replica], Any]) -> None:
        """Call `work(replica)` for all replicas at once."""
        if not self._lanes:
            work(self.first)
            return
        errands: list[Errand[Any]] = []
        try:
            for lane, replica in zip(self._lanes, self.replicas, strict=True):
                errands.append(lane.ask(work, replica))
        finally:
            for errand in errands:
                errand.wait()
        for errand in errands:
            errand.result()

    def turn_to(self, side: int) -> None:
        """Expect blocks of this side: see `Replica.turn_to`."""
        self.each(lambda replica: replica.turn_to(side))
        sum_up(self.replicas, self.crew, side)

    def begin(self) -> None:
        """Save the sums before replicas diverge; they must be equal in all replicas."""
        if self.total > 1:
            self._merging().begin(mats for rule, mats in self._learned() if rule == "sum")

    def finish(self) -> None:
        """Wait until devices are done with all blocks, if a merge follows."""
        if self.total > 1:
            self.each(Replica.finish)

    def merge(self, *, complete: bool) -> None:
        """Merge the replicas. complete: until they are equal, whatever the `sync_weight` is.

        After a complete merge, all workers have the states of rows that are read as tables.
        """
        if self.total == 1:
            return
        self.counter.lap("compute")
        self._trained.wait()
        if self._needed is None:
            self.each(lambda replica: replica.learned.settle())
        else:
            self._needed.merge()
        paused = [replica.learned.pause() for replica in self.replicas]
        weight = 1.0 if complete else self._weight
        self._merging().merge(self._learned(), weight)
        for replica, numbers in zip(self.replicas, paused, strict=True):
            replica.learned.resume(numbers)
        if self._needed is not None:
            self._needed.measure()
        self.apart = weight < 1.0
        if complete:
            self.gather(early=True)
        self.counter.lap("merge")

    @property
    def places_blocks(self) -> bool:
        """Whether blocks of training are given places in tables here, not by their reader."""
        return self._needed is not None and self._needed.places_blocks

    @property
    def owned(self) -> NeededTables | None:
        """The tables in files whose rows belong to several workers; None: there are none.

        They are all that was learned with a row for each row or column of the data.
        """
        needed = self._needed
        alone = needed is not None and needed.in_files and not self.first.model.states
        return needed if alone else None

    @property
    def table_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of tables that lie apart, by name."""
        files = self.first.files
        return {} if files is None else files.kept().shapes

    def keep(self, pages: Pages | None) -> None:
        """Let owners keep the rows of a state that all workers were given: see `NeededTables`."""
        if self._needed is not None:
            self._needed.keep(pages)

    def end_pass(self) -> None:
        """Let replicas finish a pass."""
        sum_tokens(self.replicas, self.crew)
        with nullcontext() if self._needed is None else self._needed.ending():
            self.each(Replica.end_pass)

    def gather(self, *, early: bool = False) -> None:
        """Give all workers the rows of tables that others changed: states, and what is needed.

        early: before anybody reads whole tables; those which take long are left for later.
        """
        needed = self._needed if self._needed is not None and self._needed.behind else None
        if early and self.places_blocks:
            needed = None
        if not self._trained.pending and needed is None:
            return
        with self.crew.ordered("gather"):
            if needed is not None:
                needed.gather()
            if self._trained.pending:
                self._trained.give()

    def meet(self, message: Any = None) -> list[Any]:
        """Return messages for JSON of all workers, and note how their optimizers are paused."""
        if self.crew.size == 1:
            return [message]
        own = [replica.learned.pause() for replica in self.replicas]
        found = self.crew.meet([message, own])
        self._paused = [of[i] for i in range(len(own)) for _, of in found]
        return [message for message, _ in found]

    def paused(self) -> list[Mapping[str, Any]]:
        """Return how the optimizer of every replica is paused: those of all workers."""
        return list(self._paused) or [replica.learned.pause() for replica in self.replicas]

    def resume(self, paused: Sequence[Mapping[str, Any]]) -> None:
        """Resume the optimizers, from the pauses of all replicas, or of fewer: they repeat."""
        for number, replica in self.numbered():
            replica.learned.resume(paused[number % len(paused)])
        self._paused = list(paused) if self.crew.size > 1 else []

    def numbered(self) -> Iterator[tuple[int, Replica]]:
        """Yield the number of each replica of this worker, among those of all, and the replica."""
        for i, replica in enumerate(self.replicas):
            yield i * self.crew.size + self.crew.rank, replica

    def _learned(self) -> Iterator[tuple[Merge, list[Mat]]]:
        """Yield the rule of each Mat that is merged whole, and that Mat of all replicas."""
        found = [replica.learned.mats() for replica in self.replicas]
        apart = () if self._needed is None else self._needed.names
        for name in [name for name in found[0] if name not in apart]:
            yield self.first.learned.rule(name), [mats[name] for mats in found]

    def _merging(self) -> Merger:
        if self._merger is None and self.crew.size > 1:
            self._merger = CrewMerger(self.crew)
        elif self._merger is None:
            caches = [replica.cache for replica in self.replicas]
            self._merger = make_merger(caches, self.first.learned.merged())
        return self._merger

    @contextmanager
    def exact(self) -> Iterator[None]:
        """Make parameters and row state exact and equal in a `with` statement.

        It leaves no trace in later training.
        """
        self.gather()
        with ExitStack() as stack:
            for replica in self.replicas:
                stack.enter_context(replica.learned.exact(whole=self.apart))
            if self.apart:  # sums are merged already
                parameters = self.first.model.parameters
                means = [name for name in parameters if self.first.learned.rule(name) == "mean"]
                with self.crew.ordered("exact"):
                    self._merging().merge(
                        ("mean", [r.model.parameters[n] for r in self.replicas]) for n in means
                    )
                for replica in self.replicas:
                    replica.model.resumed()
            for replica in self.replicas:
                replica.refresh()
            yield

    def given(self, *, apart: bool) -> None:
        """Note that all workers were given the same state. apart: whether replicas may differ."""
        self.apart = apart
        if self._needed is not None:
            self._needed.alike()

    def tally(self, rows: int) -> Tally:
        """Return memory for the scores of so many rows; it is kept and reused."""
        if rows > self._rows_scored:
            self._tally = Tally({})  # frees the smaller one before the larger one is allocated
            model = self.first.model
            self._tally = Tally(model.score_totals(rows), model.data_scores())
            self._tally.clear()
            self._rows_scored = rows
        return self._tally

    def make_ready(self, shape: BlockShape, side: int = 0) -> None:
        """Make room for blocks of another source."""
        for replica in self.replicas:
            replica.intakes[side].widen(shape)

    def work(self, flops: int = 0, ready: float = 0.0) -> Work:
        """Return the work of training so far, with operations and the reader's queue as given."""
        return counted(self.counter, self._counters, flops, ready)

    @property
    def flops(self) -> int:
        """The floating point operations of all kernels so far."""
        return sum([replica.cache.work for replica in self.replicas])

    @property
    def nbytes(self) -> int:
        """The bytes of all caches."""
        return sum([replica.cache.nbytes for replica in self.replicas])

    @property
    def late_allocations(self) -> int:
        """The allocations after warm-up."""
        return sum([replica.cache.late_allocations for replica in self.replicas])

    @property
    def lost(self) -> list[str]:
        """The devices that failed."""
        return sorted({r.device for r in self.replicas if r.cache.backend.lost})

    def rest(self) -> None:
        """Stop threads of kernels until they are needed again."""
        for replica in self.replicas:
            replica.cache.backend.rest()

    def close(self) -> None:
        """Stop the threads and free the memory."""
        for lane in self._lanes:
            lane.close()
        self._trained.close()
        if self._needed is not None:
            self._needed.close()
        if self._merger is not None:
            self._merger.close()
        for replica in self.replicas:
            replica.close()


def _work(
    work: Callable[[Replica, Piece], Result], replica: Replica, number: int, block: Piece
) -> Result:
    try:
        return work(replica, block)
    except Exception as error:
        error.add_note(f"in block {block.index} of pass {block.pass_}, replica {number}")
        raise
