"""`hdfs://` through the hdfs-native package: HDFS's own protocol, without Java."""

import errno
from functools import partial
from typing import TYPE_CHECKING, Any

from .errors import RemoteError
from .files import RangeFile, Status

if TYPE_CHECKING:
    from hdfs_native import Client


class NativeHdfs:
    """A client of hdfs-native, made for `root` ("hdfs://namenode:8020")."""

    quick = False

    def __init__(self, client: "Client", root: str) -> None:
        self._client, self._root = client, root

    def name(self, path: str) -> str:
        """The URL."""
        return self._root + path

    def status(self, path: str) -> Status:
        """As the namenode knows it."""
        return to_status(self._call(path, self._client.get_file_info, path))

    def children(self, path: str) -> list[Status]:
        """What a folder holds."""
        return [to_status(found) for found in self._call(path, self._list, path)]

    def open(self, status: Status) -> RangeFile:
        """The file, read by ranges; the driver checks HDFS's own checksums."""
        reader = self._call(status.path, self._client.read, status.path)
        fetch = partial(self._call, status.path, reader.read_range)
        return RangeFile(self.name(status.path), status.size, fetch)

    def _list(self, path: str) -> list[Any]:
        return list(self._client.list_status(path))

    def _call(self, path: str, function: Any, *arguments: Any) -> Any:
        """What `function` returns; its errors name the file."""
        name = self.name(path)
        try:
            return function(*arguments)
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "HDFS has no such file", name) from error
        except PermissionError as error:
            raise PermissionError(errno.EACCES, f"HDFS does not allow it: {error}", name) from error
        except (OSError, RuntimeError) as error:
            raise RemoteError(f"{name}: {error}") from error


def to_status(found: Any) -> Status:
    """A `FileStatus` of hdfs-native."""
    identity = f"{found.length} {found.modification_time}"
    return Status(found.path, found.length, identity, found.isdir)
