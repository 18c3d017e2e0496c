"""Choose the data section, and settings of the model, for a file that a user has.

Longer than 300 lines: a function for each kind of data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blocklearn.datasources import DataError
from blocklearn.datasources.formats.dates import day_of
from blocklearn.datasources.formats.word_counts import JSON_LINES, LDA_C
from blocklearn.datasources.listing import require_data
from blocklearn.datasources.packed.streams import kind_of
from blocklearn.datasources.ratings.column_names import (
    COUNTS,
    ITEMS,
    RATINGS,
    TIMES,
    USERS,
    called,
)
from blocklearn.datasources.text.read_texts import read_lines

from ..errors import ConfigError
from ..inspection.look import IDS, TARGETS, TEXTS, Column, Look, is_table, look_at

MATRICES = (".npz", ".mtx")
TEXT_FILES = (".txt", ".jsonl", ".ndjson")
LIBSVM = (".svm", ".libsvm", ".svmlight")
DATES = (*TIMES, *"day year published created released".split())
DATED = "the report shows topics over time"
SOURCES = "source src from fromnode fromnodeid citing head".split()
ENDS = "target dst destination dest to tonode tonodeid cited tail".split()
MOST_STARS = 10  # larger numbers without the name of ratings are counts
ALS_ENDINGS = "a table of users and items (.csv, .tsv, .parquet), .npz or .mtx"
WORDS_OF_CATEGORY = 5  # a column of longer texts is no category
WITH_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")

FEATURES_TOLD = {
    "ids": "names of the rows, in predictions",
    "standardize": "columns are useful only if their numbers are of similar size",
    "hash_bits": "all values of text share 2^18 columns",
    "nulls": "some numbers are missing: they count as the mean",
}
"""Comments on the keys of `features`."""


@dataclass
class Start:
    """The parts of a configuration that depend on the data.

    train: keys of `data.train`; model: keys of `model`; told: a comment for a key of any part.
    optimizer, learner: keys of these sections.
    """

    train: dict[str, Any]
    model: dict[str, Any] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    learner: dict[str, Any] = field(default_factory=dict)


def start_for(model: str, path: Path) -> Start:
    """Return the parts of a configuration for `model` on the data at `path`.

    Raises:
        ConfigError: the model cannot learn from such a file; the message says from which.
        DataError: the file cannot be read.
        FileNotFoundError: it does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(2, "no such file or folder", str(path))
    require_data(path)
    return STARTS[model](path)


def documents(path: Path) -> Start:
    """Return the start for word counts of texts."""
    limits = {"min_df": 3, "max_df": 0.5}
    told = {
        "min_df": "words in fewer documents say nothing about topics",
        "max_df": "nor do words in more than this share of them",
    }
    if path.is_dir() or kind_of(path) in (*TEXT_FILES, *MATRICES, *LDA_C):
        train: dict[str, Any] = {"kind": "file", "path": str(path)}
        if path.is_file() and kind_of(path) in JSON_LINES:
            train |= fields_of(path)
        train |= {} if kind_of(path) in (*MATRICES, *LDA_C) else limits
        return Start(train, told=told | {"text": "the field with the texts", "date": DATED})
    if not is_table(path):
        raise wrong(
            path, "a folder of .txt files, .txt, .jsonl, a table with texts, .npz, .mtx or .ldac"
        )
    look = look_at(path)
    texts = [column for column in look.columns if column.kind == "text"]
    named = look.called(TEXTS)
    if not texts:
        raise wrong(path, "a table with a column of texts; all its columns are numbers")
    text = named if named in texts else max(texts, key=lambda column: column.words)
    assert text is not None
    others = ", ".join(column.name for column in texts if column is not text)
    told["text"] = "the column with the texts" + (f"; others of text: {others}" if others else "")
    train = {"kind": "file", "path": str(path), "text": text.name, **separated(look), **limits}
    day = look.called(DATES) or next((c for c in look.columns if c.kind == "other"), None)
    if day is not None and any(day_of(str(value)) for value in day.values):
        train["date"], told["date"] = day.name, DATED
    return Start(train, told=told)


