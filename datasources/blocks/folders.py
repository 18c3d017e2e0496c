"""The folders of a dataset: found or made before writing, cleared of what was left."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import DataError
from . import journal, manifest

OURS = (
    manifest.FILE,  # first: without it the folder is no dataset
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
