"""Decide whether a checkpoint is of the same run as a configuration, so that it may resume it."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from blocklearn.datasources.secrets import hidden_leaves

from ..configuration.class_names import without_folder
from ..configuration.leaves import flat
from ..errors import ConfigError
from .checkpoint import Checkpoint

log = logging.getLogger(__name__)

FREE = (
    "out",
    "evaluation",
    "checkpoint",
    "distributed",
    "learner.passes",
    "learner.threads",
    "learner.index",
    "learner.device_blocks",
    "learner.row_folder",
    "learner.table_folder",
    "learner.tables.device",
    "learner.tables.folder",
    "learner.tables.memory",
    "learner.ranking",
    "learner.log_every_seconds",
    "learner.watchdog_seconds",
    "learner.watchdog_exit_seconds",
    "learner.tensorboard",
    "learner.report",
    "learner.prometheus",
    "learner.mlflow",
    "learner.wandb",
    "learner.memory_limit",
)
"""Settings that may differ when a run resumes: they do not change what a pass computes."""

REPLICAS, DEVICES, WORKERS = "learner.replicas", "learner.devices", "distributed.workers"
"""What differs in a run with other workers: replicas and their devices are those of all."""

REMEDIES = "To resume, change this back; --overwrite starts afresh, --out DIR writes elsewhere."


def check_same(
    checkpoint: Checkpoint,
    config: Mapping[str, Any],
    fingerprint: str,
    eval_fingerprint: str | None = None,
    remedy: str = REMEDIES,
) -> None:
    """Raise `ConfigError`, naming the keys, if resuming would mix two different runs.

    Secrets, references in place of secrets, and folders of files with code may differ. So may the
    number of workers; if that changes the number of replicas, a warning says so.

    fingerprint: of the training data.
    eval_fingerprint: of the data for evaluations; None: they may differ.
    remedy: what the caller can do.
    """
    old, new = (dict(_compared(tree)) for tree in (checkpoint.config, config))
    workers, before = new.get(WORKERS), old.get(WORKERS)
    if workers != before and old.get(REPLICAS) != new.get(REPLICAS) and _each(old) == _each(new):
        log.warning(
            "continuing with workers=%s, but the run had %s: from here on, the model differs in "
            "its last bits from that of a run whose number of workers stays the same",
            workers, before,
        )  # fmt: skip
        old |= {name: new.get(name) for name in (REPLICAS, DEVICES)}
    keys = [key for key in sorted({*old, *new}) if not _free(key) and old.get(key) != new.get(key)]
    problems = [_difference(key, new.get(key), old.get(key)) for key in keys]
    pairs = {
        "data.train": (fingerprint, checkpoint.fingerprint),
        "data.eval": (eval_fingerprint, checkpoint.eval_fingerprint),
    }
    problems = problems or [
        f"{key}: the data have changed since the run was started (fingerprint {now}, was {was})"
        for key, (now, was) in pairs.items()
        if None not in (now, was) and now != was
    ]
    if problems:
        raise ConfigError([*problems, remedy])


def _compared(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each setting, as far as it tells runs apart."""
    for key, value in flat(hidden_leaves(config)):
        key = "learner.tables" if key == "learner.tables.read" else key
        yield key, without_folder(value) if key.endswith(".kind") else value


def _each(settings: Mapping[str, Any]) -> tuple[int, Any]:
    """Return the replicas of each worker, and their devices."""
    each = settings[REPLICAS] // (settings[WORKERS] or 1)
    return each, settings[DEVICES] and settings[DEVICES][:each]


def _difference(key: str, new: Any, old: Any) -> str:
    section, _, place = key.partition(".")
    if section == "code" and new and old:
        return (
            f"{key}: the file that {place}.kind names has changed since the run was started (its "
            f"XXH3 digest is {new}, was {old})"
        )
    return f"{key}: {new!r}, but the run was started with {old!r}"


def _free(key: str) -> bool:
    return any(key == free or key.startswith(f"{free}.") for free in FREE)
