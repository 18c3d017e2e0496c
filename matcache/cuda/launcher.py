"""Queue the launches of a block's update, and run them as one CUDA graph.

The Python code of an update may run for every block, set numbers and take branches. Its launches
are compared with earlier sequences. A sequence that occurs twice is captured as a CUDA
graph, and later run by one call. Other sequences are launched one by one. Nothing is assumed of a
model: a graph only replaces exactly the same launches.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from .driver import Bytes, Driver, Factorization, Product, Triangular

log = logging.getLogger("blocklearn.cuda")

FEWEST = 3  # least launches that justify a graph
MOST_GRAPHS = 32  # most graphs of one backend
REMEMBERED = 64  # most sequences, seen once, that are remembered
PATIENCE = 24  # new sequences in a row before graphs are given up
FAILURES = 3  # failed captures before graphs are given up


class Kernel(NamedTuple):
    """A launch of one of the driver's functions."""

    function: Any
    grid: int
    block: int
    args: tuple[Any, ...]


class Clear(NamedTuple):
    """Sets bytes to zero."""

    address: int
    nbytes: int


class CopyIn(NamedTuple):
    """Copies from the host's staging memory: buffer `side`, from `start` on."""

    address: int
    side: int
    start: int
    nbytes: int


class Repeated:
    """Launches that follow one another, as one step. Steps are equal only if they are this one."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        """Keep the launches, none of which is a `Repeated`."""
        self.steps = steps
        self.count = len(steps)


Step = Kernel | Clear | CopyIn | Product | Triangular | Factorization | Repeated


class Asked:
    """What was asked of a launcher; see `Launcher.collecting`.

    steps: None if some were run meanwhile, so that they cannot be one step.
    """

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] | None = None


class Launcher:
    """Runs steps on one stream, in order.

    stage: the staging memory, by side.
    replays: number of graphs handed to the driver.
    launches: number of single steps handed to the driver.
    """

    def __init__(self, driver: Driver, stream: Any, stage: list[Bytes], *, graphs: bool) -> None:
        """Start with an empty queue. `graphs`: whether sequences are captured."""
        self.driver, self.stream, self.stage = driver, stream, stage
        self.graphs = graphs
        self.queueing = False
        self.replays = self.launches = 0
        self._queue: list[Step] = []
        self._emptied = 0  # times
        self._where: list[str] = []  # the source line of each step
        self._captured: dict[tuple[Step, ...], Any] = {}
        self._seen: OrderedDict[tuple[Step, ...], list[str]] = OrderedDict()
        self._new = 0  # new sequences in a row
        self._failed = 0  # captures
        self.before: Callable[[], None] = lambda: None  # called before anything runs

    def add(self, step: Step, where: str) -> None:
        """Run `step` after all others: now, or with the rest of the queue.

        where: its source line.
        """
        self._queue.append(step)
        self._where.append(where)
        if not self.queueing:
            self.flush(whole=False)

    @contextmanager
    def collecting(self) -> Iterator[Asked]:
        """Yield what is asked for within this `with` block; its steps are there at the end."""
        asked, first, emptied = Asked(), len(self._queue), self._emptied
        yield asked
        if self.queueing and emptied == self._emptied:
            asked.steps = tuple(self._queue[first:])

    def add_apart(self, step: Step) -> None:
        """Run a step that no graph can hold, after all others."""
        self.flush()
        self.before()
        self._issue((step,))

    def flush(self, *, whole: bool = True) -> None:
        """Run the queued steps.

        whole: as a graph, if the sequence is known.
        """
        if not self._queue:
            return
        steps, where = tuple(self._queue), self._where
        self._queue, self._where = [], []
        self._emptied += 1
        self.before()
        graph = None
        if whole and self.graphs:
            graph = self._captured.get(steps)
            if graph is None and _count(steps) >= FEWEST:
                graph = self._met(steps, where)
        if graph is None:
            self._issue(steps)
            return
        self._new = 0
        self.driver.launch_graph(graph, self.stream)
        self.replays += 1

    def _issue(self, steps: tuple[Step, ...]) -> None:
        driver, stream = self.driver, self.stream
        for step in _single(steps):
            match step:
                case Kernel():
                    driver.launch(step.function, step.grid, step.block, step.args, stream)
                case CopyIn(address, side, start, nbytes):
                    driver.copy_in(address, self.stage[side][start : start + nbytes], stream)
                case Clear():
                    driver.clear(step.address, step.nbytes, stream)
                case Product():
                    driver.product(step, stream)
                case Triangular():
                    driver.triangular(step, stream)
                case Factorization():
                    driver.factorize(step, stream)
        self.launches += _count(steps)

    def _met(self, steps: tuple[Step, ...], where: list[str]) -> Any:
        """Return the graph of steps that are met again, and remember new ones."""
        graph = None
        if steps in self._seen and len(self._captured) < MOST_GRAPHS:
            graph = self._capture(steps)
        if graph is None:
            self._remember(steps, where)
        return graph

    def _capture(self, steps: tuple[Step, ...]) -> Any:
        """Return the graph of the steps, or None if capturing failed.

        It fails when another part of the process waits for the whole device, or uses its default
        stream.
        """
        before = self.launches
        try:
            graph = self._noted(steps)
        except RuntimeError as error:
            self._failed += 1
            if self._failed == FAILURES:
                self.graphs = False
                log.warning("Kernels are launched one by one, without CUDA graphs: %s", error)
            return None
        finally:
            self.launches = before
        self._captured[steps] = graph
        del self._seen[steps]
        return graph

    def _noted(self, steps: tuple[Step, ...]) -> Any:
        self.driver.begin_capture(self.stream)
        try:
            self._issue(steps)
        except BaseException:
            with suppress(RuntimeError):  # the first error is the one to tell
                self.driver.end_capture(self.stream)
            raise
        return self.driver.end_capture(self.stream)

    def _remember(self, steps: tuple[Step, ...], where: list[str]) -> None:
        self._new += 1
        if self._new > PATIENCE:
            self._give_up(steps, where)
        self._seen[steps] = where
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def _give_up(self, steps: tuple[Step, ...], where: list[str]) -> None:
        """Launch one by one from now on; warn which step differs between sequences."""
        self.graphs = False
        nearest = max(self._seen, key=lambda other: _agreement(other, steps), default=())
        place = _agreement(nearest, steps)
        line = where[place] if place < len(where) else "the end of the update"
        log.warning(
            "%d updates in a row launched something new, last at %s: a number that changes belongs "
            "in a Scalar, a choice on the device (where). Kernels are launched one by one, without "
            "CUDA graphs.",
            self._new,
            line,
        )


def _single(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps, those of a `Repeated` one by one."""
    for step in steps:
        if isinstance(step, Repeated):
            yield from step.steps
        else:
            yield step


def _count(steps: tuple[Step, ...]) -> int:
    """Return how many launches the steps are, those of a `Repeated` one by one."""
    found = 0
    for step in steps:
        found += step.count if isinstance(step, Repeated) else 1
    return found


def _agreement(a: tuple[Step, ...], b: tuple[Step, ...]) -> int:
    """Return how many leading steps are equal."""
    same = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        same += 1
    return same
