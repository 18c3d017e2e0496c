"""Kinds of models, optimizers, mixins and data that configurations can name, own ones included.

A kind that is not built in is a class of the user's: `kmeans.py:KMeans`, `my_package:KMeans`, or an
entry point that an installed package registers. The schema of the configuration is extended by
these classes, so they are validated and reported like built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, create_model, model_validator

from blocklearn.datasources import DataError, DataKind, DataSource, Reading
from blocklearn.datasources.config import Holdout, Kind
from blocklearn.mixins import MIXINS, Mixin
from blocklearn.models import MODELS, Block, Model, Randomness, Score, Shapes
from blocklearn.optimizers import OPTIMIZERS, Optimizer

from .class_names import ClassNameError, class_name, load_class, registered
from .config import DataConfig, OneOf, RunConfig
from .yaml_tree import Node


class Group(NamedTuple):
    """What a section of the configuration chooses among.

    Attributes:
        base: the base class.
        kinds: the built-in classes by kind.
    """

    base: type[BaseModel]
    kinds: Mapping[str, type[BaseModel]]


DATA: dict[str, type[BaseModel]] = {cls.model_fields["kind"].default: cls for cls in get_args(Kind)}
GROUPS = {
    "models": Group(Model, MODELS),
    "optimizers": Group(Optimizer, OPTIMIZERS),
    "mixins": Group(Mixin, MIXINS),
    "data": Group(DataKind, DATA),
}
"""By the last word of the group of entry points: `blocklearn.models` and so on."""

Found = Mapping[str, Mapping[str, type[Any]]]
"""Classes by group and kind."""


class Place(NamedTuple):
    """A section that names a kind which is not built in.

    Attributes:
        key: the dotted key of the section, such as "mixins.0".
        group: the name of its group.
        section: the section, which may be changed.
        node: the same with origins.
    """

    key: str
    group: str
    section: dict[str, Any]
    node: Node

    def rename(self, kind: str) -> None:
        """Write another name of the same class into the section."""
        self.section["kind"] = kind
        assert isinstance(self.node.value, dict)
        self.node.value["kind"].value = kind


def own_classes(tree: Node, given: Any, problems: list[str]) -> type[RunConfig]:
    """Import the classes that a configuration names; return the schema that has them.

    Paths are relative to the file that has them, otherwise to the working directory. Kinds become
    `module:CLASS`, with whole paths, and `code` gets the digest of each file.

    tree, given: the configuration with origins, and its values, which are changed.
    problems: receives a line for each class that cannot be loaded.
    """
    found: dict[str, dict[str, type[Any]]] = {}
    digests: dict[str, str] = {}
    for place in _places(tree, given):
        assert isinstance(place.node.value, dict)
        written, at = place.section["kind"], place.node.value["kind"].at
        folder = Path() if at.line is None else Path(at.source).parent
        try:
            named = class_name(written, place.group, folder)
            if named is None:
                continue  # unknown: the schema's error lists those it knows
            found_class, digest = load_class(named, GROUPS[place.group].base)
        except ClassNameError as error:
            problems.append(f"{at}: {place.key}.kind={written!r}: {error}")
            continue
        found.setdefault(place.group, {})[str(named)] = with_kind(found_class, str(named))
        place.rename(str(named))
        digests[place.key] = digest
    _pin(given, digests, problems)
    return extended(found)


def _pin(given: Any, digests: Mapping[str, str], problems: list[str]) -> None:
    """Write the digests into `given`; one that is there already must be the same."""
    pinned = given.get("code")
    for key, digest in digests.items():
        known = pinned.get(key, digest) if isinstance(pinned, dict) else digest
        if known != digest:
            problems.append(
                f"code.{key}={known!r}: must be the digest of the file that {key}.kind names, "
                f"{digest}. Take the file from a copy, or leave this key out to use it as it is."
            )
    if digests:
        given["code"] = digests


def named_class(text: str, group: str) -> type[Any] | None:
    """Import the class that `text` names; None: `text` has no colon, and no package registers it.

    text: as in a configuration; paths are relative to the working directory.
    group: such as "models".

    Raises:
        ClassNameError: it cannot be imported.
    """
    named = class_name(text, group, Path())
    return None if named is None else load_class(named, GROUPS[group].base)[0]


def left_unread(tree: Node, given: Any, problems: list[str]) -> type[RunConfig]:
    """Return a schema for the configuration in a run folder, of which no code is imported.

    A model and data of own classes become stand-ins; own optimizers and mixins are left out. So are
    evaluations: only training reads them, and an earlier version may have taken others.
    """
    given.pop("evaluation", None)
    found: dict[str, dict[str, type[Any]]] = {}
    dropped = []
    for place in list(_places(tree, given)):
        kind = place.section["kind"]
        if ":" not in kind:
            continue
        if place.group in STAND_INS:
            found.setdefault(place.group, {})[kind] = with_kind(STAND_INS[place.group], kind)
        else:
            dropped.append(place.section)
    if given.get("optimizer") in dropped:
        given["optimizer"] = None
    if isinstance(given.get("mixins"), list):
        given["mixins"] = [mixin for mixin in given["mixins"] if mixin not in dropped]
    return extended(found, TrainedConfig)


class TrainedConfig(RunConfig):
    """The configuration of a run, maybe of an earlier version, whose model is used."""

    @model_validator(mode="after")
    def _has_ratings(self) -> Self:
        return self  # what a model is trained on is not refused later


class UnreadModel(Model, extra="allow"):
    """Stands for a model of an own class in the configuration of a finished run."""

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Refuse: the class is unknown."""
        raise NotImplementedError("its class is not imported")

    def update(self, block: Block) -> None:
        """Refuse, too."""
        raise NotImplementedError("its class is not imported")

    def score(self, block: Block) -> Score:
        """Refuse, too."""
        raise NotImplementedError("its class is not imported")

    def predict(self, block: Block) -> Any:
        """Refuse, too."""
        raise NotImplementedError("its class is not imported")


