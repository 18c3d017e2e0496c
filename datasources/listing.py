"""Lists the files of a folder, leaves none out, and tells whether one has changed."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from .errors import DataError

PARQUET = (".parquet", ".parq", ".pq")  # endings of its files


def files_among(paths: Iterable[Path]) -> list[Path]:
    """Return those that are files, sorted.

    Raises `FileNotFoundError` for a link that leads nowhere, or in a circle: its data would be
    missing. Hidden ones are left out: editors make such links as locks.
    """
    found = sorted(paths)
    for path in found:
        if not path.name.startswith("."):
            require_target(path)
    return [path for path in found if path.is_file()]


def require_target(path: Path) -> None:
    """Raise `FileNotFoundError` if the path is a link that leads to nothing."""
    if path.is_symlink() and not path.exists():
        told = f"a link to {os.readlink(path)}, which is not there"
        raise FileNotFoundError(errno.ENOENT, told, str(path))


def require_data(path: Path) -> None:
    """Raise an error unless the path is a file or a folder, which can be read several times.

    Raises `FileNotFoundError` if it does not exist, `DataError` for a pipe or a device.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(
            f"{path}: a pipe or a device, but data are read several times. Write them to a file "
            "first."
        )


def identity_of(file: Path | int) -> tuple[int, ...]:
    """Return what differs if a file is replaced or changed: device, inode, size and time.

    file: a path, or the descriptor of an open file.
    """
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
