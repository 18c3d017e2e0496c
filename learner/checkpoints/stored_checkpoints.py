"""Copies of checkpoints in a store: a run whose folder is lost resumes from them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from blocklearn.datasources.remote import (
    PATIENCE,
    Place,
    StoredPath,
    get_folder,
    place_of,
    put_folder,
)
from blocklearn.durable import write_folder

from ..errors import ConfigError, ModelFolderError, ModelMissingError, RunFolderError
from . import checkpoint

log = logging.getLogger(__name__)


class StoredCheckpoints:
    """The checkpoints of one run in a folder of a store, each complete or absent.

    A checkpoint is complete when it has its manifest, which is written last and removed first.
    """

    def __init__(self, place: StoredPath) -> None:
        """place: of the folder, which need not exist."""
        self._place = place

    def put(self, path: Path) -> None:
        """Copy a new checkpoint, and remove the copies of those that were pruned before.

        A store that fails is only warned of: the checkpoint is on the disk, and later ones are
        copied again.

        path: of the checkpoint, in the folder of all.
        """
        try:
            put_folder(path, self._place / path.name, checkpoint.MANIFEST)
            kept = {own.name for own in path.parent.iterdir()}
            self._remove(name for name in self._names() if name not in kept)
        except OSError as error:
            log.warning("checkpoint %s is not copied, training continues: %s", path.name, error)

    def fetch(self, folder: Path) -> None:
        """Copy the newest checkpoint into `folder`, unless that has one as new.

        The best evaluation that it names is copied, too. If its copy is damaged, the one before is
        copied.
        """
        own = max((position for position, _ in checkpoint.existing(folder)), default=(-1, 0))
        for position in sorted(map(checkpoint.position_of, self._names()), reverse=True):
            if position <= own:
                return
            found = self._get(position, folder)
            if found is not None:
                best = found.best
                if best is not None and not (folder / checkpoint.name_of(best)).exists():
                    self._get(best, folder)
                return

    def clear(self, *, overwrite: bool) -> None:
        """Remove what an earlier run has left.

        Raises RunFolderError if there is something and `overwrite` is not set.
        """
        found = self._names()
        if found and not overwrite:
            raise RunFolderError(
                f"{self._place}: checkpoints of a run exist already. --resume auto resumes it, "
                "--overwrite removes them, another checkpoint.store keeps them."
            )
        self._remove(iter(found))

    def _names(self) -> list[str]:
        """Return the names of all checkpoints with a file, also of those that are not complete."""
        names = [path.rstrip("/").rpartition("/")[2] for path in self._paths(self._place)]
        found = [name for name in names if checkpoint.NAME.fullmatch(name)]
        return sorted(name for name in found if self._paths(self._place / name))

    def _paths(self, place: StoredPath) -> list[str]:
        """Return the paths of what is in a folder, which need not exist."""
        try:
            return [child.path for child in place.files.children(place.path)]
        except FileNotFoundError:
            return []

    def _get(self, position: checkpoint.Position, folder: Path) -> checkpoint.Checkpoint | None:
        """Copy a checkpoint into `folder`, and return it; None: it is not complete, or damaged."""
        path = folder / checkpoint.name_of(position)
        place = self._place / path.name
        if not (place / checkpoint.MANIFEST).exists():
            return None
        write_folder(path, lambda staging: get_folder(place, checkpoint.MANIFEST, staging))
        try:
            return checkpoint.read(path)
        except (ModelFolderError, ModelMissingError) as error:
            log.warning("the copy in %s is damaged: %s", self._place, error)
            return None

    def _remove(self, names: Iterator[str]) -> None:
        files = self._place.files
        for name in names:
            files.remove((self._place / name / checkpoint.MANIFEST).path)
            for path in self._paths(self._place / name):
                files.remove(path)


def stored(url: str | None) -> StoredCheckpoints | None:
    """Return the copies at a URL; None: there are none.

    Raises ConfigError if the URL is no store, and the errors of `place_of`.
    """
    if url is None:
        return None
    place: Place = place_of(url, PATIENCE)
    if not isinstance(place, StoredPath):
        raise ConfigError(
            [
                f"checkpoint.store: {url}: must be the URL of a store, such as "
                "s3://bucket/runs/lda. On a disk, checkpoints are in the folder of the run."
            ]
        )
    return StoredCheckpoints(place)
