"""Start from rows of numbers and categories, with or without something to predict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from blocklearn.datasources import DataError
from blocklearn.datasources.packed.streams import kind_of, opened
from blocklearn.datasources.parsing.scratch import silent

from ..errors import ConfigError
from ..inspection.look import IDS, READ, TARGETS, TEXTS, Column, Look, is_table, look_at
from .start import Start, separated, wrong

LIBSVM = (".svm", ".libsvm", ".svmlight")
LINES = (".jsonl", ".ndjson")  # of JSON
WORDS_OF_CATEGORY = 5  # a column of longer texts is no category
CLASSES = 20  # a column of numbers and a few texts that has more values is none of classes
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WITH_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")

FEATURES_TOLD = {
    "ids": "names of the rows, in predictions",
    "standardize": "columns are useful only if their numbers are of similar size",
    "hash_bits": "all values of text share 2^18 columns",
    "nulls": "some numbers are missing: they count as the mean",
}
"""Comments on the keys of `features`."""


def targets(path: Path, target: str | None = None) -> Start:
    """Return the start for rows with something to predict: see `start_for`."""
    from blocklearn.datasources.tables.read_table import MISSING  # it loads all of Arrow

    if kind_of(path) in LIBSVM and path.is_file():
        if target is not None:
            raise wrong(path, f"a table, to have a column {target!r}")
        return labels(path)
    if not is_table(path):
        rule = "a table (.csv, .tsv, .parquet) or LIBSVM text (.svm)"
        if kind_of(path) in LINES:
            written = "to_parquet('rows.parquet')"
            rule += f". Write its fields as columns: pandas.read_json(PATH, lines=True).{written}"
        raise wrong(path, rule)
    look = look_at(path)
    if not look.named:
        raise wrong(path, "a table whose first line names the columns")
    if len(look.columns) < 2:
        raise wrong(path, "a table with a column to predict and others; it has one column")
    column = predicted(look, target)
    train: dict[str, Any] = {"kind": "table", "path": str(path), "targets": [column.name]}
    line, text = column.odd or (0, "")
    if column.odd and (text.lower() in MISSING or len(set(column.values)) > CLASSES):
        raise DataError(
            f"{path}:{line}: column {column.name!r}, to predict, is {text!r}, and a number in most "
            "lines. Remove such lines; or begin each value with a letter, if it is a class."
        )
    classes = column.kind == "text" or column.signs
    if classes:
        train["classes"] = True
    own, left = features(look, column)
    train |= own
    check_points(path, column)
    link = "softmax" if classes else "logistic" if column.binary else "linear"
    told = FEATURES_TOLD | {
        "targets": "the column to predict",
        "classes": "each value of the target is a class",
        "link": "logistic for 0 and 1, softmax for classes, linear for numbers, poisson for counts",
    }
    notes = [doubtful(look, [*own["categorical"], column.name]), constant(column)]
    start = Start(train, {"link": link, "l2": 1e-5}, told, left_out=left)
    start.note = "; ".join(filter(None, notes))
    return of_numbers(start) if link == "linear" else start


def of_numbers(start: Start) -> Start:
    """Return the start with the optimizer for a target of numbers of any size."""
    start.optimizer, start.learner = {"kind": "lbfgs"}, {"passes": 100}
    passes = "at most. Steps of L-BFGS suit a target of any size, and it ends by itself"
    start.told["passes"] = passes
    return start


def labels(path: Path) -> Start:
    """Return the start for LIBSVM text: labels are classes if they are whole numbers."""
    train = {"kind": "libsvm", "path": str(path)}
    if not whole_labels(path):
        told = {"link": "the labels are numbers, not classes"}
        return of_numbers(Start(train, {"link": "linear", "l2": 1e-5}, told))
    told = {"classes": "false, with link: linear, if labels are numbers to predict"}
    return Start(train | {"classes": True}, {"link": "softmax", "l2": 1e-5}, told)


def whole_labels(path: Path) -> bool:
    """Return whether the labels of the first lines of LIBSVM text are whole numbers.

    A label that is no number is an error when all lines are read.
    """
    with opened(path, silent) as file:
        lines = file.read(READ).splitlines()
    first = b",".join(line.split(maxsplit=1)[0] for line in lines if line.strip())
    return all(not NUMBER.fullmatch(label) or float(label) % 1 == 0 for label in first.split(b","))


def constant(column: Column) -> str:
    """Return a line on a column of numbers to predict that are all equal; empty for others."""
    if not column.constant:
        return ""
    rows, value = len(column.values), column.values[0]
    return f"column {column.name!r}, to predict, is {value} in each of the first {rows:,} rows"


def predicted(look: Look, name: str | None) -> Column:
    """Return the column to predict. name: None: it is called like one, or is the last."""
    if name is None:
        return look.called(TARGETS) or look.columns[-1]
    for column in look.columns:
        if column.name == name:
            return column
    names = ", ".join(column.name for column in look.columns)
    raise ConfigError([f"--target={name!r}: must be a column of {look.path}: {names}"])


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
            train = {"kind": "table", "path": str(path)} | own
            note = doubtful(look, own["categorical"])
            return Start(train, told=FEATURES_TOLD, left_out=left, note=note)
    return None


def features(look: Look, *without: Column) -> tuple[dict[str, Any], list[str]]:
    """Return keys of a table that say which columns are features, and the names of those left out.

    without: columns that are something else.
    """
    look.check_utf8()
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


def doubtful(look: Look, categorical: list[str]) -> str:
    """Return a line on categories that are numbers in most rows; empty without such columns."""
    told = [
        f"column {column.name!r} has categories, since line {column.odd[0]} has {column.odd[1]!r}"
        for column in look.columns
        if column.name in categorical and column.odd is not None
    ]
    remedy = ": if they are numbers, leave the fields of missing ones empty"
    return "; ".join(told) + remedy * bool(told)


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
