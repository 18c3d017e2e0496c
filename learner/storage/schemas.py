"""Schemas of the JSON files of models, checkpoints and runs.

Files are checked before anything is used. A digest finds a flipped bit. A schema finds wrong values
that were edited by hand or written by another program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from blocklearn.datasources.arrays.hashed_names import MOST_BITS
from blocklearn.fields import plain_rule

from ..errors import ModelFolderError

MOST = 2**62
"""All counts are smaller than this."""

SHOWN = 60
"""The number of characters of a wrong value that a message shows."""

Count = Annotated[int, Field(ge=0, lt=MOST)]
Seconds = Annotated[FiniteFloat, Field(ge=0, lt=1e12)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Dtype = Literal[
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool",
]  # fmt: skip


class Part(BaseModel):
    """A mapping in a file. Unknown keys are accepted: a later version may write them."""

    model_config = ConfigDict(strict=True, extra="allow")


class FileEntry(Part):
    """The manifest's entry for a file of the folder."""

    bytes: Count
    xxh3_128: Digest


class TensorEntry(Part):
    """The manifest's entry for an array."""

    shape: list[Count]
    dtype: Dtype
    xxh3_128: Digest


class Manifest(Part):
    """The fields that all manifests have."""

    files: dict[str, FileEntry]
    tensors: dict[str, TensorEntry]
    config: dict[str, Any]
    fingerprint: str


class Output(Part):
    """The description of a column of predictions."""

    name: str
    fit: str
    link: str


class ModelManifest(Manifest):
    """`model.json`."""

    kind: str
    hash_bits: Annotated[int, Field(ge=1, le=MOST_BITS)] | None = None
    targets: Count = 0
    columns: Count | None = None
    target_names: list[str] | None = None
    outputs: list[Output] | None = None
    created: str
    libraries: dict[str, str]


class ModelMetrics(Part):
    """`metrics.json`: end of training, and scores; null: not finite."""

    __pydantic_extra__: dict[str, FiniteFloat | str | None] = Field(init=False)

    passes: Count = 0
    rows: Count = 0
    seconds: Seconds = 0.0
    steps: Count | None = None
    phase: Count | None = None
    model: str | None = None


class BestPosition(Part):
    """Score and position of the best evaluation so far."""

    metric: str
    score: FiniteFloat
    pass_: Count
    block: Count
    waited: Count = 0


class Paused(Part):
    """The state of a replica's optimizer."""

    steps: Count
    phase: Count
    time: FiniteFloat = 0.0
    reading: bool = False
    sparse: list[str] = []


class NoOptimizer(BaseModel):
    """`{}`: the model has no optimizer."""

    model_config = ConfigDict(extra="forbid")


class Position(Part):
    """The position of a checkpoint. `steps` and `phase` come from version 1."""

    pass_: Count = Field(alias="pass")
    block: Count = 0
    rows: Count
    seconds: Seconds = 0.0
    optimizers: Annotated[list[Paused | NoOptimizer], Field(min_length=1)] = [NoOptimizer()]
    best: BestPosition | None = None
    steps: Count | list[Count] = 0
    phase: Count = 0


class PageLogs(Part):
    """The logs of tables in files: see `page_logs.py`."""

    group: Count
    shapes: dict[str, list[Count]]
    groups: Count
    number: Count
    logs: dict[str, dict[str, TensorEntry]]


class CheckpointManifest(Manifest):
    """`checkpoint.json`."""

    position: Position
    scores: dict[str, FiniteFloat | None]
    eval_fingerprint: str | None = None
    pages: PageLogs | None = None
    parts: Annotated[dict[str, dict[str, TensorEntry]], Field(min_length=1)] | None = None


class RunMark(Part):
    """`run.json`."""

    format: Literal["blocklearn run"]
    version: Literal[1]
    started: str
    command: list[str]
    folder: str
    host: str
    blocklearn: str


class PlanRow(Part):
    """An array of `plan.json`."""

    name: str
    shape: list[Count]
    dtype: str
    nbytes: Count
    of: str = "model"
    copies: Count = 1
    in_file: bool = False
    device: str = ""


class PlanDevice(Part):
    """A device of `plan.json`."""

    device: str
    replicas: Count
    free: Count


class PlanFile(Part):
    """`plan.json`: the memory plan of a run."""

    rows: list[PlanRow]
    devices: list[PlanDevice] = []


class TriedFile(Part):
    """`tried.json`: the settings that a run chose among; a score of null is not a number."""

    metric: str
    passes: Count
    parts: Count = 1
    tried: list[dict[str, FiniteFloat | None]]
    settings: dict[str, FiniteFloat | None]


def check_content(schema: type[BaseModel], content: Any, path: Path | str) -> None:
    """Raise `ModelFolderError` for the first field that `schema` refuses.

    path: the file of `content`, and maybe its line, for the message.
    """
    try:
        schema.model_validate(content)
    except ValidationError as error:
        raise ModelFolderError(f"{path}: {first_field(error, content)} {REMEDY}") from None


REMEDY = "The file was edited or damaged: take it from a copy of the folder."


def first_field(error: ValidationError, content: Any) -> str:
    """Describe pydantic's first error as `NAME=VALUE: RULE`, such as `topics=0: must be above 0`.

    pydantic's location includes the member of a union. The description has only the field.
    """
    item = error.errors(include_url=False, include_context=False)[0]
    place, value = [], content
    for part in item["loc"]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            if item["type"] == "missing":
                place.append(str(item["loc"][-1]))
            break
        place.append(str(part))
    name = ".".join(place) or "content"
    if item["type"] == "missing":
        return f"{name}: is missing."
    rule = "must not be there" if item["type"] == "extra_forbidden" else plain_rule(item["msg"])
    return f"{name}={shown(value)}: {rule.rstrip('.')}."


def shown(value: Any) -> str:
    """Return a value as JSON, cut to `SHOWN` characters."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def read_json(schema: type[BaseModel], path: Path) -> dict[str, Any]:
    """Read the mapping in the JSON file `path`, and check it by `schema`.

    Raises:
        FileNotFoundError: there is no such file.
        ModelFolderError: the file is damaged, or `schema` refuses a field.
    """
    found: dict[str, Any] = parsed(path.read_bytes(), path)
    check_content(schema, found, path)
    return found


def parsed(text: bytes, path: Path) -> Any:
    """Return the contents of the JSON file `path`. Raises `ModelFolderError` if it is damaged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFolderError(f"{path}: damaged: not JSON") from None


def check_counts(content: Mapping[str, Any], path: Path) -> None:
    """Raise `ModelFolderError` if numbers in `model.json` contradict each other."""
    targets, names = content.get("targets", 0), content.get("target_names")
    if names is not None and len(names) != targets:
        raise ModelFolderError(
            f"{path}: target_names={shown(names)}: must be as many as targets={targets}. {REMEDY}"
        )
