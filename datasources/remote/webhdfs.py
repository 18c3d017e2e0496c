"""Read and write `webhdfs://`: metadata from a namenode, bytes from datanodes, over REST.

https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

import errno
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .errors import Passing, RemoteError
from .files import RangeFile, Status, beside
from .http_files import shorten
from .http_request import Patience, Reply, ask

GO_ON = {"StandbyException", "RetriableException", "SafeModeException", "IOException"}
MISSING = {"FileNotFoundException"}
FORBIDDEN = {"AccessControlException", "SecurityException", "AuthorizationException"}


class WebHdfs:
    """One HDFS, reached through `namenodes` ("host:port"), of which one is active.

    scheme: "webhdfs" or "swebhdfs" (TLS).
    user: the name to send, for clusters that trust it. Kerberos needs the hdfs:// drivers.

    Every reply must have the requested status, kind and length. The next try avoids a datanode that
    failed, and a namenode that is on standby or down.
    """

    quick = False

    def __init__(
        self, scheme: str, namenodes: Sequence[str], user: str | None, patience: Patience
    ) -> None:
        self._scheme, self._namenodes, self._patience = scheme, list(namenodes), patience
        self._transport = "https" if scheme == "swebhdfs" else "http"
        self._user = {} if user is None else {"user.name": user}

    def name(self, path: str) -> str:
        """Return the URL."""
        return f"{self._scheme}://{','.join(self._namenodes)}{path}"

    def status(self, path: str) -> Status:
        """Ask the namenode for the status."""
        return to_status(path, self._say(path, "GETFILESTATUS", "FileStatus"))

    def children(self, path: str) -> list[Status]:
        """List a folder."""
        found = self._say(path, "LISTSTATUS", "FileStatuses")["FileStatus"]
        folder = path.rstrip("/")
        return [to_status(f"{folder}/{child['pathSuffix']}", child) for child in found]

    def open(self, status: Status) -> RangeFile:
        """Open the file, to be read by ranges."""
        return RangeFile(self.name(status.path), status.size, partial(self._fetch, status.path))

    def put(self, file: Path, path: str) -> None:
        """Write the file under another name, then rename it, which is one step."""
        other, failed = beside(path), set[str]()
        write = partial(self._write, file, other, failed)
        try:
            self._patience.keep_trying(self.name(path), write)
            more = {"destination": path, "renameoptions": "OVERWRITE"}
            try:
                self._tell(other, "RENAME", more, "PUT")
            except FileNotFoundError:  # a try whose answer was lost may have done it
                if self.status(path).size != file.stat().st_size:
                    raise
        except OSError:
            with suppress(OSError):
                self.remove(other)
            raise

    def remove(self, path: str) -> None:
        """Remove the file; HDFS does not mind if it does not exist."""
        self._tell(path, "DELETE", {}, "DELETE")

    def _write(self, file: Path, path: str, failed: set[str]) -> None:
        """Try once: ask the namenode for a datanode, and send the bytes to it.

        failed: hosts of datanodes that failed before.
        """
        more = {"overwrite": "true"}
        if failed:
            more["excludedatanodes"] = ",".join(sorted(failed))
        reply = self._ask_namenode(path, "CREATE", more, "PUT")
        if reply.status not in (302, 307):
            raise refusal(reply, self.name(path))
        place = reply.headers.get("location", "")
        try:
            found = ask(place, self._patience.timeout, method="PUT", body=file)
            if found.status >= 400 and exception(found)[0] not in FORBIDDEN:
                raise Passing(f"datanode said {found.status} {shorten(found.body)}")
        except Passing:
            failed.add(urlsplit(place).netloc.rpartition(":")[0])
            raise
        if found.status != 201:
            raise refusal(found, self.name(path))
        size = self.status(path).size
        if size != file.stat().st_size:
            raise Passing(f"{size:,} bytes arrived of {file.stat().st_size:,}")

    def _tell(self, path: str, op: str, more: dict[str, str], method: str) -> Reply:
        """Have the namenode do something."""
        name = self.name(path)
        reply = self._patience.keep_trying(name, lambda: self._ask_namenode(path, op, more, method))
        if reply.status != 200:
            raise refusal(reply, name)
        return reply

    def _say(self, path: str, op: str, key: str) -> Any:
        """Ask the namenode, and return the value of `key` in its JSON reply."""
        name, reply = self.name(path), self._tell(path, op, {}, "GET")
        try:
            return json.loads(reply.body)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteError(
                f"{name}: {op} was answered by {shorten(reply.body)!r}, which is not WebHDFS; is "
                "this the namenode's HTTP address (port 9870)?"
            ) from error

    def _ask_namenode(self, path: str, op: str, more: dict[str, str], method: str = "GET") -> Reply:
        """Return the reply of the active namenode, and ask that one first next time."""
        query = urlencode({"op": op, **self._user, **more})
        fault = Passing("no namenode was named")
        for namenode in list(self._namenodes):
            url = f"{self._transport}://{namenode}/webhdfs/v1{quote(path)}?{query}"
            try:
                reply = ask(url, self._patience.timeout, method=method)
            except Passing as error:
                fault = error
                continue
            kind, text = exception(reply)
            if kind not in GO_ON and reply.status < 500:
                self._namenodes = [namenode, *(n for n in self._namenodes if n != namenode)]
                return reply
            fault = Passing(f"namenode {namenode} said {reply.status} {kind} {text}")
        raise fault

    def _fetch(self, path: str, offset: int, length: int) -> bytes:
        failed: set[str] = set()  # hosts of datanodes
        return self._patience.keep_trying(
            self.name(path), lambda: self._stream(path, offset, length, failed)
        )

    def _stream(self, path: str, offset: int, length: int, failed: set[str]) -> bytes:
        """Try once: ask the namenode for a datanode with these bytes, and get them there."""
        more = {"offset": str(offset), "length": str(length)}
        if failed:
            more["excludedatanodes"] = ",".join(sorted(failed))
        try:
            reply = self._ask_namenode(path, "OPEN", more)
        except Passing:
            failed.clear()  # perhaps no other datanode is left
            raise
        datanode = ""
        if reply.status in (302, 307):
            datanode = urlsplit(reply.headers.get("location", "")).netloc
            if not datanode:
                raise Passing("the namenode redirects, but does not say where to")
            try:
                reply = ask(reply.headers["location"], self._patience.timeout, most=length)
                if reply.status >= 400 and exception(reply)[0] not in MISSING | FORBIDDEN:
                    raise Passing(f"datanode {datanode} said {reply.status} {shorten(reply.body)}")
            except Passing:
                failed.add(datanode.rpartition(":")[0])
                raise
        if reply.status != 200:
            raise refusal(reply, self.name(path))
        if len(reply.body) != length:
            failed.add(datanode.rpartition(":")[0])
            raise Passing(f"{datanode} sent {len(reply.body):,} bytes; {length:,} were requested")
        return reply.body


def to_status(path: str, found: dict[str, Any]) -> Status:
    """Convert a `FileStatus` of the REST interface."""
    identity = f"{found.get('fileId')} {found['length']} {found['modificationTime']}"
    return Status(path, int(found["length"]), identity, found["type"] == "DIRECTORY")


def exception(reply: Reply) -> tuple[str, str]:
    """Return name and text of the Java exception in a reply, ("", "") if none."""
    if reply.status < 400:
        return "", ""
    try:
        found = json.loads(reply.body)["RemoteException"]
        return str(found["exception"]), str(found["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return "", shorten(reply.body)


def refusal(reply: Reply, name: str) -> OSError:
    """Return the error for a reply that a retry cannot change."""
    kind, text = exception(reply)
    if kind in MISSING:
        return FileNotFoundError(errno.ENOENT, "HDFS has no such file", name)
    if kind in FORBIDDEN or (not kind and reply.status in (401, 403)):
        return PermissionError(errno.EACCES, f"HDFS does not allow it: {text}", name)
    hint = "" if kind else "; is this the namenode's HTTP address (port 9870)?"
    return RemoteError(f"{name}: {reply.status} {kind} {text}{hint}")
