"""Checkpoints: everything needed to resume a run as if it had never stopped.

A checkpoint is a folder of two files. `state.safetensors` has the arrays of the learner's state.
`checkpoint.json` has the position, the configuration, and the fingerprint of the data. Tables in
files are in logs: see `storage/page_logs.py`. States whose rows belong to several workers are in
parts: see `storage/row_parts.py`. The folder is complete or absent, and verified when read. Its
name is the position, so names sort by position: `pass-0003` (three passes are complete),
`pass-0003-block-0000120`.
"""

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocklearn.durable import current, write_folder

from ..engines.crew import Crew
from ..errors import ModelFolderError, ModelMissingError
from ..files.placed_tables import PlacedTables
from ..storage.manifest import Format, finite, read_manifest, verified, write_manifest
from ..storage.model_folder import MANIFEST as MODEL
from ..storage.page_logs import PAGES, PageLogs, open_logs, write_logs
from ..storage.row_parts import PARTS, open_parts, seal_of
from ..storage.schemas import REMEDY, CheckpointManifest, shown
from ..storage.tensor_file import check_finite, read_tensors, write_tensors
from ..training.replicas.names import OPTIMIZER
from ..training.states.state import State
from .parts import Written, check_parts

FORMAT = Format("blocklearn checkpoint", 2)
"""Version 1 has checkpoints after whole passes only."""

PAGED = Format(FORMAT.name, 3)
"""Version 3 has logs of tables in files; checkpoints without them are of version 2."""

PARTED = Format(FORMAT.name, 4)
"""Version 4 has parts that several workers wrote."""

MANIFEST = "checkpoint.json"
STATE = "state.safetensors"
NAME = re.compile(r"pass-(\d{4,})(?:-block-(\d{7,}))?")

Position = tuple[int, int]
"""The number of complete passes, and of blocks done in the next pass."""

