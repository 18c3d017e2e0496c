"""Every other file system that fsspec has a driver for, `memory://` among them."""

from functools import partial
from typing import Any

from .files import RangeFile, Status


class FsspecFiles:
    """An fsspec file system. scheme: the start of its URLs, "memory".

    Some of its drivers return fewer bytes than asked without a word; `RangeFile` does not.
    """

    quick = False

    def __init__(self, filesystem: Any, scheme: str) -> None:
        self._filesystem, self._scheme = filesystem, scheme

    def name(self, path: str) -> str:
        """The URL."""
        return f"{self._scheme}://{path}"

    def status(self, path: str) -> Status:
        """Size, and as identity all that the driver knows of the file."""
        return to_status(self._filesystem.info(path))

    def children(self, path: str) -> list[Status]:
        """What a folder holds."""
        self._filesystem.invalidate_cache()
        return [to_status(info) for info in self._filesystem.ls(path, detail=True)]

    def open(self, status: Status) -> RangeFile:
        """The file, read by ranges."""
        return RangeFile(self.name(status.path), status.size, partial(self._fetch, status.path))

    def _fetch(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._filesystem.cat_file(path, start=offset, end=offset + length))


def to_status(info: dict[str, Any]) -> Status:
    """What fsspec says about a file; drivers differ in all but name, size and type."""
    return Status(
        info["name"], info.get("size") or 0, repr(sorted(info.items())), info["type"] == "directory"
    )
