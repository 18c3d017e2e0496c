"""`webhdfs://`: HDFS by its REST interface. Names come from a namenode, bytes from datanodes.

https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

import errno
import json
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .errors import Passing, RemoteError
from .files import RangeFile, Status
from .http_files import shorten
from .http_request import Patience, Reply, ask

GO_ON = {"StandbyException", "RetriableException", "SafeModeException", "IOException"}
MISSING = {"FileNotFoundException"}
FORBIDDEN = {"AccessControlException", "SecurityException", "AuthorizationException"}


class WebHdfs:
    """One HDFS, reached through `namenodes` ("host:port"), of which one is active.

    scheme: "webhdfs" or "swebhdfs" (TLS). user: who asks, where the cluster believes it (there is
    no Kerberos here: use the hdfs:// drivers). Every reply must have status, kind and length as
    asked; a datanode that fails is left out of the next try, and so is a namenode that is on
    standby or gone.
    """

    quick = False

    def __init__(
        self, scheme: str, namenodes: Sequence[str], user: str | None, patience: Patience
    ) -> None:
        self._scheme, self._namenodes, self._patience = scheme, list(namenodes), patience
        self._transport = "https" if scheme == "swebhdfs" else "http"
        self._user = {} if user is None else {"user.name": user}

    def name(self, path: str) -> str:
        """The URL."""
        return f"{self._scheme}://{','.join(self._namenodes)}{path}"

    def status(self, path: str) -> Status:
        """As the namenode knows it."""
        return to_status(path, self._say(path, "GETFILESTATUS", "FileStatus"))

    def children(self, path: str) -> list[Status]:
        """What a folder holds."""
        found = self._say(path, "LISTSTATUS", "FileStatuses")["FileStatus"]
        folder = path.rstrip("/")
        return [to_status(f"{folder}/{child['pathSuffix']}", child) for child in found]

    def open(self, status: Status) -> RangeFile:
        """The file, read by ranges."""
        return RangeFile(self.name(status.path), status.size, partial(self._fetch, status.path))

    def _say(self, path: str, op: str, key: str) -> Any:
        """What the namenode says to a question, as JSON: the value of `key`."""
        name = self.name(path)
        reply = self._patience.keep_trying(name, lambda: self._ask_namenode(path, op, {}))
        if reply.status != 200:
            raise refusal(reply, name)
        try:
            return json.loads(reply.body)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteError(
                f"{name}: {op} was answered by {shorten(reply.body)!r}, which is not WebHDFS; is "
                "this the namenode's HTTP address (port 9870)?"
            ) from error

    def _ask_namenode(self, path: str, op: str, more: dict[str, str]) -> Reply:
        """The reply of the namenode that is active: the next time it is asked first."""
        query = urlencode({"op": op, **self._user, **more})
        fault = Passing("no namenode was named")
        for namenode in list(self._namenodes):
            url = f"{self._transport}://{namenode}/webhdfs/v1{quote(path)}?{query}"
            try:
                reply = ask(url, self._patience.timeout)
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
        """One try: ask the namenode which datanode has these bytes, and get them there."""
        more = {"offset": str(offset), "length": str(length)}
        if failed:
            more["excludedatanodes"] = ",".join(sorted(failed))
        try:
            reply = self._ask_namenode(path, "OPEN", more)
        except Passing:
            failed.clear()  # perhaps none is left without them
            raise
        datanode = ""
        if reply.status in (302, 307):
            datanode = urlsplit(reply.headers.get("location", "")).netloc
            if not datanode:
                raise Passing("the namenode sends us on, but does not say where to")
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
            raise Passing(f"{datanode} sent {len(reply.body):,} bytes where {length:,} were asked")
        return reply.body


def to_status(path: str, found: dict[str, Any]) -> Status:
    """A `FileStatus` of the REST interface."""
    identity = f"{found.get('fileId')} {found['length']} {found['modificationTime']}"
    return Status(path, int(found["length"]), identity, found["type"] == "DIRECTORY")


def exception(reply: Reply) -> tuple[str, str]:
    """Name and text of the Java exception that a reply tells of; ("", "") if of none."""
    if reply.status < 400:
        return "", ""
    try:
        found = json.loads(reply.body)["RemoteException"]
        return str(found["exception"]), str(found["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return "", shorten(reply.body)


def refusal(reply: Reply, name: str) -> OSError:
    """The error for a reply that will not change."""
    kind, text = exception(reply)
    if kind in MISSING:
        return FileNotFoundError(errno.ENOENT, "HDFS has no such file", name)
    if kind in FORBIDDEN or (not kind and reply.status in (401, 403)):
        return PermissionError(errno.EACCES, f"HDFS does not allow it: {text}", name)
    hint = "" if kind else "; is this the namenode's HTTP address (port 9870)?"
    return RemoteError(f"{name}: {reply.status} {kind} {text}{hint}")
