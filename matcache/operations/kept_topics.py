"""Draw new topics for tokens whose topics are kept, and move their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.launching import launch
from ..containers.matrices import Mat, SparseMat
from ..containers.patterns import values_container
from ..containers.slots import Slot
from ..errors import ShapeError, source_line

MOST = 2**31 - 1  # topics


def type_of_topics(topics: int) -> type[np.uint16 | np.uint32]:
    """Return the dtype of numbers of topics: two bytes, or four from 65,536 topics on.

    Its largest number, like any from `topics` on, says that a token has no topic yet.
    """
    return np.uint16 if topics < 2**16 else np.uint32


@dataclass(frozen=True)
class Redraws:
    """Operands of `redraw_topics` and its results `first` and `old`, for a launch."""

    X: SparseMat
    topics: Mat
    table: Mat
    one: Mat
    alpha: Mat
    row_ids: Mat
    key: Mat
    sweeps: int
    again: int
    extra: Mat | None
    first: Slot
    old: Slot

    def scratch(self, name: str, dtype: Any, more: int = 0) -> Slot:
        """Return a container with one number for each token, and `more`."""
        key = ("redraw_topics", self.old.guid, name)
        shape = (1, self.topics.shape[1] + more)
        return self.X.cache.result(key, shape, dtype, f"{name} (sampler)")

    @property
    def flops_each(self) -> int:
        """The floating point operations of a token, as if each topic took two."""
        return 2 * self.table.shape[1]


@dataclass(frozen=True)
class Moves:
    """Tokens of X that moved from topic to topic.

    first: number of each entry's first token [nnz].
    old, topics: topics of the tokens before and after [1 x tokens].
    """

    X: SparseMat
    first: Slot
    old: Slot
    topics: Mat

    def apply(self, counts: Mat, totals: Mat) -> None:
        """Move the counts of the tokens, in place. Whole numbers stay exact.

        counts: float32 [columns x topics], tokens of each word in each topic.
        totals: float64 [1 x topics], tokens of each topic.
        """
        X, where = self.X, source_line()
        shape = (X.shape[1], totals.shape[1])
        expected = [(counts, shape, np.float32), (totals, (1, shape[1]), np.float64)]
        _check("Moves.apply", expected)
        for mat in (counts, totals):
            mat.slot.written(where)
            mat.follow()
        operands = (X.pattern, X.slot, self.first, self.old, self.topics.slot)
        launch(X.cache, "move_counts", *operands, counts.slot, totals.slot)


def redraw_topics(
    X: SparseMat, topics: Mat, table: Mat, one: Mat, alpha: Mat, row_ids: Mat, key: Mat, *,
    sweeps: int, again: int = 1, extra: Mat | None = None, lists: bool = False,
) -> Moves:  # fmt: skip
    """Draw a new topic for each token by Gibbs sweeps over each row, phi held fixed.

    p(k) is proportional to (tokens of the row in k, without this one, + alpha_k) phi_wk. In phi,
    too, the token is left out of its topic: `(phi - one) / (1 - one)` replaces phi there. Once a
    sweep has moved the token, phi still counts it where it was, as it does other tokens.

    X: float32 counts [n x m], whole numbers.
    topics: [1 x tokens], of `type_of_topics`, changed in place, row after row and entry after
        entry. Where a row begins with k or more, its tokens have none.
    table: float32 [m x k], phi, positive; or with `extra`, counts. Rows of words that occur are
        read.
    one: float32 [1 x k], what one token adds to phi, below 1.
    alpha: float32 [1 x k].
    row_ids: int64 [n x 1].
    key: int64 [1 x 3] (seed, pass, block).
    sweeps, again: over rows that have no topics yet, at least one, and over other rows.
    extra: float32 [m x 1], on a GPU with `lists`: phi is (table + extra) * one. None: it is the
        table.
    lists: whether to sum over the topics that a row has, and those of a word once for all rows.
        This suits many topics. The distribution is the same, the draws differ.

    A row's draws depend only on (seed, pass), its row id, its topics and the tables. Griffiths,
    Steyvers, PNAS 2004, eq. 5, with counts of words that change after each block.
    """
    cache, k = X.cache, table.shape[1]
    single, whole, kind = np.float32, np.int64, type_of_topics(k)
    _check(
        "redraw_topics",
        [
            (X, X.shape, single),
            (topics, (1, topics.shape[1]), kind),
            (table, (X.shape[1], k), single),
            (one, (1, k), single),
            (alpha, (1, k), single),
            (row_ids, (X.shape[0], 1), whole),
            (key, (1, 3), whole),
            *([] if extra is None else [(extra, (X.shape[1], 1), single)]),
        ],
    )
    if not 1 <= k <= MOST:
        raise ShapeError(f"redraw_topics: topics={k:,}: must be 1 to {MOST:,}.")
    first, old = _results(X, topics)
    draws = Redraws(X, topics, table, one, alpha, row_ids, key, sweeps, again, extra, first, old)
    launch(cache, "redraw_lists" if lists else "redraw_topics", draws)
    return Moves(X, first, old, topics)


def begin_topics(X: SparseMat, topics: Mat, key: Mat, many: int) -> Moves:
    """Put each of the first `many` rows of a pass into a topic of its own, if it has no topics.

    X, topics, key: see `redraw_topics`.
    many: number of topics.
    """
    expected = [(X, X.shape, np.float32), (topics, (1, topics.shape[1]), type_of_topics(many))]
    _check("begin_topics", [*expected, (key, (1, 3), np.int64)])
    first, old = _results(X, topics)
    launch(X.cache, "begin_topics", X, topics, key, first, old, many)
    return Moves(X, first, old, topics)


def _results(X: SparseMat, topics: Mat) -> tuple[Slot, Slot]:
    """Return containers of `first` and `old`, see `Moves`, and note that topics change."""
    cache, identity = X.cache, ("redraw_topics", X.guid, topics.guid)
    first = values_container(cache, (*identity, "first"), X.pattern, np.int64, "tokens of entries")
    old = cache.result((*identity, "old"), topics.shape, topics.dtype, "topics before the sweep")
    where = source_line()
    for slot in (first, old, topics.slot):
        slot.written(where)
    topics.follow()
    return first, old


def gains(cache: MatCache, old: Slot, shape: tuple[int, int], dtype: Any) -> Slot:
    """Return the container of what topics gain, for launches: [parts x topics]."""
    label = "tokens that topics gain"
    return cache.result((label, old.guid), shape, dtype, label)


def _check(name: str, expected: list[tuple[Mat, tuple[int, int], Any]]) -> None:
    """Raise ShapeError for a stale matrix, and for one of another shape or dtype."""
    for mat, shape, dtype in expected:
        mat.mat()
        if mat.shape != shape or mat.dtype != dtype:
            raise ShapeError(
                f"{name} at {source_line()}: {mat.label} is {mat.shape} {mat.dtype}, expected "
                f"{shape} {np.dtype(dtype)}."
            )
