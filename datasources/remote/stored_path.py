"""Name a file of any store as `pathlib.Path` names a local one."""

from pathlib import Path, PurePosixPath
from typing import Any

from .files import Files, Status
from .filesystems import LocalFiles
from .http_request import Patience
from .resolve import resolve


class StoredPath:
    """A file or folder of a store, with the part of `pathlib.Path` that reading needs.

    files: the file system.
    path: as the file system names it. What follows a question mark in a web address stays there.

    Every call asks the store. Raises what `Files` raises.
    """

    def __init__(self, files: Files, path: str) -> None:
        self.files, self.path = files, path

    def __str__(self) -> str:
        """Return the URL, without secrets."""
        return self.files.name(self.path)

    def __truediv__(self, name: str) -> "StoredPath":
        """Return the path of `name` in this folder."""
        place, mark, options = self.path.partition("?")
        return StoredPath(self.files, f"{place.rstrip('/')}/{name}{mark}{options}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path.partition("?")[0]).name

    def exists(self) -> bool:
        """Return whether the store has this file or folder."""
        try:
            self.status()
        except FileNotFoundError:
            return False
        return True

    def status(self) -> Status:
        """Return size and identity. Raises `FileNotFoundError`."""
        return self.files.status(self.path)

    def open(self) -> Any:
        """Open the file for random access."""
        return self.files.open(self.status())

    def read_bytes(self) -> bytes:
        """Return the contents of the file."""
        with self.open() as file:
            return bytes(file.read())


Place = Path | StoredPath
"""A local path, or a path in a store."""


def place_of(name: str | Place, patience: Patience) -> Place:
    """Return the path of a URL or of a local name.

    Raises `DriverMissingError` if no driver reads such URLs, and `DataError` for an invalid URL.
    """
    if isinstance(name, (Path, StoredPath)):
        return name
    files, path, _ = resolve(name, patience)
    return Path(path) if isinstance(files, LocalFiles) else StoredPath(files, path)
