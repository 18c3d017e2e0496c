"""Count the work of training. Differences of counts give speeds."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub
from time import perf_counter
from typing import Literal, NamedTuple, get_args


class Work(NamedTuple):
    """Blocks of training, and their cost.

    nbytes: bytes of their data.
    flops: of all kernels.
    seconds: of training; read, copy, compute and merge are its parts.
    read: training waited for the next block.
    copy: blocks and the state of their rows were copied to the model.
    compute: model and optimizer were at work.
    merge: replicas were merged.
    ready: sum over the blocks of the share of the reader's queue that was full.

    With several replicas, copy and compute are means, and overlap with read.

    >>> before, now = Work(blocks=10, rows=80, seconds=2.0), Work(blocks=30, rows=240, seconds=4.0)
    >>> (now - before).rows_per_s
    80.0
    """

    blocks: int = 0
    rows: int = 0
    nbytes: int = 0
    flops: int = 0
    seconds: float = 0.0
    read: float = 0.0
    copy: float = 0.0
    compute: float = 0.0
    merge: float = 0.0
    ready: float = 0.0

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        """Return the sum of both."""
        return Work._make(map(add, self, other))

    def __sub__(self, other: Work) -> Work:
        """Return the work since `other`, an earlier count."""
        return Work._make(map(sub, self, other))

    @property
    def rows_per_s(self) -> float:
        """The rows per second."""
        return self._per_s(self.rows)

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes of data per second."""
        return self._per_s(self.nbytes) / 1e9

    @property
    def gflops(self) -> float:
        """10^9 floating point operations per second."""
        return self._per_s(self.flops) / 1e9

    @property
    def queue(self) -> float:
        """How full the reader's queue was on average when a block left it, 0 to 1.

        Near 0 the model waits for the data; near 1 the data wait for the model.
        """
        return self.ready / max(self.blocks, 1)

    def _per_s(self, count: int) -> float:
        return count / self.seconds if self.seconds > 0 else 0.0


def together(works: Sequence[Work]) -> Work:
    """Return the work of several workers at the same time: sums of counts, means of seconds."""
    total = sum(works[1:], works[0])
    share = 1 / len(works)
    return total._replace(
        seconds=total.seconds * share,
        read=total.read * share,
        copy=total.copy * share,
        compute=total.compute * share,
        merge=total.merge * share,
    )


Part = Literal["read", "copy", "compute", "merge"]


class Counter:
    """Counts the work of one thread in place, which makes no objects.

    seconds: by part of the work; each `lap` belongs to one.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.blocks = self.rows = self.nbytes = 0
        self.seconds: dict[Part, float] = dict.fromkeys(get_args(Part), 0.0)
        self._begun = 0.0

    def start(self) -> None:
        """Begin the first lap."""
        self._begun = perf_counter()

    def lap(self, part: Part) -> None:
        """Count the time since the last lap, or the start, as that of a part."""
        now = perf_counter()
        self.seconds[part] += now - self._begun
        self._begun = now


def counted(
    caller: Counter, counters: Sequence[Counter], flops: int = 0, ready: float = 0.0
) -> Work:
    """Return what was counted. It is asked after each block, so it makes few objects.

    caller: of the thread that asks the replicas. counters: of the replicas.
    flops, ready: what others have counted.
    """
    blocks = rows = nbytes = 0
    copy = compute = 0.0
    for counter in counters:
        blocks += counter.blocks
        rows += counter.rows
        nbytes += counter.nbytes
        copy += counter.seconds["copy"]
        compute += counter.seconds["compute"]
    each, seconds = len(counters), caller.seconds
    whole, read, merge = sum(seconds.values()), seconds["read"], seconds["merge"]
    return Work(blocks, rows, nbytes, flops, whole, read, copy / each, compute / each, merge, ready)
