"""Send one HTTP request, and read its reply with every byte accounted for."""

import http.client
import io
import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from .errors import Passing, RemoteError, TooLong

SLOWEST = 64 * 1024  # bytes a second, on average; a slower reply counts as a timeout
ERROR_TEXT = 1 << 16  # bytes that are read of an error's reply
KINDS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


@dataclass(frozen=True)
class Reply:
    """A server's reply. headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(
    url: str,
    timeout: float,
    *,
    most: int = 1 << 26,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    body: Path | None = None,
) -> Reply:
    """Send a request to `url`, without following redirects.

    timeout: seconds.
    most: bytes that the reply may have.
    body: a file whose bytes are sent.

    Raises `Passing` if there is no connection, no reply in time, or an incomplete one, and
    `TooLong` if the reply is too long.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    place = f"{parts.hostname}:{parts.port or parts.scheme}"
    connection = KINDS[parts.scheme](parts.hostname or "", parts.port, timeout=timeout)
    sent = {"Accept-Encoding": "identity", "Connection": "close", **(headers or {})}
    size = 0 if body is None else body.stat().st_size
    if method != "GET":
        sent["Content-Length"] = str(size)
    try:
        connection.connect()
        sock = connection.sock
        try:
            connection.sock = TimedSocket(
                sock, timeout, time.monotonic() + timeout + (most + size) / SLOWEST
            )
            with (
                nullcontext() if body is None else body.open("rb") as file,
                suppress(BrokenPipeError),  # a server that refuses says why, and reads no further
            ):
                connection.request(method, target, file, sent)
            with connection.getresponse() as response:
                return receive(response, most, place)
        finally:
            sock.close()
    except RemoteError:
        raise
    except TimeoutError as error:
        raise Passing(f"{place} did not answer in time ({timeout:g} seconds)") from error
    except (OSError, http.client.HTTPException) as error:
        raise Passing(f"{place}: {error or type(error).__name__}") from error


def receive(response: http.client.HTTPResponse, most: int, place: str) -> Reply:
    """Read the whole body with the announced length; of an error, only the start."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    if response.status >= 300:
        return Reply(response.status, headers, response.read(ERROR_TEXT))
    body = response.read(most + 1)
    if len(body) > most:
        raise TooLong(f"{place} sends more than the {most:,} bytes that were asked for.")
    announced = headers.get("content-length", "")
    if announced.isdigit() and len(body) != int(announced):
        raise Passing(f"{place} broke off after {len(body):,} of {int(announced):,} bytes")
    return Reply(response.status, headers, body)


class TimedReader(io.RawIOBase):
    """The receiving end of a socket; all bytes must arrive by `deadline` (monotonic)."""

    def __init__(self, sock: socket.socket, silence: float, deadline: float) -> None:
        super().__init__()
        self._sock, self._silence, self._deadline = sock, silence, deadline

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """Read bytes; wait for at most `silence` seconds, and never beyond the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(min(left, self._silence))
        return self._sock.recv_into(into)


class TimedSocket:
    """The part of a socket that `http.client` uses; replies are read with a deadline."""

    def __init__(self, sock: socket.socket, silence: float, deadline: float) -> None:
        self._sock = sock
        self._reader = io.BufferedReader(TimedReader(sock, silence, deadline), 1 << 16)

    def sendall(self, data: bytes) -> None:
        """Send a request."""
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedIOBase:
        """Return a file to read the reply from."""
        return self._reader

    def close(self) -> None:
        """Do nothing: the reply is still to be read, and the owner closes the socket."""


T = TypeVar("T")
LONGEST_PAUSE = 5.0  # seconds


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries.

    timeout: seconds of silence, while connecting or reading, that end a try.
    attempts: number of tries in all.
    pause: seconds before the second try; doubled before each further one.
    """

    timeout: float = 30.0
    attempts: int = 10
    pause: float = 0.1

    def keep_trying(self, name: str, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it does not raise `Passing`, and return its result.

        Raises `RemoteError` about the file `name` when all tries have failed. Other errors of
        `attempt` are raised at once.
        """
        pause = self.pause
        for left in range(self.attempts - 1, -1, -1):
            try:
                return attempt()
            except Passing as error:
                if not left:
                    raise RemoteError(
                        f"{name}: {error} (tried {self.attempts} times; see the servers' logs, or "
                        "allow more attempts)"
                    ) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # spread the tries of many workers
            pause = min(2 * pause, LONGEST_PAUSE)
        raise RemoteError(f"{name}: attempts={self.attempts}: must be at least 1.")


PATIENCE = Patience()
"""The timeouts and retries where none are given."""