def fields_of(path: Path) -> dict[str, str]:
    """Return the fields of JSON lines that have texts and dates, by the first line.

    Raises:
        DataError: the first line is not an object.
    """
    _, line = next(read_lines(path), ("", "{}"))
    try:
        first = dict(json.loads(line))
    except (TypeError, ValueError) as error:
        raise DataError(f'{path}:1: must be a JSON object, such as {{"text": ...}}.') from error
    texts = {name: len(value) for name, value in first.items() if isinstance(value, str)}
    text = called(TEXTS, list(texts)) or max(texts, key=texts.__getitem__, default=None)
    days = [name for name in first if name != text and day_of(str(first[name]))]
    day = called(DATES, days)
    found = {} if text is None else {"text": text}
    return found if day is None else found | {"date": day}


def ratings(path: Path) -> Start:
    """Return the start for users and items."""
    if kind_of(path) in MATRICES and path.is_file():
        return Start({"kind": "ratings", "path": str(path)})
    if not is_table(path):
        raise wrong(path, ALS_ENDINGS)
    look = look_at(path)
    if len(look.columns) < 2:
        raise wrong(path, "a table with a column of users and one of items; it has one column")
    user, item = look.called(USERS), look.called(ITEMS)
    rest = iter(look.without(user, item))
    user = user or next(rest)
    item = item or next(rest)
    rating, count = look.called(RATINGS), look.called(COUNTS)
    numbers = [c for c in look.without(user, item, look.called(TIMES)) if c.kind == "number"]
    value = rating or count or (numbers[0] if numbers else None)
    value = value if value is not None and value.kind == "number" else None
    explicit = value is not None and (value is rating or max(value.values, default=0) <= MOST_STARS)
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
    if explicit:
        return Start(train, {"loss": "explicit", "rank": 32, "reg": "auto"}, told)
    return Start(train, {"loss": "implicit", "alpha": 20, "rank": 32, "reg": "auto"}, told)


def rankings(path: Path) -> Start:
    """Return the start for users and items, of which what a user has is known."""
    start = ratings(path)
    told = start.told | {"rating": "above 0: the user has the item; leave out what was disliked"}
    if start.train.get("rating", "") is None:
        told["rating"] = "null: each line says that the user has the item"
    return Start(start.train, {"rank": 32, "reg": "auto"}, told)


def targets(path: Path) -> Start:
    """Return the start for rows with something to predict."""
    if kind_of(path) in LIBSVM and path.is_file():
        told = {"classes": "false, with link: linear, if labels are numbers to predict"}
        libsvm = {"kind": "libsvm", "path": str(path), "classes": True}
        return Start(libsvm, {"link": "softmax", "l2": 1e-5}, told)
    if not is_table(path):
        raise wrong(path, "a table (.csv, .tsv, .parquet) or LIBSVM text (.svm)")
    look = look_at(path)
    if not look.named:
        raise wrong(path, "a table whose first line names the columns")
    if len(look.columns) < 2:
        raise wrong(path, "a table with a column to predict and others; it has one column")
    target = look.called(TARGETS) or look.columns[-1]
    train: dict[str, Any] = {"kind": "table", "path": str(path), "targets": [target.name]}
    if target.kind == "text":
        train["classes"] = True
    own, left = features(look, target)
    train |= own
    check_points(path, target)
    link = "softmax" if target.kind == "text" else "logistic" if target.binary else "linear"
    told = FEATURES_TOLD | {
        "targets": "the column to predict" + (f"; left out: {', '.join(left)}" if left else ""),
        "classes": "the target is text: each of its values is a class",
        "link": "logistic for 0 and 1, softmax for classes, linear for numbers, poisson for counts",
    }
    start = Start(train, {"link": link, "l2": 1e-5}, told)
    if link == "linear":
        start.optimizer, start.learner = {"kind": "lbfgs"}, {"passes": 100}
        told["passes"] = "at most. Steps of L-BFGS suit a target of any size, and it ends by itself"
    return start


