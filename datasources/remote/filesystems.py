"""Open file systems: S3, Google Cloud and Azure (by Arrow), fsspec, local disks."""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from blocklearn.durable import new_file

from ..errors import DataError
from .errors import Passing
from .files import RangeFile, Status, beside
from .http_request import Patience

PIECE = 8 << 20
"""Bytes that are sent at a time."""


class ArrowFiles:
    """A `pyarrow.fs.FileSystem`. prefix: the start of its URLs ("s3://")."""

    quick = False

    def __init__(self, filesystem: fs.FileSystem, prefix: str) -> None:
        self._filesystem, self._prefix = filesystem, prefix

    def name(self, path: str) -> str:
        """Return the URL."""
        return self._prefix + path

    def status(self, path: str) -> Status:
        """Return size and identity: the ETag if there is one, else the time of change."""
        status = self._status(self._filesystem.get_file_info(path))
        if status.folder or not isinstance(self._filesystem, fs.S3FileSystem):
            return status
        with self._filesystem.open_input_file(path) as file:  # only requests the head
            tag = file.metadata().get(b"ETag", b"").decode()
        return Status(path, status.size, f"{status.size} {tag}")

    def children(self, path: str) -> list[Status]:
        """List a folder.

        Arrow lists no folders of Google Cloud, which are only beginnings of names: there all names
        below are listed. And where it finds no folder, its error has no number.
        """
        deep = isinstance(self._filesystem, fs.GcsFileSystem)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=deep)
        infos = self._filesystem.get_file_info(selector)
        if not infos:
            self._status(self._filesystem.get_file_info(path))  # raises if it is not there
        found = {}
        start = len(path.rstrip("/")) + 1
        for info in infos:
            name, below, _ = info.path[start:].partition("/")
            child = info.path[:start] + name
            found[child] = Status(child, 0, "", True) if deep and below else self._status(info)
        return list(found.values())

    def open(self, status: Status) -> Any:
        """Open the file in C++, which checks lengths and retries."""
        return self._filesystem.open_input_file(status.path)

    def put(self, file: Path, path: str) -> None:
        """Write the file as a stream.

        S3 and Google Cloud show an object when the stream is closed. On HDFS the file gets its name
        when it is complete. A blob of Azure is empty until the stream is closed.
        """
        store, goal = self._filesystem, path
        hadoop = isinstance(store, fs.HadoopFileSystem)
        if hadoop:
            goal = beside(path)
            store.create_dir(path.rpartition("/")[0])
        with file.open("rb") as source, store.open_output_stream(goal) as stream:
            while piece := source.read(PIECE):
                stream.write(piece)
        if hadoop:
            self.remove(path)
            store.move(goal, path)

    def remove(self, path: str) -> None:
        """Remove the file. Arrow waits long for a blob of Azure that does not exist."""
        if self._filesystem.get_file_info(path).type != fs.FileType.NotFound:
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(path)

    def _status(self, info: Any) -> Status:
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name(info.path))
        folder = info.type == fs.FileType.Directory
        return Status(info.path, info.size or 0, f"{info.size} {info.mtime_ns}", folder)


def open_s3(bucket: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """Open S3 or a compatible store; keys come from the environment or the AWS files."""
    check_options("s3", options, {"region", "endpoint_override", "scheme", "anonymous"})
    region = options.get("region") or os.environ.get("AWS_REGION")
    endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL")
    region = region or os.environ.get("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        region=region or (None if endpoint else fs.resolve_s3_region(bucket)),
        endpoint_override=options.get("endpoint_override"),
        scheme=options.get("scheme"),
        anonymous=options.get("anonymous", "") == "true",
        connect_timeout=patience.timeout,
        request_timeout=patience.timeout,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=patience.attempts),
    )


