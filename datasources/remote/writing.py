"""Write files and folders to a store, or to a local disk: complete or absent.

A file is written anew until the store has as many bytes. A folder is complete when it has the file
that is written last, which readers open first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory

import xxhash

from .errors import Passing, RemoteError
from .files import Status
from .filesystems import PIECE
from .http_request import PATIENCE, Patience
from .stored_path import Place, StoredPath


def put(file: Path, to: StoredPath, patience: Patience = PATIENCE, *, verify: bool = True) -> None:
    """Write a local file to a store, in place of an earlier one.

    patience: for tries that end with another length.
    verify: whether to read the bytes back, and compare them. Not needed for files whose digests
        are in a manifest.

    Raises `RemoteError`, `PermissionError`, or the `OSError` of the store's driver. `to` is then as
    it was before or absent, unless the store has failed for removing it, too.
    """
    size = file.stat().st_size

    def attempt() -> None:
        to.files.put(file, to.path)
        found = to.status().size
        if found != size:
            raise Passing(f"{found:,} bytes arrived of {size:,}")
        if verify and _digest_of(to) != _digest(file):
            raise Passing("other bytes came back than were written")

    try:
        patience.keep_trying(str(to), attempt)
    except RemoteError:
        to.files.remove(to.path)
        raise


def put_folder(
    folder: Path,
    to: StoredPath,
    last: str,
    *,
    known: Sequence[str] = (),
    patience: Patience = PATIENCE,
) -> None:
    """Write the files of a local folder to one of a store, which is complete or has no `last`.

    last: the name of the file that is written last, and removed first. It has the digests of the
        others, so these are not read back.
    known: names of files that are removed, if the local folder does not have them.
    """
    to.files.remove((to / last).path)
    names = {file.name for file in folder.iterdir() if file.is_file()}
    for name in set(known) - names:
        to.files.remove((to / name).path)
    for name in sorted(names - {last}):
        put(folder / name, to / name, patience, verify=False)
    put(folder / last, to / last, patience)


def get_folder(place: StoredPath, last: str, into: Path) -> None:
    """Copy the files of a folder of a store to an empty local one; `last` comes last.

    Raises `FileNotFoundError` if the folder has no such file: it is not complete.
    """
    (place / last).status()
    found = {child.path.rstrip("/").rpartition("/")[2] for child in _files_of(place)}
    for name in [*sorted(found - {last}), last]:
        source = place / name
        status = source.status()
        with source.files.open(status) as file, (into / name).open("wb") as copy:
            for start in range(0, status.size, PIECE):
                copy.write(file.read_at(min(PIECE, status.size - start), start))


@contextmanager
def local_name(place: Place) -> Iterator[Path]:
    """Yield the name of a local file to write: `place` itself, or what is then put there."""
    if isinstance(place, Path):
        yield place
        return
    with TemporaryDirectory(prefix="blocklearn-") as folder:
        file = Path(folder) / place.name
        yield file
        put(file, place)


def _files_of(place: StoredPath) -> list[Status]:
    return [child for child in place.files.children(place.path) if not child.folder]


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return file_digest(source, xxhash.xxh3_128).hexdigest()


def _digest_of(place: StoredPath) -> str:
    """Return the digest of what a store has."""
    digest, status = xxhash.xxh3_128(), place.status()
    with place.files.open(status) as file:
        for start in range(0, status.size, PIECE):
            digest.update(file.read_at(min(PIECE, status.size - start), start))
    return digest.hexdigest()
