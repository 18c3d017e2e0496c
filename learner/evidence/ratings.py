"""Read ratings with a model's factors: errors by popularity, lists of some users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.datasources import DataSource, blocks_of_entries
from blocklearn.models import ALS
from blocklearn.models.factor_model import FactorModel

from ..learner import Learner
from ..recommendation.factors import Factors, factors_of
from ..recommendation.lists import names
from ..recommendation.recommend import recommend
from ..reports.factors import some
from .opened import RunData

LISTED = 8  # items of a list
CHUNK = 1 << 16  # entries whose predictions are made at a time
BINS = 40  # powers of two

Ints = NDArray[np.int64]
Visit = Callable[[Ints, Any], None]


class Group(NamedTuple):
    """Users or items with about as many ratings.

    name: such as 4-7, their numbers of ratings. members: how many they are.
    ratings: held-out ratings. error: of these; NaN without any. predicted: their mean prediction.
    """

    name: str
    members: int
    ratings: int
    error: float
    predicted: float


class Listed(NamedTuple):
    """A user, what the user rated highest, and what the model recommends.

    rated: (item, rating). recommended: (item, prediction, whether it is among the held-out).
    """

    user: str
    rated: list[tuple[str, float]]
    recommended: list[tuple[str, float, bool]]


@dataclass(frozen=True)
class RatingEvidence:
    """What ratings say about factors.

    users, of: users that were read, and those of the data.
    held_out: ratings that were predicted; 0 for models that predict no ratings.
    implicit: a perfect prediction is 1; else it is the rating.
    by_user, by_item: groups by number of training ratings.
    """

    users: int
    of: int
    held_out: int
    implicit: bool
    by_user: list[Group]
    by_item: list[Group]
    lists: list[Listed]


def rating_evidence(learner: Learner, data: RunData) -> RatingEvidence | None:
    """Read training and held-out ratings once each; None if there are none to read."""
    if data.train is None or not isinstance(learner.model, FactorModel):
        return None
    factors = factors_of(learner)
    users = some(factors.users[:, : factors.rank])
    train = Read(data.train, users, data.rows)
    errors = Errors(factors, train, implicit=learner.model.implicit)
    predicts = isinstance(learner.model, ALS)  # others only rank
    held = None
    if data.held_out is not None:
        held = Read(data.held_out, users, data.rows, errors.add if predicts else None)
    return RatingEvidence(
        int((train.by_user >= 0).sum()),
        len(train.by_user),
        int(errors.sums["item"][0].sum()),
        learner.model.implicit,
        errors.groups("user", train.by_user),
        errors.groups("item", train.by_item),
        list(lists(learner, factors, users, train, held)),
    )


class Read:
    """The numbers of ratings of a source, and the ratings of some users.

    by_user: int64 [users], numbers of ratings; -1 for users that were not read.
    by_item: int64 [items]. rows: SciPy CSR [users x items], the ratings of the wanted users.
    """

    def __init__(
        self, source: DataSource, wanted: Ints, most: int, visit: Visit | None = None
    ) -> None:
        """Read `most` users or more; visit: called with each block's users and ratings."""
        shape = (source.shape.total_rows, source.shape.columns)
        self.by_user, self.by_item = np.full(shape[0], -1), np.zeros(shape[1], np.int64)
        kept: list[tuple[Ints, Any]] = []
        done = 0
        for ids, matrix in blocks_of_entries(source):
            self.by_user[ids] = np.diff(matrix.indptr)
            self.by_item += np.bincount(matrix.indices, minlength=shape[1])
            here = np.flatnonzero(np.isin(ids, wanted))
            kept.append((ids[here], matrix[here].tocoo()))
            if visit is not None:
                visit(ids, matrix)
            done += ids.size
            if done >= most:
                break
        parts = [(ids[m.coords[0]], m.coords[1], m.data) for ids, m in kept]
        users, items, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.rows = sp.csr_array((values, (users, items)), shape=shape)


class Errors:
    """Adds up errors of held-out ratings by their users' and items' numbers of ratings."""

    def __init__(self, factors: Factors, train: Read, *, implicit: bool) -> None:
        """train: tells the numbers. implicit: each entry is a 1, whatever its value."""
        self._factors, self._train, self._implicit = factors, train, implicit
        self.sums = {side: np.zeros((3, BINS)) for side in ("user", "item")}

    def add(self, ids: Ints, matrix: Any) -> None:
        """Add the ratings `matrix` [rows x items] of the users `ids`."""
        users = np.repeat(ids, np.diff(matrix.indptr))
        for start in range(0, users.size, CHUNK):
            part = slice(start, start + CHUNK)
            self._add(users[part], matrix.indices[part], matrix.data[part])

    def _add(self, users: Ints, items: Ints, ratings: Any) -> None:
        own = self._factors
        wanted = (ratings > 0).astype(np.float64) if self._implicit else ratings
        found = own.offset + np.einsum("ij,ij->i", own.users[users], own.items[items])
        known = self._train.by_user[users] >= 0
        for side, counts in (
            ("user", self._train.by_user[users]),
            ("item", self._train.by_item[items]),
        ):
            bins = bin_of(counts[known])
            for into, values in zip(
                self.sums[side], (None, (wanted - found) ** 2, found), strict=True
            ):
                into += np.bincount(bins, None if values is None else values[known], BINS)

    def groups(self, side: str, counts: Ints) -> list[Group]:
        """Return the groups of a side that have members, by number of training ratings."""
        members = np.bincount(bin_of(counts[counts >= 0]), minlength=BINS)
        found = []
        for number in np.flatnonzero(members):
            count, squares, sums = self.sums[side][:, number]
            error = float(np.sqrt(squares / count)) if count else float("nan")
            mean = float(sums / count) if count else float("nan")
            found.append(Group(name_of(int(number)), int(members[number]), int(count), error, mean))
        return found


def bin_of(counts: Ints) -> Ints:
    """Return the group of each number: 0, 1, 2-3, 4-7, ...

    >>> bin_of(np.array([0, 1, 2, 3, 4, 1000])).tolist(), [name_of(n) for n in range(4)]
    ([0, 1, 2, 2, 3, 10], ['0', '1', '2-3', '4-7'])
    """
    return np.minimum(np.frexp(counts)[1], BINS - 1).astype(np.int64)


def name_of(number: int) -> str:
    """Return the numbers of a group as text."""
    return str(number) if number < 2 else f"{2 ** (number - 1):,}-{2**number - 1:,}"


def lists(
    learner: Learner, factors: Factors, users: Ints, train: Read, held: Read | None
) -> Iterator[Listed]:
    """Yield the lists of the users that have training ratings."""
    known = [int(user) for user in users if train.by_user[user] > 0]
    if not known:
        return
    for block in recommend(learner, known, LISTED, seen=train.rows):
        for user, items, scores in zip(block.rows, block.ids, block.scores, strict=True):
            own = train.rows[[int(user)]]
            order = np.argsort(-own.data, kind="stable")[:LISTED]
            later = () if held is None else held.rows[[int(user)]].indices
            real = items >= 0
            yield Listed(
                names(factors.user_ids, np.array([user]))[0],
                pairs(factors, own.indices[order], own.data[order]),
                [
                    (*pair, bool(item in later))
                    for pair, item in zip(
                        pairs(factors, items[real], scores[real]), items[real], strict=True
                    )
                ],
            )


def pairs(factors: Factors, items: Any, values: Any) -> list[tuple[str, float]]:
    """Return names and numbers of items."""
    return list(zip(names(factors.item_ids, items), map(float, values), strict=True))
