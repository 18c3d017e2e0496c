"""Name a file of any store as `pathlib.Path` names a local one."""

import io
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, cast

from .files import Files, Status
from .filesystems import LocalFiles
from .http_request import Patience
from .schemes import resolve

AT_ONCE = 8 << 20
"""Bytes that are read ahead of a file that is read from front to back."""


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

    def with_name(self, name: str) -> "StoredPath":
        """Return the path of `name` in the folder of this file."""
        place, mark, options = self.path.partition("?")
        return StoredPath(self.files, f"{place.rpartition('/')[0]}/{name}{mark}{options}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path.partition("?")[0]).name

    def with_stem(self, stem: str) -> "StoredPath":
        """Return the path of a file beside this one, with another name and the same ending."""
        return self.with_name(stem + self.suffix)

    @property
    def stem(self) -> str:
        """The name without its last ending."""
        return PurePosixPath(self.name).stem

    def exists(self) -> bool:
        """Return whether the store has this file or folder, and shows it to us.

        A signed web address opens one file only: its neighbours are not shown.
        """
        try:
            self.status()
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def status(self) -> Status:
        """Return size and identity. Raises `FileNotFoundError`."""
        return self.files.status(self.path)

    @property
    def suffixes(self) -> list[str]:
        """The endings of the name."""
        return PurePosixPath(self.name).suffixes

    @property
    def suffix(self) -> str:
        """The last ending of the name."""
        return PurePosixPath(self.name).suffix

    def is_file(self) -> bool:
        """Return whether this is a file that the store shows to us."""
        return self.exists() and not self.is_dir()

    def is_dir(self) -> bool:
        """Return whether this is a folder."""
        return self.status().folder

    def stat(self) -> "Stat":
        """Return the size of the file."""
        return Stat(self.status().size)

    def open(self, mode: Literal["rb"] = "rb", buffering: int = -1) -> BinaryIO:
        """Open the file for reading bytes, in requests of `AT_ONCE` bytes."""
        raw = self.files.open(self.status())
        return cast(BinaryIO, io.BufferedReader(raw, AT_ONCE))

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return at most `nbytes` bytes from `offset` on, in one request."""
        status = self.status()
        with self.files.open(status) as file:
            return bytes(file.read_at(min(nbytes, max(0, status.size - offset)), offset))

    def read_bytes(self) -> bytes:
        """Return the contents of the file."""
        with self.files.open(self.status()) as file:
            return bytes(file.read())


@dataclass(frozen=True)
class Stat:
    """The part of `os.stat_result` that reading needs. st_size: bytes."""

    st_size: int


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