class UnreadData(DataKind, extra="allow"):
    """Stands for data of an own class in the configuration of a finished run."""

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Refuse: the class is unknown."""
        raise DataError(
            f"data of kind {getattr(self, 'kind', '')} are read by code of yours, and a run folder "
            "never imports code."
        )


STAND_INS: dict[str, Any] = {"models": UnreadModel, "data": UnreadData}


def _places(tree: Node, given: Any) -> Iterator[Place]:
    """Yield the sections of the configuration whose kind is a text, but not a built-in one."""
    mixins = given.get("mixins")
    keys = [("models", "model"), ("optimizers", "optimizer")]
    keys += [("mixins", f"mixins.{i}") for i in range(len(mixins) if type(mixins) is list else 0)]
    keys += [("data", "data.train"), ("data", "data.eval")]
    for group, key in keys:
        section, node = given, tree
        for part in key.split("."):
            if isinstance(section, list) and part.isdigit():
                assert isinstance(node.value, list)
                section, node = section[int(part)], node.value[int(part)]
            elif isinstance(section, dict) and part in section:
                assert isinstance(node.value, dict)
                section, node = section[part], node.value[part]
            else:
                section = None
        kind = section.get("kind") if isinstance(section, dict) else None
        if not isinstance(kind, str):
            continue
        if kind not in GROUPS[group].kinds and (key, kind) != ("data.eval", "holdout"):
            yield Place(key, group, section, node)


@cache
def with_kind(cls: Any, kind: str) -> type[Any]:
    """Return a subclass of `cls` that has `kind` as its field `kind`, as built-in classes do."""
    create: Any = create_model
    found: type[Any] = create(
        cls.__name__,
        __base__=cls,
        __module__=cls.__module__,
        __doc__=cls.__doc__,
        kind=(Literal.__getitem__(kind), kind),
    )
    if "reads_occurring" in vars(cls):  # which subclasses do not inherit
        found.reads_occurring = cls.reads_occurring
    return found


def extended(found: Found, base: type[RunConfig] = RunConfig) -> type[RunConfig]:
    """Return the schema `base` of configurations, with more kinds."""
    if not any(found.values()):
        return base
    choices = {group: {**GROUPS[group].kinds, **found.get(group, {})} for group in GROUPS}
    fields: dict[str, Any] = {
        "model": Annotated[Model, OneOf(choices["models"])],
        "optimizer": Annotated[Optimizer, OneOf(choices["optimizers"])] | None,
        "mixins": list[Annotated[Mixin, OneOf(choices["mixins"])]],
        "data": _data_config(choices["data"]),
    }
    own = {name: (kind, copy(RunConfig.model_fields[name])) for name, kind in fields.items()}
    create: Any = create_model
    schema: type[RunConfig] = create("RunConfig", __base__=base, **own)
    return schema


def _data_config(kinds: Mapping[str, type[Any]]) -> type[DataConfig]:
    held_out = OneOf({**kinds, "holdout": Holdout})
    return create_model(
        "DataConfig",
        __base__=DataConfig,
        train=(Annotated[DataKind, OneOf(kinds)], ...),
        eval=(Annotated[DataKind | Holdout, held_out] | None, None),
    )


def kind_lines() -> Iterator[str]:
    """Yield a line for each kind: group, kind, and what it is or which package has it."""
    for group, (_, kinds) in GROUPS.items():
        for kind, cls in kinds.items():
            yield _line(group, kind, (cls.__doc__ or "").partition("\n")[0])
        for entry in registered(group):
            package = entry.dist
            origin = f" of {package.name} {package.version}" if package is not None else ""
            yield _line(group, entry.name, f"{entry.module}:{entry.attr}{origin}")


def _line(group: str, kind: str, about: str) -> str:
    return f"{group:<11} {kind:<20} {about}".rstrip()
