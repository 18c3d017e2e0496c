"""Score how well held-out items are ranked, by the lists of a sample of users."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from blocklearn.answers import answered
from blocklearn.datasources import DataSource, blocks_of_entries, entries_of
from blocklearn.models import FactorModel
from blocklearn.models.ranking_metrics import metrics_at, ranking_scores
from blocklearn.models.score import Sums, add_scores, values

from ..configuration.config import RankingConfig, RunConfig
from ..errors import ConfigError
from ..hooks import Hook, Progress
from ..learner import Learner
from ..training.replicas.replica import Replica
from .factors import factors_of
from .parts import cuts, entries_for, lists_of, of_matrix, size_of
from .top_lists import TopLists

STREAM = 2**32  # stream of random numbers that draws the users


class RankingEvaluation(Hook):
    """Adds `ndcg`, `precision`, `recall`, `map`, `mrr` and `auc` at `top` to evaluations.

    Users are those with a relevant item among the held-out entries, or a sample of them, drawn once
    by the learner's seed. The list of a user ranks all items except those of the training row. For
    the definitions of the scores see `models/ranking_metrics.py`.

    The replicas make the lists, in memory that is part of their plan. Hooks that show or write
    scores must come after this one.
    """

    @answered
    def __init__(self, top: int = 10, users: int = 2000, relevant: float | None = None) -> None:
        """Store the settings; nothing is read yet.

        Args:
            top: the length of the lists.
            users: the most users in the sample.
            relevant: the least value of a relevant held-out entry; None: any above 0.
        """
        if top < 1 or users < 1:
            raise ValueError(f"RankingEvaluation: top={top}, users={users}: must be at least 1.")
        self.top, self.users, self.relevant = top, users, relevant
        self._sample: tuple[NDArray[np.int64], Any, Any] | None = None
        self._known: NDArray[Any] | None = None  # factors of the sample
        self._lists: WeakKeyDictionary[Replica, TopLists] = WeakKeyDictionary()

    @property
    def adds(self) -> Collection[str]:
        """Names of the scores."""
        return metrics_at(self.top)

    def plan(self, learner: Learner, replica: Replica) -> None:
        """Plan the memory for the lists of users that are done at a time."""
        model = replica.model
        if learner.eval is None or not isinstance(model, FactorModel):
            return
        rows = size_of(min(self.users, replica.shapes.total_rows))
        self._lists[replica] = TopLists(
            replica.cache,
            lambda: model.items,
            self.top,
            columns=model.columns,
            block_rows=rows,
            entries=entries_for(replica.intakes[0].shape, rows),
        )

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """Add the scores to `progress.scores`."""
        if self._sample is None and learner.train is not None and learner.eval is not None:
            users, held = self.sample(learner.eval, learner.execution.seed)
            self._sample = users, compact(entries_of(learner.train, users)), compact(held)
        if self._sample is not None:
            progress.scores |= self.scores(learner, *self._sample)

    def end(self, learner: Learner, progress: Progress) -> None:
        """Forget the sample, which frees its memory."""
        self._sample = self._known = None

    def sample(self, held_out: DataSource, seed: int) -> tuple[NDArray[np.int64], Any]:
        """Draw the sample: ascending user numbers [u], and their relevant items.

        The relevant items are a SciPy `csr_array` [u x items].
        """
        some = [
            rows[np.diff(self.relevant_of(matrix).indptr) > 0]
            for rows, matrix in blocks_of_entries(held_out)
        ]
        users = np.sort(np.concatenate(some))
        if users.size > self.users:
            key = np.array([seed, STREAM], np.uint64)
            rng = np.random.Generator(np.random.Philox(key=key))
            users = np.sort(rng.choice(users, self.users, replace=False))
        return users, self.relevant_of(entries_of(held_out, users))

    def relevant_of(self, held_out: Any) -> Any:
        """Return the held-out entries of relevant items only, as ones."""
        found = held_out.copy()
        least = self.relevant
        found.data = (found.data > 0 if least is None else found.data >= least).astype(np.float32)
        found.eliminate_zeros()
        return found

    def scores(
        self, learner: Learner, users: NDArray[np.int64], seen: Any, relevant: Any
    ) -> dict[str, float]:
        """Return the means of the scores over `users`.

        Args:
            learner: the model and its replicas.
            users: int64 [u], user numbers.
            seen: `csr_array` [u x items], the items that are not listed.
            relevant: `csr_array` [u x items], the items that should be listed.
        """
        if learner.team is None or learner.team.first not in self._lists:
            lists = self._lists_apart(learner, users, seen)
        else:
            lists = self._lists_of_replicas(learner, users, seen)
        score: Sums = {}
        for start, ids in lists:
            some, known = (rows_between(m, start, start + len(ids)) for m in (relevant, seen))
            score = add_scores(score, ranking_scores(ids, some, self.top, known))
        return values(score)

    def _lists_of_replicas(
        self, learner: Learner, users: NDArray[np.int64], seen: Any
    ) -> Iterable[tuple[int, Any]]:
        """Yield the place of a part's first user, and lists in planned memory.

        Lists are valid until the next part.
        """
        team = learner.team
        assert team is not None
        room, out = self._lists[team.first], self._known
        if out is not None and len(out) != users.size:
            out = None
        known = self._known = learner.rows_of("users", users, out)

        def lists(replica: Replica, part: Part) -> tuple[int, Any]:
            own, some = self._lists[replica], known[part.start : part.end]
            own.room[: len(some)] = some
            found = own.find(len(some), rows_between(seen, part.start, part.end))
            return part.start, found.ids.shown()[: len(some)]

        parts = (
            Part(index, start, end)
            for index, (start, end) in enumerate(cuts(seen.indptr, room.block_rows, room.entries))
        )
        with team.exact():
            yield from team.in_turn(parts, lists)

    def _lists_apart(
        self, learner: Learner, users: NDArray[np.int64], seen: Any
    ) -> Iterable[tuple[int, Any]]:
        """Yield the same for a learner without planned lists, such as a loaded one."""
        factors, blocks = factors_of(learner), of_matrix(np.arange(users.size), seen)
        rows = factors.users[users]
        for block in lists_of(factors, rows, blocks, self.top, None, learner.backend_beside):
            yield int(block.rows[0]), block.ids


@dataclass(frozen=True)
class Part:
    """A range of the sample, from place `start` to `end`; see `Numbered`."""

    index: int
    start: int
    end: int
    pass_: int = 0


def rows_between(matrix: Any, start: int, end: int) -> Any:
    """Return rows start to end of a `csr_array`, without a copy of the entries."""
    indptr = matrix.indptr[start : end + 1]
    own = slice(indptr[0], indptr[-1])
    parts = (matrix.data[own], matrix.indices[own], indptr - indptr[0])
    return csr_array(parts, shape=(end - start, matrix.shape[1]), copy=False)


def compact(matrix: Any) -> Any:
    """Return a `csr_array` with 32-bit indices, if they suffice, for views of it."""
    kind = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(kind), matrix.indptr.astype(kind))
    return csr_array(parts, shape=matrix.shape)


def ranking_of(config: RunConfig) -> RankingConfig | None:
    """Return the settings of ranking scores, or None.

    Models of implicit feedback have defaults where nothing is configured.

    Raises:
        ConfigError: the model has no items to rank.
    """
    model, ranking = config.model, config.learner.ranking
    if ranking is not None and not isinstance(model, FactorModel):
        raise ConfigError(
            [f"learner.ranking: a model of kind {type(model).__name__} has no items to rank"]
        )
    implicit = isinstance(model, FactorModel) and model.implicit
    return ranking or (RankingConfig() if implicit else None)
