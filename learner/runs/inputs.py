"""Open the data of a configuration, and settle what it leaves open.

What is open is decided by the number of passes (`of_length`), then by files and devices
(`settled`), by the open data (`sized`), and last by trials (`decided.py`).
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from blocklearn.datasources import (
    DataError,
    DataKind,
    DataSource,
    Holdout,
    Reading,
    target_names,
)
from blocklearn.datasources.arrays.same_names import check_names
from blocklearn.datasources.listing import require_data
from blocklearn.datasources.packed.unpacked_size import unpacked_bytes
from blocklearn.matcache.errors import MemoryPlanError
from blocklearn.models import GLM, Model
from blocklearn.models.glm.targets import Target

from ..configuration.config import DataConfig, LearnerConfig, RunConfig
from ..configuration.references import left_out
from ..conversion.folder import states
from ..errors import ConfigError
from ..figures import size
from ..memory import memory_limits
from ..training.settings.devices import one_each

TRAIN, EVAL = "data.train", "data.eval"  # keys of the configuration


Sources = tuple[DataSource, DataSource | None]
"""The data to train on, and those to evaluate on."""


def open_data(config: RunConfig, handed: Mapping[str, DataSource] | None = None) -> Sources:
    """Open the sources to train on and, if configured, to evaluate on.

    Both have the same columns.

    handed: those that another worker has read, by `TRAIN` and `EVAL`.

    Raises:
        FileNotFoundError: a file that the configuration names does not exist.
        DataError: a file cannot be read.
    """
    data, seed, passes = config.data, config.learner.seed, config.learner.passes
    handed = handed or {}
    own = {name: kind for name, kind in kinds_of(data).items() if name not in handed}
    require_files(own)
    check_fits(own.values())
    rows = config.model.rows_of_block if data.block_rows == "auto" else data.block_rows
    in_order = config.model.steps_by_pass or config.model.rows_in_order
    shuffle = False if in_order else data.shuffle
    counts = config.model.takes_counts or config.model.nonnegative
    reading = Reading(rows, shuffle, seed, passes, counts)
    held = replace(reading, shuffle=False, visits=config.evaluation.visits(passes))
    if isinstance(data.eval, Holdout) and not handed:
        return data.train.hold_out(data.eval.share, reading, held, data.eval.by)
    train = handed[TRAIN] if TRAIN in handed else data.train.open_source(reading)
    if not isinstance(data.eval, DataKind) or EVAL in handed:
        return train, handed.get(EVAL)
    other = data.eval.open_source(held.like(train), like=train)
    check_same_columns(train, other)
    return train, other


def kinds_of(data: DataConfig) -> dict[str, DataKind]:
    """Return the data that are described, by name: held-out rows are none of their own."""
    parts = {TRAIN: data.train, EVAL: data.eval}
    return {name: part for name, part in parts.items() if isinstance(part, DataKind)}


def fingerprints(train: DataSource, eval: DataSource | None) -> dict[str, str | None]:
    """Return what tells the data apart from others, by key of the configuration."""
    held_out = None if eval is None else eval.fingerprint
    return {TRAIN: train.fingerprint, EVAL: held_out}


def sized(
    config: RunConfig, train: DataSource, begun: Mapping[str, Any] | None = None
) -> RunConfig:
    """Return `config` with what its data decide: settings of the model, and rows of a block.

    begun: see `of_length`; what the data decided then is in `config` already.
    """
    data = config.data
    if data.block_rows == "auto":
        data = data.model_copy(update={"block_rows": train.shape.rows})
    model, passes = config.model, config.learner.passes
    if begun is None:
        model = model.for_data(train, passes)
    return config.model_copy(update={"data": data, "model": model})


def of_length(config: RunConfig, begun: Mapping[str, Any] | None = None) -> RunConfig:
    """Return `config` with the settings of the model that the number of passes decides.

    begun: the configuration of the run that resumes: what it decided stays.
    """
    fields = None if begun is None else begun.get("model", {})
    model = config.model.for_run(config.learner.passes, fields)
    return config.model_copy(update={"model": model})


def settled(config: RunConfig, begun: Mapping[str, Any] | None = None) -> RunConfig:
    """Return `config` with the settings that the run's length, data and devices decide.

    begun: see `of_length`. Raises as `open_data`.
    """
    config = of_length(config, begun)
    data = config.data
    require_files(kinds_of(data))
    train = data.train.settled()
    eval_ = data.eval.settled(train) if isinstance(data.eval, DataKind) else data.eval
    return with_kinds(config, train, eval_)


def with_kinds(config: RunConfig, train: DataKind, eval: DataKind | Holdout | None) -> RunConfig:
    """Return `config` with settled data, and with what follows from them and from its devices."""
    data = config.data.model_copy(update={"train": train, "eval": eval})
    model = with_group_named(config.model, train)
    learner = with_replicas(config.learner)
    return config.model_copy(update={"data": data, "model": model, "learner": learner})


def with_group_named(model: Model, train: DataKind) -> Model:
    """Return `model` with its softmax group named after the column of classes in `train`.

    A model with targets of its own, and one of another link, is returned as it is.
    """
    group = train.group
    if group is None or not isinstance(model, GLM):
        return model
    if model.link != "softmax" or model.targets is not None:
        return model
    name, classes = group
    target = Target(name=name, link="softmax", columns=list(range(classes)))
    return model.model_copy(update={"targets": [target]})


def with_replicas(learner: LearnerConfig) -> LearnerConfig:
    """Return `learner` with the number of replicas, and the devices of several."""
    if learner.replicas != "auto":
        return learner
    each = one_each(learner.devices or learner.device, "auto")
    devices = learner.devices or (each if len(each) > 1 else None)
    return learner.model_copy(update={"replicas": len(each), "devices": devices})


def require_files(kinds: Mapping[str, DataKind]) -> None:
    """Check that all files of data exist and all their URLs are whole. kinds: by name.

    Raises:
        FileNotFoundError: a file that the configuration names does not exist.
        ConfigError: a secret was left out of a URL when a run wrote the configuration.
    """
    lacking = [
        f"{key}={url}: must be the whole URL, but a secret was left out of it (***). Write "
        "${NAME} there and set this variable, or use the configuration that the run began with."
        for name, kind in kinds.items()
        for key, url in left_out(kind.model_dump(mode="json"), (name,))
    ]
    if lacking:
        raise ConfigError(lacking)
    for kind in kinds.values():
        for path in kind.files():
            require_data(path)


def check_fits(parts: Iterable[DataKind]) -> None:
    """Raise `MemoryPlanError` if data to be read into memory do not fit there.

    Packed files count with their unpacked size where they state it.
    """
    kinds = {file: part for part in parts for file in part.in_memory()}
    files = {file: unpacked(file) for file in kinds}
    left, limit = min(((n, what) for what, n in memory_limits().items()), default=(0, ""))
    if limit and sum(files.values()) > left:
        largest = max(files, key=files.__getitem__)
        raise MemoryPlanError(
            f"{largest}: {size(files[largest])} of data that would be read into memory, of "
            f"which {size(left)} are {limit}. Convert it to blocks, which are read one by one: "
            f"`learn convert {largest} DIR{conversion_options(kinds[largest], largest)}`, then "
            "{kind: blocks, paths: [DIR]}."
        )


def conversion_options(kind: DataKind, file: Path) -> str:
    """Return the options with which `learn convert` reads `file` as data of `kind`."""
    format, options = kind.conversion(str(file)) or (None, {})
    given = {"format": format, **options}
    return "".join(
        f" --{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(value)}")
        for name, value in given.items()
        if value not in (None, False)
    )


def unpacked(name: Path) -> int:
    """Return the bytes of a file or folder, unpacked where files state this."""
    return sum(unpacked_bytes(Path(file)) for file, _, _ in states(name))


def check_same_columns(train: DataSource, other: DataSource) -> None:
    """Raise `DataError` if a model trained on `train` cannot be scored on `other`."""
    for what, here, there in [
        ("columns", train.shape.columns, other.shape.columns),
        ("targets", train.shape.targets, other.shape.targets),
    ]:
        if here != there:
            raise DataError(
                f"data.eval has {there:,} {what}, but data.train has {here:,}; give both the same "
                "settings."
            )
    check_names(EVAL, other.names, train.names)
    if train.shape.targets > 1:  # one may be called otherwise in other files
        check_names(EVAL, target_names(other), target_names(train), "target")