def rows(path: Path) -> Start | None:
    """Return the start for rows of numbers and categories; None if the data are texts."""
    if kind_of(path) in LIBSVM and path.is_file():
        return Start({"kind": "libsvm", "path": str(path)})
    if is_table(path):
        look = look_at(path)
        named = look.called(TEXTS)
        texts = (named is not None and named.kind == "text") or any(
            column.words > WORDS_OF_CATEGORY for column in look.columns
        )
        if look.named and not texts:
            own, left = features(look)
            told = FEATURES_TOLD | ({"numeric": f"left out: {', '.join(left)}"} if left else {})
            return Start({"kind": "table", "path": str(path)} | own, told=told)
    return None


def groups(path: Path) -> Start:
    """Return the start for rows that form groups: of a table, or texts by their direction."""
    if (start := rows(path)) is None:
        start = documents(path)
        start.model["spherical"] = True
        start.told["spherical"] = "a long text is like a short one; false: compare positions"
    return start


def directions(path: Path) -> Start:
    """Return the start for rows that differ in few directions, or texts."""
    return rows(path) or documents(path)


def densities(path: Path) -> Start:
    """Return the start for rows of numbers and categories that have densities."""
    if (start := rows(path)) is None:
        raise wrong(path, "a table of numbers and categories, or LIBSVM text")
    return start


def sentences(path: Path) -> Start:
    """Return the start for the words of texts, in their order."""
    if kind_of(path) in (*MATRICES, *LDA_C):
        raise wrong(path, "texts; counts of words do not say which words are neighbours")
    found = documents(path)
    train = {key: found.train[key] for key in ("path", "text", "separator") if key in found.train}
    return Start({"kind": "sentences"} | train, told=found.told)


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
    source, target = look.called(SOURCES), look.called(ENDS)
    rest = iter(look.without(source, target))
    source = source or next(rest)
    target = target or next(rest)
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


def features(look: Look, *without: Column) -> tuple[dict[str, Any], list[str]]:
    """Return keys of a table that say which columns are features, and the names of those left out.

    without: columns that are something else.
    """
    rest = [c for c in look.without(*without) if plain_id(c.name) not in IDS]
    numeric = [c.name for c in rest if c.kind == "number"]
    check_points(look.path, *rest)
    texts = [c.name for c in rest if c.kind == "text" and c.words <= WORDS_OF_CATEGORY]
    ids = next((c for c in look.without(*without) if plain_id(c.name) in IDS), None)
    left = [c.name for c in look.without(*without, ids) if c.name not in (*numeric, *texts)]
    keys: dict[str, Any] = {} if ids is None else {"ids": ids.name}
    keys |= {"numeric": numeric, "categorical": texts, **separated(look)}
    if numeric:
        keys["standardize"] = True
    if texts:
        keys["hash_bits"] = 18
    if any(column.missing for column in rest if column.kind == "number"):
        keys["nulls"] = "zero"
    return keys, left


def check_points(path: Path, *columns: Column) -> None:
    """Raise DataError if all values of a column are numbers with decimal commas."""
    for column in columns:
        values = list(map(str, column.values)) if column.kind == "text" else []
        if any("," in value for value in values) and all(map(WITH_COMMA.fullmatch, values)):
            value = next(value for value in values if "," in value)
            raise DataError(
                f"{path}: column {column.name!r} has numbers with decimal commas, such as {value}: "
                "must have decimal points. Write the file anew, with pandas for example: "
                "read_csv(path, sep=';', decimal=',').to_csv(path, index=False)."
            )


def plain_id(name: str) -> str:
    """Return a name as it is compared with those of ids."""
    return name.lower().strip()


def separated(look: Look) -> dict[str, Any]:
    """Return the separator of a table, if it is not that of its ending."""
    return {} if look.separator is None else {"separator": look.separator}


def wrong(path: Path, rule: str) -> ConfigError:
    """Return the error for a file of another kind."""
    return ConfigError([f"{path}: must be {rule}. `learn inspect {path}` says what it has"])


STARTS: dict[str, Callable[[Path], Start]] = {
    "lda": documents,
    "nmf": documents,
    "als": ratings,
    "ranking": rankings,
    "glm": targets,
    "fm": targets,
    "kmeans": groups,
    "svd": directions,
    "gaussian-mixture": densities,
    "word-vectors": sentences,
    "pagerank": links,
    "components": links,
    "triangles": links,
}
