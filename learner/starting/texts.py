"""Start from texts: their words are counted, or read in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blocklearn.datasources import DataError
from blocklearn.datasources.formats.dates import day_of
from blocklearn.datasources.formats.word_counts import JSON_LINES, LDA_C
from blocklearn.datasources.packed.streams import kind_of
from blocklearn.datasources.parsing.lines import read_lines
from blocklearn.datasources.ratings.column_names import TIMES, called

from ..inspection.look import TEXTS, is_table, look_at
from .start import MATRICES, Start, separated, wrong

TEXT_FILES = (".txt", ".jsonl", ".ndjson")
DATES = (*TIMES, *"day year published created released".split())
DATED = "the report shows topics over time"


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
    look.check_utf8()
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


def sentences(path: Path) -> Start:
    """Return the start for the words of texts, in their order."""
    if kind_of(path) in (*MATRICES, *LDA_C):
        raise wrong(path, "texts; counts of words do not say which words are neighbours")
    found = documents(path)
    train = {key: found.train[key] for key in ("path", "text", "separator") if key in found.train}
    return Start({"kind": "sentences"} | train, told=found.told)
