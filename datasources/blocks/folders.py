"""The folders of a dataset: found or made before writing, cleared of what was left."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..arrays.feature_hashing import HashedWords
from ..errors import DataError
from . import manifest
from . import unfinished as journal
from .manifest import FILE, HashedColumns, Manifest, Side, What, read_manifest, stripe_file
from .names import StoredNames, names_file
from .unfinished import FILE as UNFINISHED


@dataclass(frozen=True)
class Dataset:
    """folders: by stripe, whatever order they were named in."""

    folders: Sequence[Path]
    manifest: Manifest

    def files(self, side: Side) -> list[Path]:
        """The files with the blocks of an orientation, by stripe."""
        n = len(self.folders)
        return [folder / stripe_file(side, i, n) for i, folder in enumerate(self.folders)]

    def names(self, what: What) -> Sequence[str] | None:
        """Names of the columns, rows or targets, or None where nobody knows them."""
        listed = self.manifest.names.get(what)
        if listed is None:
            return None
        if isinstance(listed, HashedColumns):
            return HashedWords(listed.hash_bits)
        return StoredNames(self.folders[0] / names_file(what), listed)


def open_dataset(paths: Sequence[str | Path]) -> Dataset:
    """The dataset in the folders `paths`, in any order.

    Raises `FileNotFoundError` for a folder without a dataset, and `DataError` for folders that do
    not make one whole dataset.
    """
    if isinstance(paths, str | Path) or not paths:
        raise DataError(f"BlockSource: paths={paths!r}, but it is a list of folders.")
    folders = [Path(path) for path in paths]
    if (folders[0] / UNFINISHED).exists() and not (folders[0] / FILE).exists():
        raise DataError(
            f"{folders[0]}: an unfinished dataset, its conversion was interrupted; resume it, or "
            "convert the data again."
        )
    manifest = read_manifest(folders[0])
    text = (folders[0] / FILE).read_bytes()
    for folder in folders[1:]:
        if (folder / FILE).read_bytes() == text:
            continue
        other = read_manifest(folder)
        if other.id != manifest.id or other.stripes != manifest.stripes:
            raise DataError(
                f"{folder / FILE}: of dataset {other.id} (origin {other.origin!r}), but "
                f"{folders[0]} is of dataset {manifest.id} (origin {manifest.origin!r}); name the "
                "folders of one dataset."
            )
    found = {
        stripe: folder
        for stripe in range(manifest.stripes)
        for folder in folders
        if (folder / stripe_file("rows", stripe, manifest.stripes)).exists()
    }
    missing = sorted(set(range(manifest.stripes)) - found.keys())
    if missing:
        file = stripe_file("rows", missing[0], manifest.stripes)
        raise DataError(
            f"{', '.join(map(str, folders))}: the dataset has {manifest.stripes} stripes, but "
            f"{file} is in none of these folders; name all folders of the dataset in `paths`, or "
            "restore the file."
        )
    return Dataset([found[stripe] for stripe in range(manifest.stripes)], manifest)


OURS = (
    manifest.FILE,  # first: without it the folder is no dataset
    f".{manifest.FILE}.*",  # of a process that was killed while it wrote one
    journal.FILE,
    "rows-*-of-*.arrow",
    "columns-*-of-*.arrow",
    "rows-names.arrow",
    "columns-names.arrow",
    "targets-names.arrow",
    "bucket-*.spill",
)


def prepare(paths: Sequence[str | Path]) -> list[Path]:
    """The folders, which exist then."""
    folders = [Path(path) for path in paths]
    if isinstance(paths, str | Path) or not 1 <= len(folders) <= manifest.MOST_STRIPES:
        raise DataError(
            f"BlockWriter: paths={paths!r}, but it is a list of 1 to {manifest.MOST_STRIPES} "
            "folders."
        )
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise DataError(f"BlockWriter: paths={paths!r} names a folder twice.")
    return folders


def clear(folders: Sequence[Path], *, overwrite: bool) -> None:
    """Delete what a dataset consists of, finished or not; a finished one only to `overwrite` it."""
    for folder in folders:
        if not overwrite and (folder / manifest.FILE).exists():
            raise DataError(
                f"BlockWriter: {folder} holds a dataset already; choose another folder, or let it "
                "be overwritten."
            )
    for folder in folders:
        for pattern in OURS:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that nothing is in."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