WriteParts = Callable[[Path], Written | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A learner's state, and the run and data that it belongs to.

    Attributes:
        state: arrays and position of the learner.
        scores: scores of the latest evaluation, by name.
        config: the configuration of the run.
        fingerprint: the fingerprint of the training data.
        eval_fingerprint: that of the data for evaluations; None: there are none, or not known.
    """

    state: State
    scores: dict[str, float]
    config: dict[str, Any]
    fingerprint: str
    eval_fingerprint: str | None = None

    @property
    def position(self) -> Position:
        """The number of complete passes, and of blocks done in the next pass."""
        return int(self.state.position["pass"]), int(self.state.position.get("block", 0))

    @property
    def rows(self) -> int:
        """The number of rows trained on, summed over passes."""
        return int(self.state.position["rows"])

    @property
    def best(self) -> Position | None:
        """The position of the best evaluation so far; None if no score is watched."""
        return _best(self.state.position)


def name_of(position: Position) -> str:
    """Return the folder name of the checkpoint at `position`.

    >>> name_of((3, 0)), name_of((3, 120))
    ('pass-0003', 'pass-0003-block-0000120')
    """
    passes, block = position
    return f"pass-{passes:04d}" + (f"-block-{block:07d}" if block else "")


def position_of(name: str) -> Position:
    """Return the position of a checkpoint by the name of its folder, which `NAME` matches.

    >>> position_of("pass-0003"), position_of("pass-0003-block-0000120")
    ((3, 0), (3, 120))
    """
    passes, _, block = name.removeprefix("pass-").partition("-block-")
    return int(passes), int(block or 0)


def where(position: Position) -> str:
    """Describe `position` in words, for messages.

    >>> where((3, 0)), where((3, 120))
    ('pass 3', 'pass 3 and 120 blocks of the next')
    """
    passes, block = position
    return f"pass {passes}" + (f" and {block} blocks of the next" if block else "")


def write(
    folder: Path,
    checkpoint: Checkpoint,
    tables: PlacedTables | None = None,
    write_parts: WriteParts = lambda staging: None,
) -> Path:
    """Write `checkpoint` into a new folder in `folder`, and return its path.

    Its arrays are neither copied nor changed. tables: those of its tables that lie in files; only
    rows that have changed since the checkpoint before are written. write_parts: see
    `PartWriter.write`.

    Raises:
        OSError: the checkpoint cannot be written; existing files are unchanged.
        WorkerError: another worker cannot write its part; the same.
    """
    path = folder / name_of(checkpoint.position)

    told: dict[str, Any] = {}

    def fill(staging: Path) -> None:
        written = write_parts(staging) or Written({}, None, {})
        apart = {name for arrays in written.parts.values() for name in arrays}
        every = checkpoint.state.tensors
        tensors = {name: every[name] for name in every.keys() - apart}
        pages, known = written.pages, dict(written.files)
        if tables is not None and pages is None:
            before = tables.saved
            pages = told["pages"] = write_logs(staging, tables, before)
            older = {} if before is None else before.digests
            known = known | {file: older[file] for file in pages["logs"] if file in older}
        content = {
            "position": checkpoint.state.position,
            "scores": {name: finite(value) for name, value in checkpoint.scores.items()},
            "tensors": write_tensors(staging / STATE, tensors),
            "config": checkpoint.config,
            "fingerprint": checkpoint.fingerprint,
            "eval_fingerprint": checkpoint.eval_fingerprint,
        }
        if pages is not None:
            content[PAGES] = pages
        files = [STATE, *(() if pages is None else pages["logs"])]
        format = FORMAT if pages is None else PAGED
        if written.parts:
            content[PARTS], format = written.parts, PARTED
        told["files"] = write_manifest(
            staging, MANIFEST, format=format, content=content, files=files, known=known
        )

    write_folder(path, fill)
    if tables is not None and "pages" in told:
        tables.saved_as(PageLogs(path, told["pages"], told["files"]))
    return path


def check_folder(folder: Path) -> None:
    """Raise ModelFolderError if checkpoints cannot be kept in `folder`, which need not exist."""
    lowest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not lowest.is_dir():
        raise ModelFolderError(
            f"{lowest}: a file, but checkpoints need a folder. Give the path of a folder."
        )
    for file, told in [
        (MODEL, "a saved model"),
        ("run.json", "a run"),
        (MANIFEST, "a single checkpoint"),
    ]:
        if (current(folder) / file).exists():
            raise ModelFolderError(
                f"{folder}: {told} (it has a {file}): must be a folder of nothing but checkpoints. "
                + ("Give the folder that it is in." if file == MANIFEST else "Give another path.")
            )


def prune(folder: Path, newest: Position, keep: int) -> None:
    """Remove old checkpoints, and those that were left half-written.

    The last `keep` checkpoints up to `newest` stay, and so do the best evaluations that they name.
    Checkpoints after `newest` stay too: the run that resumed from `newest` could not read them.
    """
    for rest in folder.glob(".pass-*"):
        shutil.rmtree(rest)
    old = [(position, path) for position, path in existing(folder) if position <= newest]
    best = {_best_of(path) for _, path in old[:keep]}
    for position, path in old[keep:]:
        if position not in best:  # renamed first: readers never see half a checkpoint
            shutil.rmtree(path.rename(path.with_name(f".{path.name}.old")))


def read(path: Path, crew: Crew | None = None) -> Checkpoint:
    """Read the checkpoint in the folder `path`; arrays are mapped and read-only.

    crew: workers that share the checks of its files, see `check_parts`; None: there is one.

    Raises:
        ModelFolderError, ModelMissingError: a file is missing, damaged, or of a newer format.
    """
    folder = current(path)
    manifest = _manifest(folder)
    file = verified(folder, STATE, manifest)
    tensors: dict[str, Any] = dict(read_tensors(file, manifest["tensors"], mapped=True))
    check_finite(file, {name: tensors[name] for name in tensors if OPTIMIZER not in name})
    seal = seal_of(folder / MANIFEST)
    if manifest.get(PARTS) or manifest.get(PAGES):
        check_parts(crew or Crew(), folder / MANIFEST)
        tensors |= open_parts(seal, manifest)
    found = Checkpoint(
        state=State(
            tensors=tensors, position=manifest["position"], pages=open_logs(seal, manifest)
        ),
        scores=manifest["scores"],
        config=manifest["config"],
        fingerprint=manifest["fingerprint"],
        eval_fingerprint=manifest.get("eval_fingerprint"),
    )
    if NAME.fullmatch(path.name) and name_of(found.position) != path.name:
        raise ModelFolderError(
            f"{folder / MANIFEST}: position={shown(manifest['position'])}: must be that of its "
            f"folder, {path.name}. {REMEDY}"
        )
    return found


def newest(
    folder: Path, remedy: str = "--overwrite starts afresh.", crew: Crew | None = None
) -> Checkpoint | None:
    """Return the newest intact checkpoint in `folder`; None: it has none at all.

    remedy: what the caller can do if none is intact. crew: see `read`.

    Raises:
        ModelFolderError: there are checkpoints, but none is intact.
    """
    failures = []
    for _, path in existing(folder):
        try:
            return read(path, crew)
        except (ModelFolderError, ModelMissingError) as error:
            log.warning("%s; trying the one before", error)
            failures.append(str(error))
    if failures:
        raise ModelFolderError("\n".join([*failures, f"No checkpoint is intact. {remedy}"]))
    return None


def _manifest(folder: Path) -> dict[str, Any]:
    return read_manifest(
        folder,
        MANIFEST,
        format=PARTED,
        schema=CheckpointManifest,
        missing="no checkpoint.json here",
    )


def _best(position: Mapping[str, Any]) -> Position | None:
    best = position.get("best")
    return None if best is None else (int(best["pass_"]), int(best["block"]))


def _best_of(path: Path) -> Position | None:
    try:
        return _best(_manifest(current(path))["position"])
    except (ModelFolderError, ModelMissingError):
        return None


def existing(folder: Path) -> Iterator[tuple[Position, Path]]:
    """Yield position and path of every checkpoint, newest first."""
    paths = folder.iterdir() if folder.is_dir() else ()
    found = [(position_of(path.name), path) for path in paths if NAME.fullmatch(path.name)]
    yield from sorted(found, reverse=True)
