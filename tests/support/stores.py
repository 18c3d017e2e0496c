"""Servers of stores on this machine, and a proxy that makes them fail."""

from __future__ import annotations

import http.client
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.web_servers import Handler, closed_port

ROOT = Path(__file__).parents[2]
# The key of every Azurite: learn.microsoft.com/azure/storage/common/storage-use-azurite
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}
"""Headers that a proxy does not pass on."""


class Between:
    """A proxy in front of a server, in which every `every`-th request fails as `fault` says.

    fault: "503", and the server does not get the request; "broken-off", half of what the server
        says; "cut", the server does what it is told, and its answer is lost.
    """

    def __init__(self, address: str, fault: str, every: int) -> None:
        self.address, self.fault, self.every, self.count = address, fault, every, 0
        self.failed = 0

    def __call__(self, request: Handler) -> None:
        self.count += 1
        failing = self.count % self.every == 0
        self.failed += failing
        if failing and self.fault == "503":
            request.body()
            return request.say(503)
        headers = {n: v for n, v in request.headers.items() if n.lower() not in HOP - {"host"}}
        sent = request.body()
        if request.command in ("PUT", "POST"):
            headers["Content-Length"] = str(len(sent))
        connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            connection.request(request.command, request.path, sent or None, headers)
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if failing and self.fault == "cut":
            request.close_connection = True
            return None
        found = {n.replace("-", "_"): v for n, v in reply.getheaders() if n.lower() not in HOP}
        length = int(reply.headers.get("Content-Length") or len(body))
        if failing and self.fault == "broken-off":
            body = body[: len(body) // 2]
        request.say(reply.status, body, announced=length, **found)
        return None


@contextmanager
def running(command: list[str], address: str) -> Iterator[None]:
    """Run a server in a `with` statement, from when it listens on `address`."""
    host, _, port = address.partition(":")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                socket.create_connection((host, int(port)), 5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


class Store:
    """A server of one kind of store, with a bucket named `box`.

    environment: variables with its keys.
    """

    scheme = ""
    environment: ClassVar[Mapping[str, str]] = {}

    def command(self, address: str) -> list[str]:
        """Return the command that starts it; skip the test if it is not installed."""
        raise NotImplementedError

    def make_box(self, address: str) -> None:
        """Make the bucket."""
        raise NotImplementedError

    def url(self, path: str, address: str) -> str:
        """Return the URL of a file, at the server or a proxy before it."""
        raise NotImplementedError


class S3(Store):
    """moto."""

    scheme = "s3"
    environment: ClassVar = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    def command(self, address: str) -> list[str]:
        if any(importlib.util.find_spec(name) is None for name in ("moto", "flask_cors")):
            pytest.skip("moto is not installed: pip install 'blocklearn[services]'")
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.split(":")[1]]

    def make_box(self, address: str) -> None:
        say(address, "PUT", "/box")

    def url(self, path: str, address: str) -> str:
        return f"s3://box/{path}?region=us-east-1&scheme=http&endpoint_override={address}"


class Google(Store):
    """gcp-storage-emulator."""

    scheme = "gs"

    def command(self, address: str) -> list[str]:
        if importlib.util.find_spec("gcp_storage_emulator") is None:
            pytest.skip("no emulator of Google Cloud: pip install 'blocklearn[services]'")
        start = "import sys; from gcp_storage_emulator.__main__ import main; sys.exit(main())"
        given = ["start", "--host", "127.0.0.1", "--port", address.split(":")[1], "--in-memory"]
        return [sys.executable, "-c", start, *given, "--default-bucket", "box"]

    def make_box(self, address: str) -> None:
        pass  # made at the start

    def url(self, path: str, address: str) -> str:
        return f"gs://box/{path}?anonymous=true&scheme=http&endpoint_override={address}"


class Azure(Store):
    """Azurite, of npm: on the path, or where `.ci/run` installs it."""

    scheme = "az"
    environment: ClassVar = {
        "AZURE_STORAGE_ACCOUNT": "devstoreaccount1",
        "AZURE_STORAGE_KEY": AZURE_KEY,
    }

    def command(self, address: str) -> list[str]:
        places = [str(ROOT / ".venv/azurite/node_modules/.bin"), os.environ.get("PATH", "")]
        found = shutil.which("azurite-blob", path=os.pathsep.join(places))
        if found is None:
            pytest.skip("Azurite is not installed: npm install --prefix .venv/azurite azurite")
        given = ["--blobHost", "127.0.0.1", "--blobPort", address.split(":")[1], "--silent"]
        return [found, *given, "--inMemoryPersistence", "--skipApiVersionCheck"]

    def make_box(self, address: str) -> None:
        from pyarrow import fs

        fs.AzureFileSystem(
            "devstoreaccount1",
            account_key=AZURE_KEY,
            blob_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_authority=address,
            dfs_storage_scheme="http",
        ).create_dir("box")

    def url(self, path: str, address: str) -> str:
        return f"az://box/{path}?scheme=http&authority={address}"


STORES: list[Store] = [S3(), Google(), Azure()]


def say(address: str, method: str, path: str) -> None:
    """Send a request without a body."""
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request(method, path)
        assert connection.getresponse().status == 200
    finally:
        connection.close()


@contextmanager
def started(store: Store) -> Iterator[str]:
    """Run the server of a store in a `with` statement; yield its address."""
    address = closed_port()
    with running(store.command(address), address), pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        store.make_box(address)
        yield address
