"""Read files from web servers (`http://`, `https://`) by ranges of bytes."""

import errno
import re
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

from ..errors import DataError
from ..secrets import hidden_url, without_secrets_of
from .errors import Passing, RemoteError, TooLong
from .files import RangeFile, Status
from .http_request import Patience, Reply, ask

MOVED = (301, 302, 303, 307, 308)


class HttpFiles:
    """Files on web servers; a path is a URL. There are no folders.

    A file's identity is its ETag, or else its time of change. Requests for ranges require the same
    ETag. Proxies named in the environment are not used.
    """

    quick = False

    def __init__(self, patience: Patience) -> None:
        self._patience = patience

    def name(self, path: str) -> str:
        """Return the URL without its user and query, which may be a signature."""
        return hidden_url(path.partition("?")[0])

    def status(self, path: str) -> Status:
        """Return size and identity, from a request for the first byte."""
        reply = self._ask(path, 0, 1, {})
        size = self._range(path, reply)[2]
        return Status(path, size, f"{size} {validator(reply)}")

    def children(self, path: str) -> list[Status]:
        """Raise `DataError`: web servers have no folders."""
        raise DataError(f"{self.name(path)}: a web server does not list its files; name every one.")

    def open(self, status: Status) -> RangeFile:
        """Open the file, to be read by ranges."""
        return RangeFile(self.name(status.path), status.size, partial(self._fetch, status))

    def put(self, file: Path, path: str) -> None:
        """Raise `DataError`: web servers take no files."""
        raise DataError(
            f"{self.name(path)}: files cannot be written to a web server. Write to a store, such as s3://."
        )

    def remove(self, path: str) -> None:
        """Raise `DataError`, as `put` does."""
        self.put(Path(), path)

    def _fetch(self, status: Status, offset: int, length: int) -> bytes:
        tag = status.identity.partition(" ")[2]
        headers = {"If-Match": tag} if tag.startswith('"') else {}
        reply = self._ask(status.path, offset, length, headers)
        start, stop, size = self._range(status.path, reply)
        if (start, stop, size) != (offset, offset + length, status.size):
            raise RemoteError(
                f"{self.name(status.path)}: bytes {offset}-{offset + length} of {status.size} were "
                f"requested, but {start}-{stop} of {size} came; the file has changed, or the "
                "server does not support ranges."
            )
        if f"{size} {validator(reply)}" != status.identity:
            raise changed(self.name(status.path))
        return reply.body

    def _ask(self, path: str, offset: int, length: int, headers: dict[str, str]) -> Reply:
        """Request a part of a file and follow redirects. Any other reply is an error."""
        name = self.name(path)
        headers = {"Range": f"bytes={offset}-{offset + length - 1}", **headers}

        def attempt() -> Reply:
            url = path
            for _ in range(6):
                reply = ask(url, self._patience.timeout, most=length, headers=headers)
                if reply.status not in MOVED:
                    break
                url = urljoin(url, reply.headers.get("location", ""))
            if reply.status >= 500 or reply.status in (408, 429):
                raise Passing(f"the server said {reply.status} {said(reply, path)}")
            return reply

        try:
            reply = self._patience.keep_trying(name, attempt)
        except TooLong as error:
            raise no_ranges(name) from error
        if reply.status in (404, 410):
            raise FileNotFoundError(
                errno.ENOENT, "the server has no such file (and no folders or patterns)", name
            )
        if reply.status in (401, 403):
            raise PermissionError(
                errno.EACCES, f"the server does not allow it ({reply.status})", name
            )
        if reply.status == 412:
            raise changed(name)
        if reply.status not in (206, 416):
            raise no_ranges(name, f" ({reply.status} {said(reply, path)})")
        return reply

    def _range(self, path: str, reply: Reply) -> tuple[int, int, int]:
        """Return first byte, end and total size from the reply's range."""
        text = reply.headers.get("content-range", "")
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text)
        if found and int(found[2]) + 1 - int(found[1]) == len(reply.body):
            return int(found[1]), int(found[2]) + 1, int(found[3])
        if reply.status == 416 and text == "bytes */0":
            return 0, 0, 0
        raise RemoteError(
            f"{self.name(path)}: the server sent {len(reply.body):,} bytes and called them "
            f"{text!r}, which is not a range of a file of known size."
        )


def validator(reply: Reply) -> str:
    """Return what identifies a version of a file; "" if the server does not say."""
    return reply.headers.get("etag") or reply.headers.get("last-modified", "")


def no_ranges(name: str, what: str = "") -> RemoteError:
    """Return the error for a server that does not send the requested bytes."""
    return RemoteError(
        f"{name}: the server does not send the part of the file that it was asked for{what}; "
        "without ranges it cannot be read from there: copy the file."
    )


def changed(name: str) -> RemoteError:
    """Return the error for a file that has changed."""
    return RemoteError(f"{name}: the file was replaced while it was being read; start again.")


def said(reply: Reply, url: str) -> str:
    """Return the start of a reply to `url`, without secrets of the URL."""
    return without_secrets_of(url, shorten(reply.body))


def shorten(body: bytes) -> str:
    """Return the start of an error's text, on one line."""
    text = " ".join(body.decode("utf-8", "replace").split())
    return text if len(text) <= 200 else text[:200] + "..."
