"""How well the items that were held out are ranked: lists for a sample of users, scored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from blocklearn.datasources import DataSource, blocks_of_entries, entries_of
from blocklearn.models import ALS
from blocklearn.models.ranking_metrics import ranking_scores
from blocklearn.models.score import Sums, add_scores, values

from ..configuration.config import RankingConfig, RunConfig
from ..errors import ConfigError
from ..hooks import Hook, Progress
from ..learner import Learner
from ..training.replica import Replica
from .factors import factors_of
from .recommend import cuts, entries_for, lists_of, of_matrix, size_of
from .top_lists import TopLists

STREAM = 2**32  # of random numbers: which users are drawn


class RankingEvaluation(Hook):
    """Adds `ndcg@10`, `precision@10`, `recall@10`, `map@10` and `mrr@10` to each evaluation.

    Users are those with a relevant item among the held-out entries, or `users` of them, drawn
    once by the learner's seed. The list of a user ranks all items but those of his training row.
    top: length of the lists. relevant: least value of a held-out entry that makes its item
    relevant; None: any above 0. Definitions: `models/ranking_metrics.py`.

    Lists are made by the replicas, in memory that is part of their plan. Hooks that show or write
    scores come after this one.
    """

    def __init__(self, top: int = 10, users: int = 2000, relevant: float | None = None) -> None:
        """Nothing is read yet."""
        if top < 1 or users < 1:
            raise ValueError(f"RankingEvaluation: top={top}, users={users}; both are 1 or more.")
        self.top, self.users, self.relevant = top, users, relevant
        self._sample: tuple[NDArray[np.int64], Any, Any] | None = None
        self._lists: WeakKeyDictionary[Replica, TopLists] = WeakKeyDictionary()

    def plan(self, learner: Learner, replica: Replica) -> None:
        """Room for the lists of the users of the sample, or of as many as there are at a time."""
        model = replica.model
        if learner.eval is None or not isinstance(model, ALS):
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
        """Adds the scores to `progress.scores`."""
        if self._sample is None and learner.train is not None and learner.eval is not None:
            users, held = self.sample(learner.eval, learner.seed)
            self._sample = users, compact(entries_of(learner.train, users)), compact(held)
        if self._sample is not None:
            progress.scores |= self.scores(learner, *self._sample)

    def end(self, learner: Learner, progress: Progress) -> None:
        """Frees the memory."""
        self._sample = None

    def sample(self, held_out: DataSource, seed: int) -> tuple[NDArray[np.int64], Any]:
        """Numbers of the users of the sample [u], ascending, and their relevant items: a SciPy
        `csr_array` [u x items].
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
        """Held-out entries of relevant items only."""
        found = held_out.copy()
        least = self.relevant
        found.data = (found.data > 0 if least is None else found.data >= least).astype(np.float32)
        found.eliminate_zeros()
        return found

    def scores(
        self, learner: Learner, users: NDArray[np.int64], seen: Any, relevant: Any
    ) -> dict[str, float]:
        """Means over `users`. seen, relevant: `csr_array` [users x items]; what is not listed, and
        what should be.
        """
        if learner.team is None or learner.team.first not in self._lists:
            lists = self._lists_apart(learner, users, seen)
        else:
            lists = self._lists_of_replicas(learner, users, seen)
        score: Sums = {}
        for start, ids in lists:
            some = rows_between(relevant, start, start + len(ids))
            score = add_scores(score, ranking_scores(ids, some, self.top))
        return values(score)

    def _lists_of_replicas(
        self, learner: Learner, users: NDArray[np.int64], seen: Any
    ) -> Iterable[tuple[int, Any]]:
        """The first of some users, by its place, and their lists: made in memory that was planned.

        Lists are valid until the next ones are asked for.
        """
        team, known = learner.team, learner.row_state("users")
        assert team is not None
        room = self._lists[team.first]

        def lists(replica: Replica, part: Part) -> tuple[int, Any]:
            own, numbers = self._lists[replica], users[part.start : part.end]
            np.take(known, numbers, axis=0, out=own.room[: numbers.size], mode="clip")
            found = own.find(numbers.size, rows_between(seen, part.start, part.end))
            return part.start, found.ids.shown()[: numbers.size]

        parts = (
            Part(index, start, end)
            for index, (start, end) in enumerate(cuts(seen.indptr, room.block_rows, room.entries))
        )
        with team.exact():
            yield from team.in_turn(parts, lists)

    def _lists_apart(
        self, learner: Learner, users: NDArray[np.int64], seen: Any
    ) -> Iterable[tuple[int, Any]]:
        """The same of a learner that planned for none, such as one that was loaded."""
        factors, blocks = factors_of(learner), of_matrix(np.arange(users.size), seen)
        rows = factors.users[users]
        for block in lists_of(factors, rows, blocks, self.top, None, learner.backend_beside):
            yield int(block.rows[0]), block.ids


@dataclass(frozen=True)
class Part:
    """Users of the sample, by their places in it; see `Numbered`."""

    index: int
    start: int
    end: int
    pass_: int = 0


def rows_between(matrix: Any, start: int, end: int) -> Any:
    """Rows start to end of a `csr_array`, whose entries are not copied."""
    indptr = matrix.indptr[start : end + 1]
    own = slice(indptr[0], indptr[-1])
    parts = (matrix.data[own], matrix.indices[own], indptr - indptr[0])
    return csr_array(parts, shape=(end - start, matrix.shape[1]), copy=False)


def compact(matrix: Any) -> Any:
    """The same `csr_array` with indices of 32 bits where they suffice, as views of it want them."""
    kind = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(kind), matrix.indptr.astype(kind))
    return csr_array(parts, shape=matrix.shape)


def ranking_of(config: RunConfig) -> RankingConfig | None:
    """How ranking is scored: as configured; of implicit feedback also where nobody said so.

    Raises:
        ConfigError: the model ranks nothing.
    """
    model, ranking = config.model, config.learner.ranking
    if ranking is not None and not isinstance(model, ALS):
        raise ConfigError(
            [f"learner.ranking: a model of kind {type(model).__name__} has no items to rank"]
        )
    implicit = isinstance(model, ALS) and model.loss == "implicit"
    return ranking or (RankingConfig() if implicit else None)
