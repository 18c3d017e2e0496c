"""Files and folders that are complete or absent, also after a power cut. Below all folders.

A file or a new folder is written beside its place, forced to disk, and renamed. A folder that
exists cannot be replaced by one rename, and may hold other files (a run folder does): its new
version is completed inside it as `.next`, and only then are the files moved up one by one. Readers
look for `.next` first (`current`), so a complete version exists at every moment. One process
writes at a time; what a crash of an earlier one left is replaced.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SAVING = ".saving"
NEXT = ".next"
DONE = ".done"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError within it that names no file, as those of writing do not, names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # from the operating system
            error.filename = error.filename or str(path)
        raise


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write a file to. Afterwards the file is at `path`, where it replaces what was there
    in one step; after an error nothing has changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with naming(path):
            yield temporary
        sync_file(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def left_of(path: Path) -> list[Path]:
    """Files that processes left which were killed while they wrote a `new_file` at `path`."""
    found = path.parent.glob(f".{path.name}.*")
    return [file for file in found if file.suffix[1:].isdigit()]


def write_file(path: Path, data: bytes) -> None:
    """Puts `data` at `path`, replacing what was there in one step."""
    with new_file(path) as temporary:
        temporary.write_bytes(data)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Puts the files that `fill` writes into the folder it is given at `path`.

    Files of other names that `path` already holds stay.
    """
    settle(path)
    exists = path.is_dir() and any(path.iterdir())
    if exists:
        staging, place = path / SAVING, path / NEXT
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging, place = path.with_name(f".{path.name}{SAVING}"), path
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        with naming(path):
            fill(staging)
        for file in staging.iterdir():
            sync_file(file)
        sync_folder(staging)
        os.rename(staging, place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    sync_folder(place.parent)
    settle(path)


def current(path: Path) -> Path:
    """The folder to read: `path`, or the newer version in it that was not moved up yet."""
    return path / NEXT if (path / NEXT).is_dir() else path


def settle(path: Path) -> None:
    """Moves a completed newer version up, also one that a crash left behind."""
    ready, done = path / NEXT, path / DONE
    shutil.rmtree(done, ignore_errors=True)
    if not ready.is_dir():
        return
    for file in sorted(ready.iterdir()):
        copy = path / f".{file.name}.copy"
        copy.unlink(missing_ok=True)
        try:
            os.link(file, copy)  # a second name, so that `.next` stays complete meanwhile
        except OSError:  # a file system without links
            shutil.copyfile(file, copy)
            sync_file(copy)
        os.replace(copy, path / file.name)
        copy.unlink(missing_ok=True)  # still there if both were names of one file already
    sync_folder(path)
    os.rename(ready, done)
    shutil.rmtree(done)
    sync_folder(path)


def sync_file(path: Path) -> None:
    """Waits until the contents of `path` are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Waits until the names in `path` are on disk."""
    sync_file(path)
