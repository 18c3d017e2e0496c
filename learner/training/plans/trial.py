"""Estimate the cost of training from a few blocks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from blocklearn.datasources import DataSource, HostBlock

from ..replicas.replica import Replica
from ..teams.reading import reader_of
from ..teams.team import Team


@dataclass(frozen=True)
class Trial:
    """The estimated cost of training.

    passes: for each phase of the model, its first pass, and the seconds of a pass.
    evaluation: seconds of one evaluation; 0 without eval data.
    blocks: number of blocks tried.
    """

    passes: list[tuple[int, float]]
    evaluation: float
    blocks: int

    def seconds(self, passes: int) -> float:
        """Return the seconds of so many passes, without evaluations."""
        ends = [start for start, _ in self.passes[1:]] + [passes]
        return sum(
            seconds * max(0, min(end, passes) - start)
            for (start, seconds), end in zip(self.passes, ends, strict=True)
        )


def try_blocks(
    team: Team, sources: Sequence[DataSource], eval: DataSource | None, blocks: int
) -> Trial:
    """Train and score `team` on some blocks, and return the cost.

    Trains in each phase of the model and on each side.

    blocks: for each replica, each time.
    """
    passes, tried = [], 0
    for replica in team.replicas:
        replica.cache.backend.compile_later()
    for start in team.first.model.phases():
        seconds = 0.0
        for side, source in enumerate(sources):
            team.turn_to(side)
            with reader_of(team, source, "train", side) as read:
                wanted = islice(read.blocks(start), blocks * len(team.replicas))
                each, count = _each(team, team.train(wanted, side))
            seconds += each * source.blocks
            tried += count
        passes.append((start, seconds))
    if eval is None:
        return Trial(passes, 0.0, tried)

    def score(replica: Replica, host: HostBlock) -> None:
        block = replica.bind(host, new=replica.model.scores_new_rows)
        for part in replica.score(block).values():
            part.read()

    with team.exact(), reader_of(team, eval, "score") as read:
        wanted = islice(read.blocks(0), blocks * len(team.replicas))
        each, _ = _each(team, team.in_turn(wanted, score))
    return Trial(passes, each * eval.blocks, tried)


def _each(team: Team, results: Iterable[None]) -> tuple[float, int]:
    """Return the seconds per block of all replicas together, and the blocks done.

    results: yields after each block.

    The first block of each replica finds processor caches empty, and counts only if it is alone.
    """
    begun, moments = time.perf_counter(), []
    for _ in results:
        moments.append(time.perf_counter() - begun)
    done, warm = len(moments), len(team.replicas)
    if done > warm:
        return (moments[-1] - moments[warm - 1]) / (done - warm), done
    return moments[-1] / done, done
