"""Count the work of training. Differences of counts give speeds."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Work:
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

    def __add__(self, other: Work) -> Work:
        """Return the sum of both."""
        return Work(*map(add, _numbers(self), _numbers(other)))

    def __sub__(self, other: Work) -> Work:
        """Return the work since `other`, an earlier count."""
        return Work(*map(sub, _numbers(self), _numbers(other)))

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


_numbers = attrgetter(*(f.name for f in fields(Work)))


Part = Literal["copy", "compute", "merge"]
PARTS: tuple[Part, ...] = ("copy", "compute", "merge")


class Stopwatch:
    """Measures seconds by part of the work: `with watch.part("copy"): ...`.

    Parts do not nest.
    """

    def __init__(self) -> None:
        """Start with no seconds."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._part, self._begun = PARTS[0], 0.0

    def part(self, name: Part) -> Self:
        """Count the seconds of a `with` statement as those of the part `name`."""
        self._part = name
        return self

    def take(self) -> Work:
        """Return the seconds of each part since the last call."""
        taken, self._seconds = self._seconds, dict.fromkeys(PARTS, 0.0)
        return Work(copy=taken["copy"], compute=taken["compute"], merge=taken["merge"])

    def __enter__(self) -> None:
        """Begin a part."""
        self._begun = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        """End the part that was begun."""
        self._seconds[self._part] += time.perf_counter() - self._begun
