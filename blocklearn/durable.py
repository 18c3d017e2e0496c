"""Write files and folders that are complete or absent, also after a power cut.

A file or a new folder is written beside its place, forced to disk, and renamed. An existing folder
cannot be replaced by one rename, and may hold other files, as a run folder does. Its new version is
completed inside it as `.next`; only then are the files moved up one by one. Readers look for
`.next` first (see `current`), so a complete version exists at every moment. One process writes at a
time. It replaces what an earlier process left when it crashed. Imported by every folder, imports
none.
"""

import errno
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
    """Add `path` to an OSError of this `with` block that names no file.

    Errors of writing, such as a full disk, name none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # from the operating system
            error.filename = error.filename or str(path)
        raise


def make_folder(path: Path) -> None:
    """Make the folder `path` and those above it, unless they exist.

    Raises NotADirectoryError if something else is in its place, and for a URL: `s3://bucket` would
    be a folder named `s3:` here.
    """
    first = path.parts[0] if path.parts else ""
    if len(first) > 2 and first.endswith(":") and not Path(first).exists():
        told = "a URL, but this is written to a disk. Choose a folder of this machine"
        raise NotADirectoryError(errno.ENOTDIR, told, str(path))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        told = "not a folder. Choose another name, or remove it"
        raise NotADirectoryError(errno.ENOTDIR, told, error.filename) from None


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write a file to, then move the file to `path`.

    The file replaces an earlier one in one step. After an error `path` is unchanged. Raises OSError
    for a device or a pipe, which a file would replace.
    """
    make_folder(path.parent)
    if path.exists() and not (path.is_file() or path.is_dir()):
        told = "a device or a pipe, which a file would replace. Choose another name"
        raise FileExistsError(errno.EEXIST, told, str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with naming(path):
            yield temporary
        sync_file(temporary)
        os.replace(temporary, path)
    except OSError as error:
        if error.filename == str(temporary):  # an error names the file that is wanted
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def left_of(path: Path) -> list[Path]:
    """Return the temporary files of `path` that killed writers left behind."""
    found = path.parent.glob(f".{path.name}.*")
    return [file for file in found if file.suffix[1:].isdigit()]


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, replacing an earlier file in one step."""
    with new_file(path) as temporary:
        temporary.write_bytes(data)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder at `path` that is complete or absent.

    fill: called with an empty folder, writes the files into it.

    Files in `path` that have other names stay.
    """
    settle(path)
    if path.exists() or path.is_symlink():
        make_folder(path)
    exists = path.is_dir() and any(path.iterdir())
    if exists:
        staging, place = path / SAVING, path / NEXT
    else:
        make_folder(path.parent)
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
    """Return the folder to read: `path`, or the newer version inside it.

    The newer version exists while its files have not all been moved up.
    """
    return path / NEXT if (path / NEXT).is_dir() else path


def settle(path: Path) -> None:
    """Move the files of a completed newer version up, also after a crash."""
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
        copy.unlink(missing_ok=True)  # remains if both names were links to one file
    sync_folder(path)
    os.rename(ready, done)
    shutil.rmtree(done)
    sync_folder(path)


def sync_file(path: Path) -> None:
    """Wait until the contents of `path` are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until the names in `path` are on disk."""
    sync_file(path)
