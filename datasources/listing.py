"""Lists the files of a folder, and leaves none out without a word."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path


def files_among(paths: Iterable[Path]) -> list[Path]:
    """Return those that are files, sorted.

    Raises `FileNotFoundError` for a link that leads nowhere, or in a circle: its data would be
    missing.
    """
    found = sorted(paths)
    for path in found:
        require_target(path)
    return [path for path in found if path.is_file()]


def require_target(path: Path) -> None:
    """Raise `FileNotFoundError` if the path is a link that leads to nothing."""
    if path.is_symlink() and not path.exists():
        told = f"a link to {os.readlink(path)}, which is not there"
        raise FileNotFoundError(errno.ENOENT, told, str(path))
