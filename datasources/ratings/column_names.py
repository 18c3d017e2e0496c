"""Guess by their names which columns of a table hold users, items and ratings."""

from collections.abc import Sequence

USERS = "user userid user_id uid customer customer_id account member reader".split()
ITEMS = "item itemid item_id iid product product_id movie movieid movie_id song track book".split()
RATINGS = "rating ratings score stars value".split()
COUNTS = "plays count counts clicks views listens quantity weight".split()
TIMES = "timestamp time date ts datetime".split()


def plain(name: str) -> str:
    """Return a name as it is compared: `User ID` is `userid`."""
    return "".join(filter(str.isalnum, name)).lower()


def called(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the first of `columns` with one of the names `wanted`, in their order.

    >>> called(USERS, ["Movie ID", "User ID"])
    'User ID'
    """
    found = {plain(column): column for column in reversed(columns)}
    return next((found[name] for name in map(plain, wanted) if name in found), None)
