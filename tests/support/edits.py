"""Every edit of a JSON file: each field missing, null, of another type, too large, too long."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
GONE = object()

VALUES: dict[str, Any] = {
    "missing": GONE,
    "null": None,
    "text": "x",
    "number": 7,
    "negative": -1,
    "huge": 10**30,
    "real": 0.5,
    "nan": math.nan,
    "infinite": math.inf,
    "true": True,
    "list": [],
    "mapping": {},
}


def places(tree: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every field of `tree`, mappings and lists included, and its value."""
    pairs: Any = ()
    if isinstance(tree, dict):
        pairs = tree.items()
    elif isinstance(tree, list):
        pairs = enumerate(tree)
    for name, value in pairs:
        yield (*place, name), value
        yield from places(value, (*place, name))


def edits(tree: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """`tree` with one field changed: the dotted name of the field, the edit, the whole."""
    for place, value in places(tree):
        values = dict(VALUES)
        if isinstance(value, list):
            values |= {"longer": [*value, *value[-1:], 1], "shorter": value[:-1]}
        for edit, new in values.items():
            same = type(new) is type(value) and new == value
            if not same:
                yield ".".join(map(str, place)), edit, _changed(tree, place, new)


def _changed(tree: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    found = copy.deepcopy(tree)
    inside: Any = found
    for name in place[:-1]:
        inside = inside[name]
    if value is GONE:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return found


def text_of(tree: dict[str, Any]) -> str:
    """As JSON, with NaN and Infinity where they are."""
    return json.dumps(tree, indent=2)
