"""Lists of items for users, and of similar users or items, from their factors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.answers import answered
from blocklearn.matcache import ShapeError

from ..learner import Learner
from .factors import Side, factors_of
from .lists import Lists, Ranked
from .parts import lists_of, of_matrix, of_source, parts_of, run_of
from .top_lists import top_lists

Array = NDArray[Any]
log = logging.getLogger(__name__)


@answered
def recommend(
    learner: Learner,
    users: Any = None,
    n: int = 10,
    *,
    exclude_seen: bool = True,
    seen: Any = None,
    items: Any = None,
    part: tuple[int, int] = (0, 1),
) -> Lists:
    """List the n items with the highest predictions for each user, block by block.

    Memory does not grow with the number of users. Equal predictions are listed in the order of the
    items. A user without any ratings gets items in the order of their biases or, without biases, of
    their numbers. Lists come in the order of `users`. If seen items are in a source that cannot
    find single rows, lists come in the order of its blocks.

    Args:
        learner: a learner with an ALS or Ranking model, trained or loaded.
        users: ids (str), or numbers of rows (int); None: all. Or new users: a SciPy sparse matrix
            [users x items] of all their known ratings.
        n: the length of the lists; all items if there are fewer.
        exclude_seen: whether lists leave out the items that a user has seen.
        seen: a SciPy sparse matrix [all users x items] or a DataSource whose entries are the seen
            items; None: the training data, or the ratings of new users.
        items: ids or numbers of the items that may be listed; None: all.
        part: (i, n): only the lists of part i of n, one part after another.

    Raises:
        ConfigError: the model has no users and items, or there are fewer users than parts.
        DataError: an id is unknown; the message names the first ones.
        ShapeError: a matrix is not sparse, or has not the model's users and items.
        ValueError: n is below 1. Or the seen items are unknown: pass seen=, or exclude_seen=False.

    >>> import blocklearn as bl
    >>> X = bl.sparse([[5, 4, 0, 1], [4, 0, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5.0]])
    >>> learner = bl.Learner(bl.models.ALS(rank=2), train=X, passes=5, threads=1).fit()
    >>> [block.ids[:, 0].tolist() for block in recommend(learner, [1, 3], n=1)]
    [[1, 0]]
    """
    factors = factors_of(learner)
    shape = (len(factors.users), len(factors.items))
    chosen = None if items is None else np.unique(factors.numbers("item", items))
    n = checked_length(n, shape[1])
    if sp.issparse(users):
        known = as_csr(users, "users", (None, shape[1]))
        start, stop = run_of(known.shape[0], part)
        known = known[start:stop]
        rows = fold_in(learner, known)
        blocks = of_matrix(np.arange(len(rows)), known if exclude_seen else None)
        found = lists_of(factors, rows, blocks, n, chosen, learner.backend_beside)
        counted = (block._replace(rows=block.rows + start) for block in found)
        return Lists(counted, ("user", "item"), None, factors.item_ids)
    rows, numbers = factors.users, factors.numbers("user", users)
    own = numbers[slice(*run_of(len(numbers), part))]
    if not exclude_seen:
        blocks = of_matrix(own, None)
    elif seen is None or hasattr(seen, "read"):
        source = learner.train if seen is None else seen
        blocks = of_source(numbers, source, shape, part)
    else:
        blocks = of_matrix(own, as_csr(seen, "seen", shape))
    found = lists_of(factors, rows, blocks, n, chosen, learner.backend_beside)
    return Lists(found, ("user", "item"), factors.user_ids, factors.item_ids)


@answered
def fold_in(learner: Learner, rows: Any, *, side: Literal["user", "item"] = "user") -> Array:
    """Compute factors of new users, float32 [r x K], with fixed items' factors.

    Args:
        learner: a learner with an ALS or Ranking model, trained or loaded.
        rows: a SciPy sparse matrix [r x items] of full histories, not only of new ratings.
        side: "item" computes factors of new items, from rows [r x users].

    Raises:
        ConfigError: the model has no factors of users and items.
        ShapeError: `rows` is not sparse, or has another number of columns.
    """
    factors = factors_of(learner)
    columns = len(factors.items if side == "user" else factors.users)
    known = as_csr(rows, "rows", (None, columns))
    return learner.predict(known, side=0 if side == "user" else 1)


@answered
def similar_items(learner: Learner, items: Any = None, n: int = 10) -> Lists:
    """List the n items most similar to each of `items` (ids, or numbers; None: all).

    Scores are cosines of the items' factors, without biases. An item is not in its own list.
    Lists are made block by block. A warning says if no item has factors. Raises as `recommend`.
    """
    return similar(learner, "item", items, n)


@answered
def similar_users(learner: Learner, users: Any = None, n: int = 10) -> Lists:
    """List the n users most similar to each of `users`: see `similar_items`."""
    return similar(learner, "user", users, n)


def similar(learner: Learner, side: Side, which: Any, n: int) -> Lists:
    """List the n users, items or words that are most similar to each of `which`."""
    factors = factors_of(learner, side)
    table, ids = factors.table(side), factors.ids(side)
    if not table[:, : factors.rank].any():
        log.warning("all factors of %ss are 0, so no two are alike: lists are in no order", side)
    n = checked_length(n, len(table))
    parts, size = parts_of(factors.numbers(side, which))

    def lists() -> Iterator[Ranked]:
        with top_lists(
            table, n, learner.backend_beside,
            columns=factors.rank, block_rows=size, entries=size, unit=True,
        ) as top:  # fmt: skip
            for numbers in parts:
                itself = (np.ones(numbers.size), numbers, np.arange(numbers.size + 1))
                left_out = sp.csr_array(itself, shape=(numbers.size, len(table)))
                rows = of_unit_length(table[numbers, : factors.rank])
                yield Ranked(numbers, *top.of(rows, left_out))

    return Lists(lists(), (side, side), ids, ids)


def of_unit_length(rows: Array) -> Array:
    """Return `rows` scaled to length 1; rows of zeros stay."""
    rows = rows.astype(np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    found: Array = np.divide(rows, lengths, out=rows, where=lengths > 0)
    return found


def checked_length(n: int, count: int, name: str = "n") -> int:
    """Return the smaller of n and `count`; raise `ValueError` if n is no whole number from 1.

    name: of the parameter, for the message.
    """
    whole = isinstance(n, Integral) and not isinstance(n, bool)
    if not whole or n < 1:
        raise ValueError(
            f"{name}={n!r}: must be at least 1, a whole number. Pass the length of the lists."
        )
    return min(int(n), count)


def as_csr(matrix: Any, name: str, shape: tuple[int | None, int]) -> Any:
    """Return a SciPy matrix as CSR with ascending, unique indices.

    Args:
        matrix: the matrix.
        name: its name in messages.
        shape: (rows, columns); None: any number of rows.

    Raises:
        ShapeError: `matrix` is not a SciPy sparse matrix, or has another shape.
    """
    rows, columns = shape
    if sp.issparse(matrix) and matrix.ndim == 1:  # X[0] of a SciPy array
        matrix = matrix.reshape(1, -1)
    found: tuple[int, ...] = matrix.shape if sp.issparse(matrix) else ()
    if len(found) != 2 or rows not in (None, found[0]) or columns != found[1]:
        given = f"of shape {found}" if found else type(matrix).__name__
        wanted = f"{columns:,} columns" if rows is None else f"{rows:,} x {columns:,}"
        raise ShapeError(
            f"{name}: {given}: must be a SciPy sparse matrix of {wanted}: a row for each user, a "
            "column for each item. Check the orientation."
        )
    csr = sp.csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr
