"""What the JSON files of models, checkpoints and runs may say: checked before anything is used.

A digest finds a flipped bit. It does not find what was edited by hand, or what another program
wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from blocklearn.datasources.arrays.feature_hashing import MOST_BITS

from ..errors import ModelFolderError

MOST = 2**62
"""No count is as large."""

SHOWN = 60
"""Letters of a wrong value that a message shows."""

Count = Annotated[int, Field(ge=0, lt=MOST)]
Seconds = Annotated[FiniteFloat, Field(ge=0, lt=1e12)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Dtype = Literal[
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool",
]  # fmt: skip


class Part(BaseModel):
    """A mapping of a file. Unknown keys are left alone: a later version may have them."""

    model_config = ConfigDict(strict=True, extra="allow")


class FileEntry(Part):
    """A file of the folder."""

    bytes: Count
    xxh3_128: Digest


class TensorEntry(Part):
    """An array."""

    shape: list[Count]
    dtype: Dtype
    xxh3_128: Digest


class Manifest(Part):
    """What all manifests have."""

    files: dict[str, FileEntry]
    tensors: dict[str, TensorEntry]
    config: dict[str, Any]
    fingerprint: str


class Output(Part):
    """What a column of predictions is."""

    name: str
    fit: str
    link: str


class ModelManifest(Manifest):
    """`model.json`."""

    kind: str
    hash_bits: Annotated[int, Field(ge=1, le=MOST_BITS)] | None = None
    targets: Count = 0
    target_names: list[str] | None = None
    outputs: list[Output] | None = None
    created: str
    libraries: dict[str, str]


class ModelMetrics(Part):
    """`metrics.json`: where training ended, and scores; null: one that is not a finite number."""

    __pydantic_extra__: dict[str, FiniteFloat | str | None] = Field(init=False)

    passes: Count = 0
    rows: Count = 0
    seconds: Seconds = 0.0
    model: str | None = None


class BestPosition(Part):
    """The best evaluation so far."""

    metric: str
    score: FiniteFloat
    pass_: Count
    block: Count
    waited: Count = 0


class Paused(Part):
    """An optimizer, of a replica."""

    steps: Count
    phase: Count
    time: FiniteFloat = 0.0
    reading: bool = False
    sparse: list[str] = []


class NoOptimizer(BaseModel):
    """`{}`: of a model that has none."""

    model_config = ConfigDict(extra="forbid")


class Position(Part):
    """Where a checkpoint stands. steps, phase: of version 1."""

    pass_: Count = Field(alias="pass")
    block: Count = 0
    rows: Count
    seconds: Seconds = 0.0
    optimizers: Annotated[list[Paused | NoOptimizer], Field(min_length=1)] = [NoOptimizer()]
    best: BestPosition | None = None
    steps: Count | list[Count] = 0
    phase: Count = 0


class CheckpointManifest(Manifest):
    """`checkpoint.json`."""

    position: Position
    scores: dict[str, FiniteFloat | None]


class RunMark(Part):
    """`run.json`."""

    format: Literal["blocklearn run"]
    version: Literal[1]
    started: str
    command: list[str]
    folder: str
    host: str
    blocklearn: str


def check_content(schema: type[BaseModel], content: Any, path: Path) -> None:
    """Raises `ModelFolderError` that names the first field of `content`, of the file `path`, that
    `schema` refuses.
    """
    try:
        schema.model_validate(content)
    except ValidationError as error:
        raise ModelFolderError(f"{path}: {first_field(error, content)} {REMEDY}") from None


REMEDY = "The file was edited or damaged: take it from a copy of the folder."


def first_field(error: ValidationError, content: Any) -> str:
    """`targets=-1: must be greater than or equal to 0.`: the first mistake that pydantic found.

    Of the members of a union, whose names are in pydantic's location, the field itself is named.
    """
    item = error.errors(include_url=False, include_context=False)[0]
    place, value = [], content
    for part in item["loc"]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            if item["type"] == "missing":
                place.append(str(part))
            break
        place.append(str(part))
    name = ".".join(place) or "content"
    if item["type"] == "missing":
        return f"{name}: must be there."
    rule = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{name}={shown(value)}: must be {rule.rstrip('.')}."


def shown(value: Any) -> str:
    """A value as JSON, not too long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def read_json(schema: type[BaseModel], path: Path) -> dict[str, Any]:
    """The mapping in the JSON file `path`, which `schema` accepts.

    Raises:
        FileNotFoundError: there is no such file.
        ModelFolderError: it is damaged.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ModelFolderError(f"{path}: damaged, it is not JSON") from None
    check_content(schema, content, path)
    found: dict[str, Any] = content
    return found


def check_counts(content: Mapping[str, Any], path: Path) -> None:
    """Raises `ModelFolderError` where numbers of `model.json` contradict each other."""
    targets, names = content.get("targets", 0), content.get("target_names")
    if names is not None and len(names) != targets:
        raise ModelFolderError(
            f"{path}: target_names={shown(names)}: must be as many as targets={targets}. {REMEDY}"
        )
