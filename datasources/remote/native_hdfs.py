"""Read and write `hdfs://` through the hdfs-native package, without Java."""

import errno
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from blocklearn.matcache.threads import start

from ..secrets import hidden_url
from .errors import RemoteError
from .files import RangeFile, Status, beside
from .http_request import LONGEST_PAUSE, Patience

if TYPE_CHECKING:
    from hdfs_native import Client

PIECE = 8 << 20  # bytes that are sent at a time


class NativeHdfs:
    """A client of hdfs-native for `root` ("hdfs://namenode:8020") with `settings`.

    The driver retries by itself, also with other datanodes and namenodes. Version 0.14 waits for
    ever if a namenode accepts a request and does not answer. A call is therefore abandoned when it
    takes longer than all tries together may.
    """

    quick = False

    def __init__(self, client: "Client", root: str, patience: Patience) -> None:
        self._client, self._root = client, root
        self._longest = patience.attempts * (patience.timeout + LONGEST_PAUSE)

    def name(self, path: str) -> str:
        """Return the URL."""
        return hidden_url(self._root + path)

    def status(self, path: str) -> Status:
        """Ask the namenode for the status."""
        return to_status(self._call(path, self._client.get_file_info, path))

    def children(self, path: str) -> list[Status]:
        """List a folder."""
        return [to_status(found) for found in self._call(path, self._list, path)]

    def open(self, status: Status) -> RangeFile:
        """Open the file, to be read by ranges; the driver checks HDFS's checksums."""
        reader = self._call(status.path, self._client.read, status.path)
        fetch = partial(self._call, status.path, reader.read_range)
        return RangeFile(self.name(status.path), status.size, fetch)

    def put(self, file: Path, path: str) -> None:
        """Write the file under another name, then rename it, which is one step."""
        other = beside(path)
        writer = self._call(path, self._client.create, other)
        with file.open("rb") as source:
            while piece := source.read(PIECE):
                self._call(path, writer.write, piece)
        self._call(path, writer.close)
        self._call(path, self._client.rename, other, path, True)

    def remove(self, path: str) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._call(path, self._client.delete, path)

    def _list(self, path: str) -> list[Any]:
        return list(self._client.list_status(path))

    def _call(self, path: str, function: Any, *arguments: Any) -> Any:
        """Call `function` with a time limit; its errors name the file."""
        name = self.name(path)
        answer: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            try:
                answer.put((function(*arguments), None))
            except BaseException as error:  # the driver's panics are not Exceptions
                answer.put((None, error))

        start(Thread(target=work, name="blocklearn-hdfs", daemon=True))
        try:
            result, error = answer.get(timeout=self._longest)
        except Empty:
            raise RemoteError(f"{name}: no answer within {self._longest:g} seconds.") from None
        if error is None:
            return result
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, "HDFS has no such file", name) from error
        if isinstance(error, PermissionError):
            raise PermissionError(errno.EACCES, f"HDFS does not allow it: {error}", name) from error
        raise RemoteError(f"{name}: {error}") from error


def settings(patience: Patience) -> dict[str, str]:
    """Convert patience to Hadoop settings; $HADOOP_CONF_DIR has all other settings."""
    return {
        "dfs.client.socket-timeout": f"{patience.timeout * 1000:.0f}",
        "dfs.client.failover.max.attempts": str(patience.attempts),
        "dfs.client.failover.sleep.max.millis": f"{LONGEST_PAUSE * 1000:.0f}",
    }


def to_status(found: Any) -> Status:
    """Convert a `FileStatus` of hdfs-native."""
    identity = f"{found.length} {found.modification_time}"
    return Status(found.path, found.length, identity, found.isdir)
