"""Make a dataset for a store: on a local disk first, then sent there, complete or absent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import xxhash

from blocklearn.datasources.blocks.manifest import FILE as MANIFEST
from blocklearn.datasources.blocks.manifest import read_manifest
from blocklearn.datasources.remote import StoredPath, put_folder

from ..errors import RunFolderError
from .convert import Conversion


@contextmanager
def staged(place: StoredPath, staging: Path | None, *, overwrite: bool) -> Iterator[Path]:
    """Yield a local folder for a dataset; then send it to a store, and remove the folder.

    place: the folder in the store.
    staging: the local folder, which stays after an error, so that a conversion can resume there;
        None: one among temporary files. It needs room for the whole dataset.
    overwrite: whether to replace a dataset in the store.

    Raises:
        RunFolderError: the store has a dataset there.
        RemoteError: the store has failed. It then has no dataset there.
    """
    if not overwrite and (place / MANIFEST).exists():
        raise RunFolderError(f"{place}: a dataset exists already. --overwrite replaces it.")
    if staging is not None:
        yield staging
        put_folder(staging, place, MANIFEST)
        shutil.rmtree(staging)
        return
    with TemporaryDirectory(prefix="blocklearn-") as folder:
        yield Path(folder)
        put_folder(Path(folder), place, MANIFEST)


def made(folder: Path, job: Conversion) -> bool:
    """Return whether a folder has the dataset of this conversion, which was not sent yet."""
    note = xxhash.xxh3_64_hexdigest(job.note().encode())
    return (folder / MANIFEST).exists() and read_manifest(folder).origin.endswith(note)
