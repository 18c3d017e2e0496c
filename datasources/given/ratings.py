"""Read data frames and Arrow tables of users, items and ratings."""

from collections.abc import Sequence
from typing import Any

from ..errors import DataError
from ..ratings.column_names import COUNTS, ITEMS, RATINGS, USERS, called
from ..ratings.files import batch_of_ids, numbered_places, table_of_batches
from ..ratings.matrix import Ratings, assemble
from ..ratings.table import Columns
from .frames import arrow_table, is_frame, names_of

MERGE = (
    "Merge them first, for example with "
    "frame.groupby([{user!r}, {item!r}], as_index=False)[{rating!r}].mean()."
)


LEAST_ITEMS = 5  # columns of a frame that is a matrix of users and items itself


def is_ratings(data: Any) -> bool:
    """Return whether `data` is a frame with a column of users and one of items, by their names.

    Raises:
        DataError: it is a frame with few columns, but not of these names.
    """
    if not is_frame(data):
        return False
    names = names_of(data)
    if called(USERS, names) is not None and called(ITEMS, names) is not None:
        return True
    if len(names) < LEAST_ITEMS:
        raise DataError(
            f"X has the columns {', '.join(map(repr, names))}: must have one of users and one of "
            "items, by their names. Rename them: user, item, and rating if there are ratings."
        )
    return False


def ratings_of(
    frame: Any,
    users: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    *,
    rated: bool = False,
) -> Ratings:
    """Return the ratings in a frame as a matrix of users and items.

    Columns are found by their names: `user`, `item` and the like; then `rating`, or counts such as
    `plays`. Without either, each row counts as 1. Counts of the same user and item are added up.

    users, items: ids that a model knows, in its order; rows with others are dropped.
    rated: whether there must be a column of ratings.

    Raises:
        DataError: an id or a rating is missing or wrong, or a pair has two ratings.

    >>> import pandas as pd
    >>> found = ratings_of(pd.DataFrame({"user": ["b", "a"], "item": [7, 5], "stars": [1.0, 4]}))
    >>> list(found.users), list(found.items), found.matrix.toarray().tolist()
    (['a', 'b'], ['5', '7'], [[4.0, 0.0], [0.0, 1.0]])
    """
    columns, counts = columns_of(names_of(frame))
    if rated and columns.rating is None:
        raise DataError(
            f"X has the columns {', '.join(map(repr, names_of(frame)))}: must have one of ratings, "
            "such as 'rating', for a model of ratings. For purchases or clicks, where each row "
            "counts as 1, write loss='implicit'."
        )
    table = arrow_table(frame).select(columns.wanted)
    parts = [batch_of_ids(batch, columns, "X") for batch in table.to_batches()]
    if not parts:
        raise DataError("X is a frame without rows: must have at least one.")
    merge = MERGE.format(user=columns.user, item=columns.item, rating=columns.rating)
    found = table_of_batches(parts, columns, "X", numbered_places("X", "row"), merge)
    return assemble(found, "sum" if counts else "error", users, items)


def columns_of(names: Sequence[str]) -> tuple[Columns, bool]:
    """Return the columns of users, items and ratings, and whether their numbers are counts."""
    user, item = called(USERS, names), called(ITEMS, names)
    assert user is not None and item is not None  # `is_ratings`
    rating = called(RATINGS, names)
    count = called(COUNTS, names) if rating is None else None
    return Columns(user, item, rating or count), rating is None
