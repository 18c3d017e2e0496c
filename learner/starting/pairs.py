"""Start from pairs: of users and items, or of pages that are linked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blocklearn.datasources.packed.streams import kind_of
from blocklearn.datasources.ratings.column_names import COUNTS, ITEMS, RATINGS, TIMES, USERS

from ..errors import ConfigError
from ..inspection.look import Column, Look, is_table, look_at
from .start import MATRICES, Start, separated, wrong

SOURCES = "source src from fromnode fromnodeid citing head".split()
ENDS = "target dst destination dest to tonode tonodeid cited tail".split()
MOST_STARS = 10  # larger numbers without the name of ratings are counts
ALS_ENDINGS = "a table of users and items (.csv, .tsv, .parquet), .npz or .mtx"


def ratings(path: Path) -> Start:
    """Return the start for users and items."""
    if kind_of(path) in MATRICES and path.is_file():
        return Start({"kind": "ratings", "path": str(path)})
    if not is_table(path):
        raise wrong(path, ALS_ENDINGS)
    look = look_at(path)
    if len(look.columns) < 2:
        raise wrong(path, "a table with a column of users and one of items; it has one column")
    user, item = two_columns(look, USERS, ITEMS)
    rating, count = look.called(RATINGS), look.called(COUNTS)
    numbers = [c for c in look.without(user, item, look.called(TIMES)) if c.kind == "number"]
    value = rating or count or (numbers[0] if numbers else None)  # of text: reading it says where
    explicit = value is not None and value is rating
    if value in numbers and value is not count:
        explicit = explicit or max(value.values, default=0) <= MOST_STARS
    train: dict[str, Any] = {"kind": "ratings", "path": str(path)}
    train |= {"user": user.name, "item": item.name}
    train |= {"rating": None if value is None else value.name, **separated(look)}
    if not explicit:
        train["duplicates"] = "sum"
    if not look.named:
        train["columns"] = [column.name for column in look.columns]
    told = {
        "rating": "null: each line counts as 1" if value is None else "how much the user liked it",
        "loss": "explicit for ratings; implicit for plays, clicks, purchases",
        "columns": "the file has no line of names; these are made up",
        "duplicates": "of the same user and item: added up",
    }
    named = [look.called(names) for names in (USERS, ITEMS, RATINGS, COUNTS)]
    found = all(column is None or column in named for column in (user, item, value))
    notes = ["" if found else taken(user, item, value), "" if value is None else equal(value)]
    note = "; ".join(filter(None, notes))
    if explicit:
        return Start(train, {"loss": "explicit", "rank": 32, "reg": "auto"}, told, note=note)
    loss = {"loss": "implicit", "alpha": 20, "rank": 32, "reg": "auto"}
    return Start(train, loss, told, note=note)


def equal(value: Column) -> str:
    """Return a line on ratings that are all equal, from which no model learns; empty for others."""
    if not value.constant:
        return ""
    rows, rating = len(value.values), value.values[0]
    return (
        f"column {value.name!r} is {rating} in each of the first {rows:,} rows: if all are equal, "
        "learn from who has what: --set model.loss=implicit --set data.train.rating=null"
    )


def taken(user: Column, item: Column, value: Column | None) -> str:
    """Return a line that says which columns are users, items and ratings."""
    rated = "each line counts as 1" if value is None else f"ratings are column {value.name!r}"
    return (
        f"users are column {user.name!r}, items column {item.name!r}, {rated}; name others with "
        "--set data.train.user=COLUMN, data.train.item and data.train.rating"
    )


def rankings(path: Path) -> Start:
    """Return the start for users and items, of which what a user has is known."""
    start = ratings(path)
    told = start.told | {"rating": "above 0: the user has the item; leave out what was disliked"}
    if start.train.get("rating", "") is None:
        told["rating"] = "null: each line says that the user has the item"
    return Start(start.train, {"rank": 32, "reg": "auto"}, told, note=start.note)


def links(path: Path) -> Start:
    """Return the start for the links between pages."""
    if kind_of(path) in MATRICES and path.is_file():
        return Start({"kind": "file", "path": str(path)})
    if not is_table(path) and not (kind_of(path) == ".txt" and path.is_file()):
        raise wrong(
            path, "a table of links (.csv, .tsv, .txt, .parquet), or a square matrix: .npz or .mtx"
        )
    look = look_at(path, commented=True)
    if len(look.columns) < 2:
        raise wrong(path, "a table with two columns of pages, from and to; it has one column")
    source, target = two_columns(look, SOURCES, ENDS)
    if look.named:
        check_names(path, source, target)
    weight = look.called(COUNTS)
    train: dict[str, Any] = {"kind": "links", "path": str(path)}
    train |= {"source": source.name, "target": target.name}
    train |= {"weight": None if weight is None else weight.name, **separated(look)}
    if not look.named:
        train["columns"] = [column.name for column in look.columns]
    told = {
        "weight": "null: each link counts as 1" if weight is None else "how much a link counts",
        "columns": "the file has no line of names; these are made up",
    }
    return Start(train, told=told)


def two_columns(look: Look, first: list[str], second: list[str]) -> tuple[Column, Column]:
    """Return the columns with one of these names each, or else the first others of a table."""
    one, other = look.called(first), look.called(second)
    rest = iter(look.without(one, other))
    return one or next(rest), other or next(rest)


def check_names(path: Path, source: Column, target: Column) -> None:
    """Raise ConfigError if a name of these columns is a page: then the first line is a link."""
    for name in (source.name, target.name):
        if any(str(page) == name for page in (*source.values, *target.values)):
            raise ConfigError(
                [
                    f"{path}: the first line, {source.name!r} and {target.name!r}, counts as names "
                    f"of columns, since it has no number, but {name!r} is a page of a later line, "
                    "too. Write a line of names above it, such as source and target"
                ]
            )
