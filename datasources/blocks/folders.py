"""The folders of a dataset: opens them, makes them, and clears them of old files.

A dataset that replaces another is written into a folder inside each of these, and moved up once it
is complete: see `blocklearn.durable`. Until then the old one is whole.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blocklearn.durable import NEXT, SAVING, current, make_folder, settle, sync_folder

from ..arrays.hashed_names import HashedWords
from ..errors import DataError
from ..remote import PATIENCE, Patience, Place, place_of
from . import manifest
from . import unfinished as journal
from .manifest import FILE, HashedColumns, Manifest, Side, What, read_manifest, stripe_file
from .names import StoredNames, names_file
from .unfinished import FILE as UNFINISHED


@dataclass(frozen=True)
class Dataset:
    """The folders and the manifest of a dataset.

    folders: ordered by stripe, whatever order they were named in.
    """

    folders: Sequence[Place]
    manifest: Manifest

    def files(self, side: Side) -> list[Place]:
        """Return the files with the blocks of an orientation, by stripe."""
        n = len(self.folders)
        return [folder / stripe_file(side, i, n) for i, folder in enumerate(self.folders)]

    def names(self, what: What) -> Sequence[str] | None:
        """Return the names of the columns, rows or targets, or None if unknown."""
        listed = self.manifest.names.get(what)
        if listed is None:
            return None
        if isinstance(listed, HashedColumns):
            return HashedWords(listed.hash_bits)
        return StoredNames(self.folders[0] / names_file(what), listed)


def open_dataset(paths: Sequence[str | Place], patience: Patience = PATIENCE) -> Dataset:
    """Open the dataset in the folders `paths`, local or URLs, in any order.

    Raises `FileNotFoundError` if a folder has no dataset, and `DataError` unless the folders make
    one whole dataset.
    """
    if isinstance(paths, str | Place) or not paths:
        raise DataError(f"BlockSource: paths={paths!r}: must be a list of folders.")
    folders = [place_of(path, patience) for path in paths]
    if not (folders[0] / FILE).exists() and (folders[0] / UNFINISHED).exists():
        raise DataError(
            f"{folders[0]}: an unfinished dataset: its conversion was interrupted. Resume it, or "
            "convert the data again."
        )
    folders = newest(folders)
    manifest = read_manifest(folders[0])
    text = (folders[0] / FILE).read_bytes()
    for folder in folders[1:]:
        if (folder / FILE).read_bytes() == text:
            continue
        other = read_manifest(folder)
        if other.id != manifest.id or other.stripes != manifest.stripes:
            raise DataError(
                f"{folder / FILE}: belongs to dataset {other.id} (origin {other.origin!r}), but "
                f"{folders[0]} to dataset {manifest.id} (origin {manifest.origin!r}); name the "
                "folders of one dataset."
            )
    found = {}
    for stripe in range(manifest.stripes):
        file = stripe_file("rows", stripe, manifest.stripes)
        likely = folders[stripe : stripe + 1] + folders  # a store is asked once in most cases
        there = next((folder for folder in likely if (folder / file).exists()), None)
        if there is not None:
            found[stripe] = there
    missing = sorted(set(range(manifest.stripes)) - found.keys())
    if missing:
        file = stripe_file("rows", missing[0], manifest.stripes)
        raise DataError(
            f"{', '.join(map(str, folders))}: the dataset has {manifest.stripes} stripes, but "
            f"{file} is in none of these folders; name all folders of the dataset in `paths`, or "
            "restore the file."
        )
    return Dataset([found[stripe] for stripe in range(manifest.stripes)], manifest)


def newest(folders: Sequence[Place]) -> list[Place]:
    """Return where the files are: in `folders`, or in the newer dataset that is moved up there.

    The newer one counts once it is complete in all folders.
    """
    found = [current(folder) if isinstance(folder, Path) else folder for folder in folders]
    if found == list(folders) or not all((place / FILE).exists() for place in found):
        return list(folders)
    return found if len({(place / FILE).read_bytes() for place in found}) == 1 else list(folders)


OURS = (
    manifest.FILE,  # first: without it the folder is no dataset
    f".{manifest.FILE}.*",  # left by a process killed while writing it
    journal.FILE,
    "rows-*-of-*.arrow",
    "columns-*-of-*.arrow",
    "rows-names.arrow",
    "columns-names.arrow",
    "targets-names.arrow",
    "bucket-*.spill",
)


def prepare(paths: Sequence[str | Path]) -> list[Path]:
    """Make the folders that do not exist, and return all of them."""
    folders = [Path(path) for path in paths]
    if isinstance(paths, str | Path) or not 1 <= len(folders) <= manifest.MOST_STRIPES:
        raise DataError(
            f"BlockWriter: paths={paths!r}: must be a list of 1 to {manifest.MOST_STRIPES} folders."
        )
    for folder in folders:
        make_folder(folder)
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise DataError(f"BlockWriter: paths={paths!r}: names a folder twice; name each once.")
    return folders


def writing_to(folders: Sequence[Path], *, resume: bool) -> list[Path]:
    """Return the folders to write a dataset to: beside the old one, if there is any.

    What an earlier writer has completed is moved up first. resume: whether what is unfinished in
    `folders` is continued there.
    """
    moved = newest(folders) != list(folders)
    for folder in folders:
        if moved:
            settle(folder)
        shutil.rmtree(folder / NEXT, ignore_errors=True)
    old = [folder for folder in folders if (folder / manifest.FILE).exists()]
    begun = (folders[0] / UNFINISHED).exists() and (resume or folders[0] not in old)
    if begun or not old:
        return list(folders)
    return [folder / SAVING for folder in folders]


def move_up(folders: Sequence[Path], beside: Sequence[Path]) -> None:
    """Put the complete dataset that lies beside an old one in its place."""
    for folder, new in reversed(list(zip(folders, beside, strict=True))):
        sync_folder(new)
        os.rename(new, folder / NEXT)
        sync_folder(folder)
    for folder in reversed(folders):
        old = {path for pattern in OURS for path in folder.glob(pattern)}
        for path in old - {folder / file.name for file in (folder / NEXT).iterdir()}:
            path.unlink()
        settle(folder)


def check_free(folders: Sequence[Path], *, overwrite: bool) -> None:
    """Raise `DataError` if a folder has a finished dataset, unless `overwrite` is set."""
    for folder in folders:
        if not overwrite and (folder / manifest.FILE).exists():
            raise DataError(
                f"BlockWriter: {folder} holds a dataset already; choose another folder, or let it "
                "be overwritten."
            )


def clear(folders: Sequence[Path]) -> None:
    """Delete the files of a dataset."""
    for folder in folders:
        for pattern in OURS:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the empty folders."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
