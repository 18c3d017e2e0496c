"""A service of `learn serve` within the test, and a client of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blocklearn.learner.serving.app import App
from blocklearn.learner.serving.limits import Limits
from blocklearn.learner.serving.serve import listening, make_server
from blocklearn.learner.serving.served import Served


class Client:
    """Sends requests to a service, each on a connection of its own.

    said: what the service printed. app: the service.
    """

    def __init__(self, port: int, app: App, said: list[str]) -> None:
        self.port, self.app, self.said = port, app, said

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
        """Return status and answer; body: JSON, or bytes as they are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, data)
            response = connection.getresponse()
            text = response.read().decode()
            found = json.loads(text) if "json" in response.headers["content-type"] else text
            return response.status, found
        finally:
            connection.close()

    def open(self) -> socket.socket:
        """Return a bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@contextmanager
def service(run: Path, *, lines: bool = False, **limits: Any) -> Iterator[Client]:
    """Serve a run on a free port; the service ends with the `with` statement."""
    said: list[str] = []
    ready = threading.Event()
    given = Limits(**limits)
    with listening("127.0.0.1", 0) as listener:
        app = App(Served(run, threads=1), given, said.append, lines=lines)
        server = make_server(app, given, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert ready.wait(60)
            yield Client(listener.getsockname()[1], app, said)
        finally:
            server.should_exit = True
            thread.join()
            app.close()
