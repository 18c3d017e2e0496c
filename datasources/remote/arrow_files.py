"""File systems that Arrow's C++ library reads: S3, Google, Azure, HDFS through libhdfs."""

import errno
import os
from typing import Any

from pyarrow import fs

from .files import Status


class ArrowFiles:
    """A `pyarrow.fs.FileSystem`. prefix: what stands before a path in a URL ("s3://")."""

    quick = False

    def __init__(self, filesystem: fs.FileSystem, prefix: str) -> None:
        self._filesystem, self._prefix = filesystem, prefix

    def name(self, path: str) -> str:
        """The URL."""
        return self._prefix + path

    def status(self, path: str) -> Status:
        """Size, and as identity the ETag where there is one, else the time of change."""
        status = self._status(self._filesystem.get_file_info(path))
        if status.folder or not isinstance(self._filesystem, fs.S3FileSystem):
            return status
        with self._filesystem.open_input_file(path) as file:  # nothing but a request for the head
            tag = file.metadata().get(b"ETag", b"").decode()
        return Status(path, status.size, f"{status.size} {tag}")

    def children(self, path: str) -> list[Status]:
        """What a folder holds."""
        selector = fs.FileSelector(path)
        return [self._status(info) for info in self._filesystem.get_file_info(selector)]

    def open(self, status: Status) -> Any:
        """Read by C++, which checks lengths and tries again."""
        return self._filesystem.open_input_file(status.path)

    def _status(self, info: Any) -> Status:
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name(info.path))
        folder = info.type == fs.FileType.Directory
        return Status(info.path, info.size or 0, f"{info.size} {info.mtime_ns}", folder)
