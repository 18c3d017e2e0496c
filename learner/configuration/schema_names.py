"""Find the names that a schema knows, and the one that a wrong name means."""

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import Any

from pydantic import BaseModel

from blocklearn.synonyms import meant, nearest

from .yaml_tree import Node


def suggestion(word: str, valid: Sequence[str]) -> str:
    """Return ` (did you mean 'topics'?)`, or an empty text if no valid name is near."""
    near = nearest(word, valid)
    return f" (did you mean {near!r}?)" if near else ""


class SchemaNames:
    """The valid names at a place of the given tree, found in the JSON Schema."""

    def __init__(self, schema: type[BaseModel]) -> None:
        self.root = schema.model_json_schema()
        self._members = {"str", *self.root.get("$defs", {})}

    def is_member(self, part: int | str) -> bool:
        """Return whether a part of the place of a mistake is an alternative of a union."""
        return part in self._members or str(part).startswith(("list[", "lax-or-strict["))

    def meant_by(self, mistakes: Sequence[Any], start: int = 0) -> list[Any]:
        """Return the mistakes that count: of the alternatives of a union, those of the likeliest.

        These take what is given, a list or a mapping, and find the fewest mistakes in it.

        mistakes: of pydantic. start: where in their places unions are looked for.
        """
        unions: dict[Any, dict[Any, list[Any]]] = {}  # mistakes by place and alternative
        found = []
        for mistake in mistakes:
            place = mistake["loc"]
            at = next((i for i in range(start, len(place)) if self.is_member(place[i])), None)
            if at is None:
                found.append(mistake)
            else:
                unions.setdefault(place[:at], {}).setdefault(place[at], []).append(mistake)
        for place, alternatives in unions.items():
            every = list(alternatives.values())
            roots = [[one for one in own if len(one["loc"]) == len(place) + 1] for own in every]
            fits = [not any(map(_is_of_another_type, root)) for root in roots]
            fitting = list(compress(every, fits)) or every
            least = min(map(len, fitting))
            for own in fitting:
                found += self.meant_by(own, len(place) + 1) if len(own) == least else []
        return found

    def at(self, trail: Sequence[Node]) -> list[str]:
        """Return the valid keys of the mapping at the end of `trail`."""
        return sorted(self._descend(trail).get("properties", {}))

    def kinds(self, trail: Sequence[Node]) -> list[str]:
        """Return the choices for `kind` of the mapping at the end of `trail`."""
        here = self._descend(trail, choose_last=False)
        return sorted(here.get("discriminator", {}).get("mapping", {}))

    def hint(self, word: str, valid: Sequence[str], tree: Node) -> str:
        """Return the suggestion of a name of `valid`, or of one in another section of `tree`."""
        if meant(word, valid):
            return suggestion(word, valid)
        homes = list(self.homes(word, tree))
        if not homes:
            return suggestion(word, valid)
        if "." in homes[0]:
            return f" (did you mean {homes[0]!r}?)"
        alone = self.root["properties"][homes[0]].get("type") == "string"
        what = "key {!r} beside the sections" if alone else "section {!r}"
        return f" (did you mean the {what.format(homes[0])}?)"

    def homes(self, word: str, tree: Node | None = None) -> Iterator[str]:
        """Yield dotted names such as `optimizer.rate` that mean `word`, one for each section.

        Sections most of whose kinds have such a name come first: most optimizers have a rate.

        tree: chooses by its keys `kind`; None: every kind of a section is searched.
        """
        homes: list[tuple[float, str]] = []
        for section, schema in self.root["properties"].items():
            if meant(word, [section]):
                kinds = self._open(schema, None).get("discriminator")
                homes.append((1.0, f"{section}.kind" if kinds else section))
            given = tree.value.get(section) if tree and isinstance(tree.value, dict) else None
            found = self._alternatives(schema, given.kind if isinstance(given, Node) else None)
            inside = [meant(word, one.get("properties", {})) for one in found]
            names = [name for name in inside if name]
            homes += [(len(names) / len(inside), f"{section}.{name}") for name in names[:1]]
        yield from (home for _, home in sorted(homes, key=lambda home: -home[0]))

    def _alternatives(self, schema: Any, kind: Any) -> list[Any]:
        """Return the schema of the alternative `kind`, or those of all alternatives."""
        opened = self._open(schema, kind)
        kinds = opened.get("discriminator", {}).get("mapping", {})
        return [self._open(opened, name) for name in kinds] or [opened]

    def _descend(self, trail: Sequence[Node], choose_last: bool = True) -> Any:
        schema: Any = self.root
        for depth, node in enumerate(trail):
            last = depth == len(trail) - 1
            schema = self._open(schema, node.kind if choose_last or not last else None)
            if not last and isinstance(node.value, list):
                schema = schema.get("items", {})
            elif not last:
                assert isinstance(node.value, dict)
                name = next(k for k, child in node.value.items() if child is trail[depth + 1])
                schema = schema.get("properties", {}).get(name, {})
        return schema

    def _open(self, schema: Any, kind: Any) -> Any:
        """Follow references and, if `kind` is given, the alternative that it chooses."""
        while True:
            if "$ref" in schema:
                schema = self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
            elif "discriminator" in schema and kind is not None:
                # a file may have a list or a mapping where the name of a kind should be
                target = schema["discriminator"]["mapping"].get(str(kind))
                schema = {"$ref": target} if target else {}
            elif "anyOf" in schema:  # `X | None`: take the alternatives that have contents
                inside = {"$ref", "oneOf", "properties", "items"}
                inner = [s for s in schema["anyOf"] if inside & set(s)]
                mappings = [self._open(s, None) for s in inner if "$ref" in s]
                if len(mappings) > 1:
                    items = {k: v for s in inner for k, v in s.items() if k == "items"}
                    keys = [mapping.get("properties", {}).items() for mapping in mappings]
                    return {"properties": dict(chain(*keys)), **items}
                schema = inner[0] if inner else {}
            else:
                return schema


def _is_of_another_type(mistake: Any) -> bool:
    """Return whether a list or a mapping stands where something else should."""
    wrong = ("string_type", "list_type", "model_type", "model_attributes_type")
    return mistake["type"] in wrong and isinstance(mistake["input"], list | dict)
