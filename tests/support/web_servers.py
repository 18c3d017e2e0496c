"""Web servers on loopback that misbehave as they are told: WebHDFS, and plain files by ranges."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One request; what to say is up to `answer` of the server."""

    server: "Server"

    def do_GET(self) -> None:
        self.parts = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(self.parts.query).items()}
        self.server.asked.append(self)
        try:
            self.server.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client had enough

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def body(self) -> bytes:
        """What was sent, of a length that was announced or in chunks."""
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        found = b""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return found

    def say(
        self, status: int, body: bytes = b"", announced: int | None = None, **headers: str
    ) -> None:
        """A reply of `body`; announced: the Content-Length, that of the body if not given."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say_json(self, status: int, value: object) -> None:
        self.say(status, json.dumps(value).encode(), Content_Type="application/json")

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[Handler] = []
        self.done = threading.Event()  # ends requests that are never answered

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.done.set()
        server.shutdown()
        thread.join()
        server.server_close()


def closed_port() -> str:
    """An address where no server listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


class FakeHdfs:
    """A namenode and its datanode in one server, which holds `files`.

    faults: what the next answers to OPEN shall suffer, one each, by name; then all is well.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.faults = files, list[str]()
        self.standby = False
        self.dead = closed_port()

    def __call__(self, request: Handler) -> None:
        path = unquote(request.parts.path).removeprefix("/webhdfs/v1")
        op = request.query["op"]
        if self.standby:
            return refuse(request, 403, "StandbyException", "Operation READ is not supported")
        if op == "READ":
            return self.stream(request, self.files[path])
        if op in ("CREATE", "WRITE", "RENAME", "DELETE"):
            return self.change(request, op, path)
        below = path.rstrip("/") + "/"
        if path not in self.files and not any(name.startswith(below) for name in self.files):
            return refuse(request, 404, "FileNotFoundException", f"{path} does not exist")
        if path.startswith("/secret"):
            return refuse(request, 403, "AccessControlException", "Permission denied: user=dr.who")
        if op == "GETFILESTATUS":
            request.say_json(200, {"FileStatus": self.status(path, "")})
        elif op == "LISTSTATUS":
            names = sorted(
                {n[len(below) :].split("/")[0] for n in self.files if n.startswith(below)}
            )
            found = [self.status(below + name, name) for name in names]
            request.say_json(200, {"FileStatuses": {"FileStatus": found}})
        elif op == "OPEN":
            self.open(request, path)
        return None

    def change(self, request: Handler, op: str, path: str) -> None:
        """CREATE leads to WRITE, whose fault is the next of `faults`."""
        if path.startswith("/secret"):
            refuse(request, 403, "AccessControlException", "Permission denied: user=dr.who")
        elif op == "CREATE":
            fault = self.faults.pop(0) if self.faults else "none"
            host = self.dead if fault == "dead" else request.headers["Host"]
            query = request.parts.query.replace("op=CREATE", "op=WRITE")
            request.say(307, Location=f"http://{host}{request.parts.path}?{query}&fault={fault}")
        elif op == "WRITE":
            data, fault = request.body(), request.query["fault"]
            self.files[path] = data[: len(data) // 2] if fault == "half" else data
            if fault == "500":
                refuse(request, 500, "IOException", "disk is full")
            else:
                request.say(201)
        elif op == "DELETE":
            request.say_json(200, {"boolean": self.files.pop(path, None) is not None})
        elif path not in self.files:
            refuse(request, 404, "FileNotFoundException", f"{path} does not exist")
        else:
            self.files[request.query["destination"]] = self.files.pop(path)
            lost = self.faults and self.faults[0] == "lost" and self.faults.pop(0)
            request.say(500 if lost else 200)

    def status(self, path: str, name: str) -> dict[str, object]:
        kind, size = "DIRECTORY", 0
        if path in self.files:
            kind, size = "FILE", len(self.files[path])
        return {
            "pathSuffix": name,
            "type": kind,
            "length": size,
            "modificationTime": hash(self.files.get(path)) % 1000,
            "fileId": 7,
        }

    def open(self, request: Handler, path: str) -> None:
        fault = self.faults.pop(0) if self.faults else "none"
        if fault == "retriable":
            return refuse(request, 403, "RetriableException", "the namenode is starting")
        if fault == "none-left":
            return refuse(request, 403, "IOException", "No active nodes contain this block")
        if fault == "namenode-500":
            return request.say(500, b"<html>out of memory</html>")
        host = self.dead if fault == "dead" else request.headers["Host"]
        query = request.parts.query.replace("op=OPEN", "op=READ")
        place = f"http://{host}{request.parts.path}?{query}&fault={fault}"
        request.say(307, Location=place)
        return None

    def stream(self, request: Handler, data: bytes) -> None:
        start, length = int(request.query["offset"]), int(request.query["length"])
        data, fault = data[start : start + length], request.query["fault"]
        if fault == "500":
            error = {"exception": "IOException", "javaClassName": "x", "message": "disk is gone"}
            request.say_json(500, {"RemoteException": error})
        elif fault == "short":  # and the length says so
            request.say(200, data[: len(data) // 2])
        elif fault == "broken-off":
            request.say(200, data[: len(data) // 2], announced=len(data))
        elif fault == "long":
            request.say(200, data + b"more")
        elif fault == "never":
            request.server.done.wait(30)
        elif fault == "stalls":
            request.say(200, data[: len(data) // 2], announced=len(data))
            request.wfile.flush()
            request.server.done.wait(30)
        elif fault == "error-as-data":  # what fsspec takes for the file
            request.say_json(500, {"RemoteException": {"message": "x" * length}})
        else:
            request.say(200, data, Content_Type="application/octet-stream")


def refuse(request: Handler, status: int, exception: str, text: str) -> None:
    """What a namenode says when it does not want to."""
    found = {"exception": exception, "javaClassName": f"org.x.{exception}", "message": text}
    request.say_json(status, {"RemoteException": found})


class FileServer:
    """Plain `files` (by path) by ranges, as good servers do it; /moved leads to /file."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.tag, self.faults = files, '"1"', list[int]()

    def __call__(self, request: Handler) -> None:
        if request.parts.path == "/moved":
            return request.say(302, Location="/file")
        data = self.files.get(unquote(request.parts.path))
        if data is None:
            return request.say(404)
        if self.faults:
            return request.say(self.faults.pop(), b"sorry")
        if request.headers.get("If-Match", self.tag) != self.tag:
            return request.say(412)
        start, stop = request.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(start) : int(stop) + 1]
        if not part:
            return request.say(416, Content_Range=f"bytes */{len(data)}", ETag=self.tag)
        last = int(start) + len(part) - 1
        place = f"bytes {start}-{last}/{len(data)}"
        request.say(206, part, Content_Range=place, ETag=self.tag)
        return None
