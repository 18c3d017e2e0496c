"""References to environment variables in configurations: `${NAME}`.

Any text may have references: `path: https://host/x.parquet?sig=${SIGNATURE}`. Reading the files
replaces them. The configuration remembers the texts that had references, and writes them with the
references again. `$${` stands for `${` itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from pydantic import BaseModel, PrivateAttr

from blocklearn.datasources.secrets import hidden_leaves, is_hidden

from .yaml_tree import Node

PATTERN = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Place = tuple[str, ...]
"""Keys from the root of a configuration to a value; list indices as texts."""


class Reference(NamedTuple):
    """A text as it was written, and with its references replaced."""

    written: str
    meant: str


class KeptReferences(dict[str, str]):
    """Variables by name; for an unset name, the reference itself.

    For configurations whose data need not be read again.

    >>> KeptReferences({"A": "1"})["A"], KeptReferences()["B"]
    ('1', '${B}')
    """

    def __missing__(self, name: str) -> str:
        """Return the reference to `name`."""
        return f"${{{name}}}"


class Referring(BaseModel):
    """A configuration that remembers which of its texts were references."""

    _references: dict[Place, Reference] = PrivateAttr(default_factory=dict)

    def remember(self, references: Mapping[Place, Reference]) -> None:
        """Write these texts as references from now on."""
        self._references = dict(references)

    def written(self) -> dict[str, Any]:
        """Return all settings for JSON, with references and without secrets."""
        tree = _written(self.model_dump(mode="json"), self._references, ())
        found: dict[str, Any] = hidden_leaves(tree, references=True)
        return found


def expand(
    node: Node, variables: Mapping[str, str], problems: list[str], place: Place = ()
) -> tuple[Any, dict[Place, Reference]]:
    """Return `node.plain()` with references replaced, and the texts that had some.

    Args:
        node: the tree to expand.
        variables: values of the references by name.
        problems: receives a line for each reference that is malformed or not set.
        place: the keys from the root to `node`.
    """
    found: dict[Place, Reference] = {}

    def inside(name: str, child: Node) -> Any:
        value, more = expand(child, variables, problems, (*place, name))
        found.update(more)
        return value

    if isinstance(node.value, dict):
        return {name: inside(name, child) for name, child in node.value.items()}, found
    if isinstance(node.value, list):
        return [inside(str(number), child) for number, child in enumerate(node.value)], found
    if not isinstance(node.value, str) or "${" not in node.value:
        return node.value, found

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        key = ".".join(place)
        if not NAME.fullmatch(name) or not match[0].endswith("}"):
            problems.append(
                f"{node.at}: {key}={match[0]}: must be ${{NAME}} with the name of a variable. "
                "Write $${ for these two characters themselves."
            )
            return match[0]
        try:
            return variables[name]
        except KeyError:
            problems.append(
                f"{node.at}: {key}=${{{name}}}: must be a variable that is set. Set it: export "
                f"{name}=..."
            )
            return match[0]

    meant = PATTERN.sub(replace, node.value)
    return meant, {place: Reference(node.value, meant)}


def left_out(tree: Any, place: Place = ()) -> Iterator[tuple[str, str]]:
    """Yield key and text of each URL from which a secret has been left out."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from left_out(value, (*place, name))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from left_out(value, (*place, str(number)))
    elif isinstance(tree, str) and is_hidden(tree):
        yield ".".join(place), tree


def _written(tree: Any, references: Mapping[Place, Reference], place: Place) -> Any:
    if isinstance(tree, dict):
        kind_first = sorted(tree.items(), key=lambda item: item[0] != "kind")
        return {name: _written(v, references, (*place, name)) for name, v in kind_first}
    if isinstance(tree, list):
        return [_written(v, references, (*place, str(i))) for i, v in enumerate(tree)]
    if not isinstance(tree, str):
        return tree
    reference = references.get(place)
    if reference and (tree == reference.meant or tree == _as_path(reference.meant)):
        return reference.written
    return tree.replace("${", "$${")


def _as_path(text: str) -> str:
    """Return a text as `Path` normalises it: `a//b` becomes `a/b`."""
    return os.fspath(PurePath(text))
