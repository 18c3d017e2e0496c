"""Damage JSON and YAML so that it stays JSON and YAML: unexpected keys and values."""

import copy
import io
import json
from typing import Any

from ruamel.yaml import YAML

from tests.mutations.damage import Random, choose

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 1e-320, 2**31, 2**53 + 1, 2**63, 10**30,
    -(10**30), 10**300, float("nan"), float("inf"), "", "0", "x", "nan", "a" * 3000, "\x00",
    "\x1b[31m", "../..",
    "/", ".", "\u2028", "\ud800", [], [[]], [None], [0] * 50, ["x", "x"], {}, {"": 1},
    {"kind": "x"},
    {"kind": None}, [1, "1", None], "auto", "1e3", "12:30", "0x10", "1_000", "null", "yes", "-",
]  # fmt: skip


def spots(tree: Any) -> list[tuple[Any, Any]]:
    """Containers and keys of all values in a tree."""
    found: list[tuple[Any, Any]] = []
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            found += [(tree, key), *spots(tree[key])]
    return found


def change(rng: Random, tree: Any) -> Any:
    """The same tree with one to three changes: values lost, new, of another type, or elsewhere."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        found = spots(tree)
        if not found:
            return choose(rng, VALUES)
        place, key = choose(rng, found)
        match int(rng.integers(9)):
            case 0:
                del place[key]
            case 1 | 2:
                place[key] = choose(rng, VALUES)
            case 3:
                other, there = choose(rng, found)
                if there in other or (isinstance(other, list) and there < len(other)):
                    place[key] = copy.deepcopy(other[there])
            case 4 if isinstance(place, dict):
                place[choose(rng, ["x", "", "kind ", str(key).upper(), f"{key}s"])] = place[key]
            case 4:
                place.insert(key, copy.deepcopy(place[key]))
            case 5:
                place[key] = [copy.deepcopy(place[key])]
            case 6:
                place[key] = str(place[key])
            case 7 if isinstance(place[key], int | float) and not isinstance(place[key], bool):
                value = place[key]
                near = [value + 1, value - 1, -value, float(value), value * 1000]
                place[key] = choose(rng, near)
            case _:
                place[key] = choose(rng, VALUES)
    return tree


def change_json(rng: Random, data: bytes, other: bytes) -> bytes:
    """One JSON value for all, as `json.dump` writes it."""
    return dumped(change(rng, json.loads(data)))


def change_json_line(rng: Random, data: bytes, other: bytes) -> bytes:
    """One of many lines that are JSON."""
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines)))
    try:
        record = json.loads(lines[at])
    except ValueError:
        return data + b"\n"
    lines[at] = dumped(change(rng, record))
    return b"\n".join(lines)


def change_yaml(rng: Random, data: bytes, other: bytes) -> bytes:
    tree = change(rng, YAML(typ="safe").load(data.decode()))
    written = io.StringIO()
    YAML(typ="safe").dump(tree, written)
    return written.getvalue().encode("utf-8", "surrogatepass")


def deepen(rng: Random, data: bytes, other: bytes) -> bytes:
    """Nested deeper than a recursion can follow; in JSON and YAML alike."""
    depth = int(rng.choice([50, 2000, 100_000]))
    one = choose(rng, [b"[", b'{"a":'])
    at = data.find(b":") + 1
    return data[:at] + one * depth + data[at:]


def dumped(value: Any) -> bytes:
    """Large integers and lone surrogates as JSON has them."""
    return json.dumps(value).encode()