def open_google(bucket: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """Open Google Cloud Storage; keys come from the environment."""
    check_options("gs", options, {"endpoint_override", "scheme", "anonymous"})
    return fs.GcsFileSystem(
        anonymous=options.get("anonymous", "") == "true",
        endpoint_override=options.get("endpoint_override"),
        scheme=options.get("scheme", "https"),
        retry_time_limit=timedelta(seconds=patience.timeout * patience.attempts),
    )


def open_azure(container: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """Open Azure Blob Storage; the account comes from options or the environment."""
    check_options("az", options, {"account", "authority", "scheme"})
    account = options.get("account") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise DataError(
            f"az://{container}: must name an account. Set AZURE_STORAGE_ACCOUNT, or write "
            f"az://{container}/path?account=NAME."
        )
    return fs.AzureFileSystem(
        account,
        account_key=os.environ.get("AZURE_STORAGE_KEY"),
        blob_storage_authority=options.get("authority"),
        blob_storage_scheme=options.get("scheme"),
        dfs_storage_authority=options.get("authority"),
        dfs_storage_scheme=options.get("scheme"),
    )


BUCKETS: dict[str, Callable[[str, dict[str, str], Patience], fs.FileSystem]] = {
    "s3": open_s3,
    "gs": open_google,
    "az": open_azure,
}


def check_options(scheme: str, options: dict[str, str], known: set[str]) -> None:
    """Raise `DataError` for an unknown option."""
    for name in options.keys() - known:
        raise DataError(
            f"{scheme}://: unknown option {name!r}; choose from {', '.join(sorted(known))}."
        )


class FsspecFiles:
    """An fsspec file system. scheme: the start of its URLs, such as "memory".

    Some of its drivers silently return fewer bytes than requested, and most do not retry: a request
    whose bytes do not come is repeated.
    """

    quick = False

    def __init__(self, filesystem: Any, scheme: str, patience: Patience) -> None:
        self._filesystem, self._scheme, self._patience = filesystem, scheme, patience

    def name(self, path: str) -> str:
        """Return the URL."""
        return f"{self._scheme}://{path}"

    def status(self, path: str) -> Status:
        """Return size and identity: everything that the driver knows of the file."""
        return to_status(self._filesystem.info(path))

    def children(self, path: str) -> list[Status]:
        """List a folder."""
        self._filesystem.invalidate_cache()
        return [to_status(info) for info in self._filesystem.ls(path, detail=True)]

    def open(self, status: Status) -> RangeFile:
        """Open the file, to be read by ranges."""
        return RangeFile(self.name(status.path), status.size, partial(self._fetch, status.path))

    def put(self, file: Path, path: str) -> None:
        """Write the file as its driver does; most show it when it is complete."""

        def attempt() -> None:
            try:
                folder = path.rpartition("/")[0]
                if folder:
                    self._filesystem.makedirs(folder, exist_ok=True)
                self._filesystem.put_file(str(file), path)
            except PermissionError:
                raise
            except OSError as error:
                raise Passing(str(error) or type(error).__name__) from error

        self._patience.keep_trying(self.name(path), attempt)

    def remove(self, path: str) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._filesystem.rm_file(path)

    def _fetch(self, path: str, offset: int, length: int) -> bytes:
        def attempt() -> bytes:
            try:
                data = bytes(self._filesystem.cat_file(path, start=offset, end=offset + length))
            except (FileNotFoundError, PermissionError):
                raise
            except OSError as error:
                raise Passing(str(error) or type(error).__name__) from error
            if len(data) != length:
                raise Passing(f"{len(data):,} bytes came instead of the {length:,} from {offset:,}")
            return data

        return self._patience.keep_trying(self.name(path), attempt)


def to_status(info: dict[str, Any]) -> Status:
    """Convert fsspec's information; drivers agree only on name, size and type."""
    return Status(
        info["name"], info.get("size") or 0, repr(sorted(info.items())), info["type"] == "directory"
    )


class LocalFiles:
    """The file system of this machine; paths are unchanged."""

    quick = True

    def name(self, path: str) -> str:
        """Return the path."""
        return path

    def status(self, path: str) -> Status:
        """Return the result of `stat`; links are followed."""
        found = os.stat(path)
        identity = f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}"
        return Status(path, found.st_size, identity, stat.S_ISDIR(found.st_mode))

    def children(self, path: str) -> list[Status]:
        """List a folder."""
        return [self.status(os.path.join(path, name)) for name in os.listdir(path)]

    def open(self, status: Status) -> Any:
        """Open the file; reads release the interpreter lock."""
        return pa.OSFile(status.path)

    def put(self, file: Path, path: str) -> None:
        """Copy the file."""
        with new_file(Path(path)) as temporary:
            shutil.copyfile(file, temporary)

    def remove(self, path: str) -> None:
        """Remove the file."""
        Path(path).unlink(missing_ok=True)
