"""Trees of values with their places in files, environment, command line.

A `Node` is a mapping, a list or a scalar together with its `Origin`. An error that the schema finds
much later can therefore still say `lda.yaml:4:3`.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from ..errors import ConfigError

Scalar: TypeAlias = str | int | float | bool | None
"""The scalars of YAML 1.2's core schema."""

MOST_BITS = 1024  # of an integer: Python prints no more than 4,300 digits

MOST_REPEATED = 1 << 20
"""The size that aliases may add to a document: a value counts 16, and each of its letters 1."""


@dataclass(frozen=True)
class Origin:
    """The place of a value: line and column of a file, an option, or a variable."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """`lda.yaml:4:3`, `--set model.topics`, `LEARN__MODEL__TOPICS`."""
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"


@dataclass
class Node:
    """One value, its origin `at`, and the origin `key` of its key."""

    value: "dict[str, Node] | list[Node] | Scalar"
    at: Origin
    key: Origin

    @classmethod
    def of(cls, value: Any, at: Origin) -> Self:
        """Return the tree of ordinary dicts, lists and scalars, all of one origin."""
        if isinstance(value, dict):
            return cls({name: cls.of(child, at) for name, child in value.items()}, at, at)
        if isinstance(value, list):
            return cls([cls.of(child, at) for child in value], at, at)
        return cls(value, at, at)

    def plain(self) -> Any:
        """Return the value as ordinary dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    @property
    def kind(self) -> Any:
        """The value of the child `kind`, which chooses an alternative, or None."""
        child = self.value.get("kind") if isinstance(self.value, dict) else None
        return child.value if child else None


def merge(base: Node, layer: Node) -> Node:
    """Put `layer` over `base`: merge mappings key by key, replace everything else.

    A mapping whose `kind` changes is replaced too: another kind of data or model has other fields.
    """
    if not isinstance(base.value, dict) or not isinstance(layer.value, dict):
        return layer
    if None not in (base.kind, layer.kind) and base.kind != layer.kind:
        return layer
    value = dict(base.value)
    for name, child in layer.value.items():
        value[name] = merge(value[name], child) if name in value else child
    return Node(value, base.at, base.key)


def nested(path: list[str], leaf: Node) -> Node:
    """Return a tree with `leaf` at `path` and nothing else."""
    for name in reversed(path):
        leaf = Node({name: leaf}, leaf.key, leaf.key)
    return leaf


def parse_file(path: Path) -> Node:
    """Parse the one YAML document in `path`.

    Raises:
        ConfigError: bad syntax, repeated keys, an empty file, or no mapping at the top.
        OSError: the file cannot be read.
    """
    data = path.read_bytes()
    node = _parse(data, str(path), Origin(str(path), 1, 1), positions=True)
    if node.value is None:
        raise ConfigError([f"{path}:1:1: the file is empty; expected a mapping of sections"])
    if not isinstance(node.value, dict):
        raise ConfigError([f"{node.at}: expected a mapping of sections (model, data, ...)"])
    return node


def parse_text(text: str, origin: Origin) -> Node:
    """Parse one value of YAML 1.2: `200`, `1e-3`, `[1, 2]`, `{kind: file}`.

    A value that begins with a star (`*.jsonl`) is a text: one value has no anchors to refer to.
    """
    if text.startswith("*"):
        return Node(text, origin, origin)
    return _parse(text.encode(), str(origin), origin, positions=False)


