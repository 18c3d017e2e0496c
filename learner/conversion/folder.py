"""The folder that a conversion writes to: checks, lock, and notes."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from blocklearn.datasources.blocks.manifest import FILE as MANIFEST
from blocklearn.datasources.remote import Place, StoredPath
from blocklearn.datasources.secrets import hidden_url
from blocklearn.durable import write_file

from ..errors import RunFolderError

READING = ".reading"
NOTE = "source.json"


def check_place(folder: Path, sources: Sequence[str | Place], overwrite: bool) -> None:
    """Raise `RunFolderError` if a dataset of `sources` may not be made in `folder`."""
    for source in sources:
        if isinstance(source, StoredPath):
            continue
        if Path(source).is_dir() and folder.resolve().is_relative_to(Path(source).resolve()):
            raise RunFolderError(
                f"{folder}: lies in {source}, which is a source. Choose another folder."
            )
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder}: a file, but a dataset is a folder. Choose another name.")
    if (folder / MANIFEST).exists():
        if not overwrite:
            raise RunFolderError(f"{folder}: a dataset exists already. --overwrite replaces it.")
    elif folder.exists() and any(folder.iterdir()) and not (folder / READING).exists():
        raise RunFolderError(
            f"{folder}: not empty and not a dataset, so it is left alone. Choose another folder."
        )


def prepare(reading: Path, note: str, resume: bool) -> Path:
    """Return the folder of the reader: as an earlier conversion left it, or empty.

    Raises:
        RunFolderError: the earlier conversion had other settings or another source.
    """
    there = reading / NOTE
    if resume and there.exists():
        if there.read_text(encoding="utf-8") != note:
            raise RunFolderError(
                f"{reading.parent}: begun with other settings, or the source has changed since. "
                "Without --resume the conversion begins again."
            )
        return reading
    shutil.rmtree(reading, ignore_errors=True)
    reading.mkdir()
    write_file(there, note.encode())
    return reading


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock `folder` for this process; at the end, remove it if it is empty."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RunFolderError(f"{folder}: another process is writing there.") from None
    finally:
        os.close(descriptor)
        with suppress(OSError):  # the folder is not empty
            folder.rmdir()


def states(name: str | Place) -> list[tuple[str, int, int | str]]:
    """Return name, size and time of a file, or of all in a folder.

    A file in a store has what identifies its version in place of the time. A URL has only its name,
    with 0 for size and time.
    """
    if isinstance(name, StoredPath):
        status = name.status()
        return [(str(name), status.size, status.identity)]
    path = Path(name)
    if "://" in str(name):
        return [(hidden_url(str(name)), 0, 0)]
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    found = [(file, file.stat()) for file in files]
    return [(str(file.absolute()), stat.st_size, stat.st_mtime_ns) for file, stat in found]


def nbytes(name: str | Place) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    return sum(size for _, size, _ in states(name))
