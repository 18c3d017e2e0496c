"""Serve a model until a signal stops the service."""

from __future__ import annotations

import ipaddress
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from types import FrameType

import uvicorn

from blocklearn.models import Model

from ..exit_codes import ExitCode
from .app import App
from .connections import protocol
from .limits import Limits
from .served import Served

STOPPING = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048  # connections that the system holds until they are accepted
SPARE_FILES = 64  # open files besides connections


def serve(
    run: Path,
    host: str,
    port: int,
    limits: Limits,
    *,
    threads: int | None,
    device: str,
    lines: bool,
    say: Callable[[str], None],
    ready: Callable[[str], None],
    model: type[Model] | None = None,
) -> ExitCode:
    """Load the model of a run, and answer requests until SIGINT or SIGTERM.

    Requests that are being answered are finished, within the limit of time.

    Args:
        run: the folder of a run or model.
        host: name or address to listen at.
        port: 0: any free one.
        limits: of requests.
        threads: see `Learner`.
        device: see `Learner`.
        lines: whether each request is logged.
        say: prints warnings, faults and the log.
        ready: is called with the URL once requests are accepted.
        model: see `blocklearn.load`.

    Returns:
        DONE, or KILLED after a second Ctrl-C.

    Raises:
        OSError: the service cannot listen there.
        ModelFolderError: the model is damaged.
    """
    with listening(host, port) as listener:
        if not is_loopback(host):
            say(
                f"--host {host}: other machines may reach this service. It has neither passwords "
                "nor encryption: put a proxy in front of it that has."
            )
        served = Served(run, threads=threads, device=device, model=model)
        if served.seen_error is not None:
            say(
                f"{served.seen_error} What users have seen is unknown, so /recommend takes users "
                'only with "include_seen": true.'
            )
        app = App(served, limits, say, lines=lines)
        app.warm_up()
        allow_files(limits.max_requests + SPARE_FILES)
        server = make_server(app, limits, lambda: ready(url_of(listener)))
        server.run(sockets=[listener])
        app.close()
    return ExitCode.KILLED if server.force_exit else ExitCode.DONE


def make_server(app: App, limits: Limits, ready: Callable[[], None]) -> Server:
    """Return a server of `app`; it calls `ready` once it accepts requests."""
    server = Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http=protocol(limits.seconds),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=ceil(limits.seconds),
        )
    )
    server.when_started = ready
    return server


class Server(uvicorn.Server):
    """uvicorn's server, which ends the process with an exit code and not by the signal again."""

    when_started: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, and tell so."""
        await super().startup(sockets=sockets)
        self.when_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM; ignored signals stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self.handle_exit) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish the requests; a second Ctrl-C does not wait for them."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that is bound to an address. Raises `OSError` that names it."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), f"{host}:{port}") from error
    with listener:
        yield listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def url_of(listener: socket.socket) -> str:
    """Return the URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def allow_files(count: int) -> None:
    """Raise the soft limit of open files to `count`, if the hard one allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
