"""Reference of configuration files, from the JSON Schema that `learn schema` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from inspect import getmodule
from typing import Any

from blocklearn.learner.configuration.config import RunConfig
from blocklearn.mixins import MIXINS
from blocklearn.models import MODELS
from blocklearn.optimizers import OPTIMIZERS

from .markdown import code, escaped, table

Schema = Mapping[str, Any]

BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
HUGE = 1e30  # a larger bound says only that a number is finite
WORDS = {
    "string": "text",
    "null": "`null`",
    "boolean": "`true`, `false`",
    "object": "mapping",
}


def configuration_page() -> str:
    """Return every key of a configuration: type, default and meaning."""
    return "\n".join(Reference(RunConfig.model_json_schema()).sections())


class Reference:
    """The sections of the page. A mapping is described once, at its first use."""

    def __init__(self, schema: Schema) -> None:
        """Start from the schema of a whole configuration."""
        self.root, self.definitions = schema, schema["$defs"]
        self.described: set[str] = set()

    def sections(self) -> Iterator[str]:
        """Yield the file, then each of its keys that holds a mapping."""
        yield "## The whole file\n"
        yield self.keys(self.root)
        for key, field in self.root["properties"].items():
            if names := self.mappings(field):
                if len(names) > 1:
                    yield f"## {key}\n"
                yield from self.below(key, names)

    def below(self, path: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the mappings that a key may hold, and those within them."""
        for name in names:
            if name in self.described:
                continue
            self.described.add(name)
            definition, several = self.definitions[name], len(names) > 1
            level = "###" if several or "." in path else "##"
            yield f"{level} {path}{addition(definition) if several else ''} {{#{name}}}\n"
            yield escaped(words_of(name, definition)) + "\n"
            yield self.keys(definition)
            for key, inner in definition["properties"].items():
                yield from self.below(f"{path}.{key}", self.mappings(inner))

    def keys(self, definition: Schema) -> str:
        """Return a table of the keys of a mapping."""
        required = definition.get("required", ())
        return table(
            ("key", "value", "default", "meaning"),
            (
                (
                    code(key),
                    self.values(field),
                    "required" if key in required else default(field),
                    escaped(field.get("description", "")),
                )
                for key, field in definition["properties"].items()
            ),
        )

    def mappings(self, field: Schema) -> list[str]:
        """Return names of the mappings that a value may be or hold, in order."""
        if "$ref" in field:
            return [name_of(field)]
        inner = [*field.get("anyOf", ()), *field.get("oneOf", ())]
        inner += [field["items"]] if isinstance(field.get("items"), Mapping) else []
        return list(dict.fromkeys(name for part in inner for name in self.mappings(part)))

    def values(self, field: Schema) -> str:
        """Return the values that a field may have, in words."""
        if "$ref" in field:
            name = name_of(field)
            return f"[{kind_of(self.definitions[name]) or 'mapping'}](#{name})"
        if choices := field.get("anyOf", field.get("oneOf")):
            between = ", " if "oneOf" in field else " or "
            return between.join(dict.fromkeys(self.values(part) for part in choices))
        if "const" in field:
            return code(field["const"])
        if "enum" in field:
            return ", ".join(map(code, field["enum"]))
        if field.get("type") == "array":
            parts = [*field.get("prefixItems", ()), field.get("items") or {}]
            inner = dict.fromkeys(self.values(part) for part in parts if part)
            return f"list: {' or '.join(inner)}"
        if field.get("format") == "path":
            return "path"
        kind = str(field["type"])
        return WORDS.get(kind, kind) + bounds(field)


def words_of(name: str, definition: Schema) -> str:
    """Return the description of a mapping.

    Models, optimizers and mixins include the equations of their modules.
    """
    words: str = definition.get("description", "")
    kinds = {cls.__name__: cls for group in (MODELS, OPTIMIZERS, MIXINS) for cls in group.values()}
    return f"{getmodule(kinds[name]).__doc__}\n\n{words}" if name in kinds else words


def name_of(field: Schema) -> str:
    """Return the name of a mapping that is defined elsewhere in the schema."""
    name: str = field["$ref"].rpartition("/")[2]
    return name


def kind_of(definition: Schema) -> str | None:
    """Return the `kind` that tells a mapping from its alternatives."""
    kind: str | None = definition["properties"].get("kind", {}).get("const")
    return kind


def addition(definition: Schema) -> str:
    """Return what tells a mapping's heading from those of its alternatives."""
    if (kind := kind_of(definition)) is not None:
        return f": {kind}"
    required = definition.get("required", ())
    return f": with {required[0]}" if len(required) == 1 else ""


def default(field: Schema) -> str:
    """Return the default as YAML; a mapping's defaults are in its own table."""
    if "default" not in field:
        return "`[]`" if field.get("type") == "array" else ""
    value = field["default"]
    if isinstance(value, Mapping):
        return code(value["kind"]) if "kind" in value else "see there"
    return code(value if isinstance(value, str) else json.dumps(value))


def bounds(field: Schema) -> str:
    """Return the bounds of a number.

    >>> bounds({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
    ' > 0, ≤ 1'
    """
    found = [
        f"{sign} {field[key]:,}"
        for key, sign in BOUNDS.items()
        if key in field and abs(field[key]) < HUGE
    ]
    return " " + ", ".join(found) if found else ""
