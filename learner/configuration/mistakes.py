"""Say what is wrong with a configuration: one line for each mistake, with its place and a rule."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ValidationError

from blocklearn.fields import NOT_TRIED, any_of, plain_rule

from .schema_names import SchemaNames, suggestion
from .yaml_tree import Node, Origin

PLAIN_WORDS = {"an object": "a mapping", "a valid dictionary": "a mapping", "valid array": "list"}
"""Words of pydantic's messages on JSON, and the words of YAML for them."""


@dataclass(frozen=True)
class _Problem:
    """One mistake: its origin, its dotted path, what is wrong, and the value there."""

    at: Origin
    path: str
    reason: str
    value: str = ""

    @property
    def place(self) -> tuple[str, int, int, str]:
        return self.at.source, self.at.line or 0, self.at.column or 0, self.path


def explained(error: ValidationError, tree: Node, schema: type[BaseModel]) -> list[str]:
    """Return one line per place; join reasons from members of a union."""
    names = SchemaNames(schema)
    items = [e for e in error.errors(include_url=False) if e["type"] != NOT_TRIED]
    problems = [_problem(item, tree, names) for item in names.meant_by(items)]
    problems.sort(key=lambda problem: problem.place)
    lines = []
    for _, group in groupby(problems, key=lambda problem: problem.place):
        same = list(group)
        first = same[0]
        if any(other.path.startswith(f"{first.path}.") for other in problems):
            continue  # the item of a list is reported already, not also "must be a number"
        reasons = any_of([problem.reason for problem in same])
        named = not first.path or str(first.at) == f"--set {first.path}"
        path = "" if named else f"{first.path}: "
        lines.append(f"{first.at}: {path}{reasons}{first.value}")
    return lines


def _problem(item: Any, tree: Node, names: SchemaNames) -> _Problem:
    """Translate one pydantic error into a place in the files and a reason."""
    node, path, trail = _locate([p for p in item["loc"] if not names.is_member(p)], tree)
    kind, context = item["type"], item.get("ctx", {})
    dotted = ".".join(path)
    if kind == "extra_forbidden":
        valid = names.at(trail[:-1])
        hint = names.hint(path[-1], valid, tree) or f" (valid here: {', '.join(valid)})"
        return _Problem(node.key, dotted, f"unknown key{hint}")
    if kind == "missing":
        reason = f"missing, and there is no default; --set {dotted}=VALUE gives one"
        return _Problem(node.key, dotted, reason)
    if kind == "union_tag_not_found":
        choices = ", ".join(names.kinds(trail))
        return _Problem(node.key, f"{dotted}.kind", f"missing, choose one of: {choices}")
    if kind == "union_tag_invalid":
        assert isinstance(node.value, dict)
        choices = ", ".join(names.kinds(trail))
        hint = suggestion(str(context["tag"]), names.kinds(trail))
        reason = f"{context['tag']!r} is not one of: {choices}{hint}"
        return _Problem(node.value["kind"].at, f"{dotted}.kind", reason)
    reason = item["msg"]
    for technical, plain in PLAIN_WORDS.items():
        reason = reason.replace(technical, plain)
    reason = plain_rule(reason)
    if kind.startswith("byte_size"):
        reason = "must be bytes, such as 8GB"
    hint = ""
    if kind == "literal_error":
        hint = suggestion(str(node.value), re.findall(r"'([^']+)'", context["expected"]))
    if isinstance(node.value, dict | list) or kind in ("value_error", "assertion_error"):
        return _Problem(node.at, dotted, reason)
    return _Problem(node.at, dotted, reason, f", not {_written(node.value)}{hint}")


def _written(value: Any) -> str:
    """Return a scalar as YAML shows it."""
    return json.dumps(value, ensure_ascii=False)


def _locate(loc: Sequence[int | str], tree: Node) -> tuple[Node, list[str], list[Node]]:
    """Return the node at pydantic's `loc`, its path, and the nodes on the way to it.

    pydantic puts the `kind` of an alternative into the location: it is skipped. A missing key stays
    in the path, and the node is the mapping that lacks it. A word where the tree has a scalar or a
    list is the name of a union's member: it is skipped too, and so is one in parentheses.
    """
    node, path, trail, fresh = tree, list[str](), [tree], True
    for part in loc:
        value = node.value
        if isinstance(part, str) and part.startswith("("):
            continue
        if isinstance(value, dict):
            if fresh and part == node.kind:
                fresh = False
                continue
            path.append(str(part))
            if part not in value:
                break
            node = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(str(part))
            node = value[part]
        elif isinstance(value, list) and isinstance(part, str):
            continue
        else:
            break
        trail.append(node)
        fresh = True
    return node, path, trail
