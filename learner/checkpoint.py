"""Everything needed to go on with a run as if it had never stopped, kept after each pass.

A checkpoint is a folder `pass-0003` (three passes are done) with `state.safetensors`, the arrays
of the learner's state, and `checkpoint.json`: where it stands, the configuration, and the
fingerprint of the data. It is complete or absent, and verified when read.
"""

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .durable import current, write_folder
from .errors import ConfigError, ModelFolderError, ModelMissingError
from .hooks import Hook, Progress
from .learner import Learner, State
from .manifest import finite, read_manifest, verified, write_manifest
from .tensor_file import read_tensors, write_tensors

FORMAT = "blocklearn checkpoint"
MANIFEST = "checkpoint.json"
STATE = "state.safetensors"
NAME = re.compile(r"pass-(\d{4,})")
KEEP = 2

FREE = (
    "out",
    "learner.passes",
    "learner.threads",
    "learner.row_folder",
    "learner.eval_every",
    "learner.log_every_seconds",
)
"""Settings that may differ when a run goes on: they do not change what a pass computes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A learner's `state` after `passes` passes and `rows` rows, with what it belongs to.

    scores: of the latest evaluation.
    """

    passes: int
    rows: int
    state: State
    scores: dict[str, float]
    config: dict[str, Any]
    fingerprint: str


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes `checkpoint` into a new folder in `folder`, drops older ones, and returns its path."""
    path = folder / f"pass-{checkpoint.passes:04d}"

    def fill(staging: Path) -> None:
        content = {
            "passes": checkpoint.passes,
            "rows": checkpoint.rows,
            "position": checkpoint.state.position,
            "scores": {name: finite(value) for name, value in checkpoint.scores.items()},
            "tensors": write_tensors(staging / STATE, checkpoint.state.tensors),
            "config": checkpoint.config,
            "fingerprint": checkpoint.fingerprint,
        }
        write_manifest(staging, MANIFEST, format=FORMAT, content=content, files=[STATE])

    write_folder(path, fill)
    for _, old in list(_existing(folder))[KEEP:]:
        shutil.rmtree(old)
    return path


def read(path: Path) -> Checkpoint:
    """The checkpoint in the folder `path`.

    Raises:
        ModelFolderError, ModelMissingError: a file is missing, damaged, or of a newer format.
    """
    folder = current(path)
    manifest = read_manifest(folder, MANIFEST, format=FORMAT, missing="no checkpoint.json here")
    tensors = read_tensors(verified(folder, STATE, manifest), manifest["tensors"])
    return Checkpoint(
        passes=manifest["passes"],
        rows=manifest["rows"],
        state=State(tensors=tensors, position=manifest["position"]),
        scores=manifest["scores"],
        config=manifest["config"],
        fingerprint=manifest["fingerprint"],
    )


def newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint in `folder` that is intact; None if there is none at all.

    Raises:
        ModelFolderError: there are some, and none is intact.
    """
    failures = []
    for _, path in _existing(folder):
        try:
            return read(path)
        except (ModelFolderError, ModelMissingError) as error:
            log.warning("%s; trying the one before", error)
            failures.append(str(error))
    if failures:
        raise ModelFolderError(
            "\n".join(failures) + "\nNo checkpoint is intact; --overwrite starts afresh."
        )
    return None


def check_same(checkpoint: Checkpoint, config: Mapping[str, Any], fingerprint: str) -> None:
    """Raises `ConfigError`, naming the keys, if going on would mix two different runs."""
    old, new = dict(_flat(checkpoint.config)), dict(_flat(config))
    keys = [key for key in sorted({*old, *new}) if key not in FREE and old.get(key) != new.get(key)]
    problems = [
        f"{key}: {new.get(key)!r}, but the run was started with {old.get(key)!r}" for key in keys
    ]
    if not problems and checkpoint.fingerprint != fingerprint:
        problems = [
            f"data.train: the data have changed since the run was started (fingerprint "
            f"{fingerprint}, was {checkpoint.fingerprint})"
        ]
    if problems:
        remedy = "To go on, change this back; --overwrite starts afresh, --out DIR elsewhere."
        raise ConfigError([*problems, remedy])


class SaveCheckpoints(Hook):
    """A checkpoint at the end of every pass."""

    def __init__(
        self,
        folder: Path,
        *,
        config: Mapping[str, Any],
        fingerprint: str,
        saved: Callable[[Progress, Path], None],
    ) -> None:
        """`saved` is told of each checkpoint once it is on disk."""
        self.folder, self.config, self.fingerprint = folder, dict(config), fingerprint
        self.saved = saved

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Writes the state after this pass."""
        checkpoint = Checkpoint(
            passes=progress.pass_ + 1,
            rows=progress.rows,
            state=learner.state(copy=False),
            scores=dict(progress.scores),
            config=self.config,
            fingerprint=self.fingerprint,
        )
        self.saved(progress, write(self.folder, checkpoint))


def _existing(folder: Path) -> Iterator[tuple[int, Path]]:
    """Number of passes and path of every checkpoint, the newest first."""
    paths = folder.iterdir() if folder.is_dir() else ()
    found = [(int(m[1]), path) for path in paths if (m := NAME.fullmatch(path.name))]
    yield from sorted(found, reverse=True)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`("model.topics", 40)`, ... for every leaf."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
