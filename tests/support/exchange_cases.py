"""Merges of tables of hostile shapes, which workers of any engine make, and NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.engines.exchange import Exchange, Room
from blocklearn.learner.engines.lines import LINE, Lines
from blocklearn.learner.engines.nested import Nested
from blocklearn.learner.engines.sparse_merging import compare, merge_alike, merge_differing
from blocklearn.matcache import Merge

Tables = list[NDArray[Any]]


class Case(NamedTuple):
    """Tables that workers merge by lines.

    - shapes: of the tables of each replica.
    - each: replicas of a worker.
    - touched: share of the rows that a replica changes, others than its neighbours'.
    - piece: numbers that all workers merge at a time.
    """

    rule: Merge
    dtype: str
    shapes: Sequence[tuple[int, int]]
    each: int = 1
    touched: float = 0.1
    piece: int = 2**22
    seed: int = 0

    def before(self) -> Tables:
        """Draw the tables that all replicas start from."""
        rng = np.random.default_rng(self.seed)
        return [rng.normal(size=shape).astype(self.dtype) for shape in self.shapes]

    def after(self, replica: int) -> Tables:
        """Return the tables of a replica after its blocks."""
        rng, tables = np.random.default_rng([self.seed, replica]), self.before()
        for table in tables:
            rows = rng.random(len(table)) < self.touched
            table[rows] += rng.normal(size=(rows.sum(), table.shape[1])).astype(self.dtype)
        return tables


SHAPES: list[list[tuple[int, int]]] = [
    [(1, 1)],  # fewer lines than workers: most own none
    [(1, 3000)],  # one row
    [(3000, 1)],
    [(0, 7), (40, LINE), (0, LINE)],  # tables without rows
    [(50, LINE + 1), (1, LINE - 1), (7, LINE)],  # ragged last lines
]
CASES = [
    Case(rule, "f8" if number % 2 else "f4", shapes, each, touched, piece=7 * LINE)
    for number, (rule, shapes, (each, touched)) in enumerate(
        product(["mean", "sum", "max"], SHAPES, [(1, 0.0), (2, 0.1), (1, 1.0)])
    )
]
"""Each dtype with each rule, each shape and each share of rows."""


def merged(case: Case, own: Exchange, degrees: Sequence[int] = ()) -> list[Tables]:
    """Return the merged tables of each replica of this worker. degrees: of layers, if any."""
    replicas = [case.after(own.rank + i * own.size) for i in range(case.each)]
    lines, base = [Lines(tables) for tables in replicas], Lines(case.before())
    swap = Nested(own, degrees).exchange if degrees else own.exchange
    found = compare(lines, swap, own.rank, own.size)
    old = base if case.rule == "sum" else None
    merge_differing(case.rule, lines, old, found, swap, own.rank, case.piece)
    merge_alike(case.rule, lines, old, found, case.each * own.size, case.piece)
    return replicas


def by_numpy(case: Case, workers: int) -> Tables:
    """Return what all replicas must have then: in float64, in the order of the replicas."""
    found = []
    replicas = [case.after(replica) for replica in range(case.each * workers)]
    for i, before in enumerate(case.before()):
        parts = [tables[i] for tables in replicas]
        if case.rule == "max":
            found.append(np.maximum.reduce(parts))
            continue
        start = before if case.rule == "sum" else np.zeros_like(before)
        total = start.astype(np.float64)
        for part in parts:
            total += part.astype(np.float64) - start.astype(np.float64)
        scale = 1.0 if case.rule == "sum" else 1.0 / len(parts)
        found.append((scale * total).astype(case.dtype))
    return found


def bits(tables: Tables) -> list[bytes]:
    """Return what is compared."""
    return [table.tobytes() for table in tables]


def check(found: list[list[Tables]], cases: Sequence[Case]) -> None:
    """Compare what each worker has of each case with NumPy. found: by rank."""
    for rank, own in enumerate(found):
        for case, replicas in zip(cases, own, strict=True):
            expected = bits(by_numpy(case, len(found)))
            assert len(replicas) == case.each
            for tables in replicas:
                assert bits(tables) == expected, f"worker {rank}: {case}"


def rooms(size: int) -> list[Room]:
    """Return rooms of hostile shapes for so many workers, whose numbers tell their places."""
    alike = [slice(5 * rank, 5 * rank + 5) for rank in range(size)]
    ragged = [slice(rank * (rank - 1) // 2, rank * (rank + 1) // 2) for rank in range(size)]
    cases = [(3, alike), (1, ragged), (1, [slice(0, 0)] * size), (2, alike[1:] + alike[:1])]
    found = []
    for rounds, parts in cases:
        shape = rounds, max(part.stop for part in parts)
        found.append(Room(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1.0, parts))
    return found


def filled(own: Exchange) -> list[bytes]:
    """Return rooms of which this worker had its own part only, once all have filled them."""
    found = []
    for whole, parts in rooms(own.size):
        mine = np.zeros_like(whole)
        mine[:, parts[own.rank]] = whole[:, parts[own.rank]]
        own.fill(Room(mine, parts))
        found.append(mine.tobytes())
    return found