def _parse(data: bytes, source: str, start: Origin, positions: bool) -> Node:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)  # YAML 1.2: `on` is a word, 1e-3 a number
    try:
        text = data.decode("utf-8-sig")
        root = yaml.compose(io.StringIO(text))
        if root is None:
            return Node(None, start, start)
        builder = _Builder(yaml, source, start if not positions else None)
        node = builder.build(root, start)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Origin(source, mark.line + 1, mark.column + 1) if mark and positions else start
        text = ": ".join(part for part in (error.context, error.problem) if part)
        if "undefined alias" in text:
            text += "; a value that starts with * is written in quotes: '*.parquet'"
        raise ConfigError([f"{at}: {text}"]) from error
    except (YAMLError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError([f"{start}: not a UTF-8 YAML text: {reason}"]) from error
    except RecursionError:
        raise ConfigError([f"{start}: the values are nested too deeply"]) from None
    if builder.problems:
        raise ConfigError(builder.problems)
    return node


class _Builder:
    """Turns ruamel's node graph into `Node`s, and collects its mistakes."""

    def __init__(self, yaml: Any, source: str, fixed: Origin | None) -> None:
        self.yaml, self.source, self.fixed = yaml, source, fixed
        self.problems: list[str] = []
        self.open: set[int] = set()  # collections being built: meeting one again is a cycle
        self.built: set[int] = set()  # meeting one of these again is an alias
        self.repeated = 0  # size of what aliases have added

    def origin(self, node: Any) -> Origin:
        mark = node.start_mark
        return self.fixed or Origin(self.source, mark.line + 1, mark.column + 1)

    def build(self, node: Any, key: Origin) -> Node:
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        at = self.origin(node)
        if id(node) in self.open:
            self.problems.append(f"{at}: a value that contains itself (an alias to its own anchor)")
            return Node(None, at, key)
        self.count(node, at)
        self.open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return Node(dict(self.pairs(node)), at, key)
            if isinstance(node, SequenceNode):
                items = [self.build(child, self.origin(child)) for child in node.value]
                return Node(items, at, key)
            return Node(self.scalar(node), at, key)
        finally:
            self.open.discard(id(node))

    def count(self, node: Any, at: Origin) -> None:
        """Raise `ConfigError` if aliases make a short document a large one."""
        if id(node) in self.built:
            self.repeated += 16 + (len(node.value) if isinstance(node.value, str) else 0)
        self.built.add(id(node))
        if self.repeated > MOST_REPEATED:
            raise ConfigError(
                [f"{at}: the aliases (*NAME) of this text must add {MOST_REPEATED:,} bytes at "
                 "most. Write the values out, or leave some of them out."]
            )  # fmt: skip

    def pairs(self, node: Any) -> Iterator[tuple[str, Node]]:
        seen: dict[str, Origin] = {}
        for key, value in node.value:
            at, name = self.origin(key), key.value
            if not isinstance(name, str):
                self.problems.append(f"{at}: a key must be a plain word")
                continue
            if name in seen:
                self.problems.append(f"{at}: {name}: repeated key, first given at {seen[name]}")
                continue
            seen[name] = at
            yield name, self.build(value, at)

    def scalar(self, node: Any) -> Scalar:
        tag = str(node.tag)
        if tag.startswith("tag:yaml.org,2002:"):
            kind = tag.rsplit(":", 1)[1]
            if kind in ("int", "float", "bool", "null"):
                return self.number(node, kind)
            if kind in ("str", "timestamp", "merge", "value"):  # YAML 1.2 has no dates: a text
                return self.text(node)
        self.problems.append(f"{self.origin(node)}: the tag {tag} is not supported")
        return None

    def text(self, node: Any) -> Scalar:
        """Return a text; note a null character, which no path and no name may have."""
        if "\0" in node.value:
            self.problems.append(f"{self.origin(node)}: must have no null character. Leave it out.")
        return str(node.value)

    def number(self, node: Any, kind: str) -> Scalar:
        """Return a number, true, false or null; note malformed or long values."""
        try:
            value: Scalar = self.yaml.constructor.construct_object(node)
            if not isinstance(value, int) or value.bit_length() <= MOST_BITS:
                return value
        except (ValueError, LookupError, TypeError):
            pass
        text = str(node.value)
        shown = text if len(text) <= 40 else f"{text[:40]}... ({len(text):,} characters)"
        self.problems.append(
            f"{self.origin(node)}: {shown}: must be a YAML {kind} of at most {MOST_BITS} bits. "
            "Write it shorter, or in quotes if it is a text."
        )
        return None
