"""A cluster of Ray: joining it or starting it here, and the cores that its machines have.

Imports ray.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from blocklearn.matcache import available_threads

from ..errors import WorkerLostError
from .meeting import imported

STORE = 2**27
"""Bytes of the object store of a cluster on this machine, and twice as many for each worker."""


CONNECT = 10.0
"""Seconds in which a cluster must take a connection: Ray itself would try for minutes."""


PAUSE = 1.0
"""Seconds of a wait for cores, after which signals are heard."""


def cores() -> int:
    """Return the cores of the cluster."""
    return int(imported().cluster_resources().get("CPU", 0))


def room(each: int) -> int:
    """Return for how many workers of `each` cores the machines of the cluster have room."""
    machines = [node["Resources"] for node in imported().nodes() if node["Alive"]]
    return sum(int(own.get("CPU", 0)) // each for own in machines)


def placed(group: Any, seconds: float) -> bool:
    """Return whether Ray finds cores for a group within so many seconds.

    Python hears no signals while Ray waits, so this waits again and again.
    """
    end = time.monotonic() + seconds
    while not group.wait(PAUSE):
        if time.monotonic() > end:
            return False
    return True


@contextmanager
def answering() -> Iterator[None]:
    """Raise WorkerLostError if the cluster is gone."""
    try:
        yield
    except imported().exceptions.RayError as error:
        raise WorkerLostError(f"engine=ray: no workers: {first_line(error)}") from None


def imported_for(address: str | None) -> Any:
    """Import ray, and return it.

    A cluster that is started here (None) asks for its token, which Ray also does by itself, with a
    warning. It reads the variable when it is imported.
    """
    if address is None and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    return imported()


@contextmanager
def joined(address: str | None, workers: int, nbytes: int = 0) -> Iterator[None]:
    """Be connected to a cluster of Ray in a `with` statement. Nothing to do if it is already.

    address: of the cluster; None: start one of this machine, which listens on 127.0.0.1 alone.
    workers, nbytes: how many it must have room for, and the bytes of what they get.

    Raises WorkerLostError if Ray does not start, or the cluster does not answer.
    """
    ray = imported_for(address)
    if ray.is_initialized():
        yield
        return
    folder = None
    given: dict[str, Any] = {"address": address or "local"}
    if address is None:
        folder = tempfile.mkdtemp(prefix="ray-")
        given |= {
            "num_cpus": max(workers, available_threads()),
            "object_store_memory": STORE + 2 * STORE * workers + nbytes,
            "include_dashboard": False,
            "_temp_dir": folder,
        }
    else:
        _check_reachable(address)
    try:
        with _signals_kept(), _local() if address is None else nullcontext():
            try:
                ray.init(log_to_driver=False, configure_logging=False, **given)
            except Exception as error:  # Ray raises errors of many kinds
                raise WorkerLostError(f"engine=ray: no cluster: {first_line(error)}") from error
        yield
    finally:
        with _signals_kept():
            ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _check_reachable(address: str) -> None:
    """Raise WorkerLostError if nothing listens at HOST:PORT; other addresses are let be."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, OverflowError) as error:
        raise WorkerLostError(
            f"engine=ray: no cluster at {address}: {error}. Start one there by `ray start --head`, "
            "or give the address of another: distributed.address, or the variable RAY_ADDRESS."
        ) from error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM after a `with` statement: Ray sets one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _local() -> Iterator[None]:
    """Let a machine that starts in a `with` statement have the address 127.0.0.1.

    All processes of Ray then listen there alone, as on macOS; on Linux `ray.init` refuses it.
    """
    from ray._private import ray_constants

    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
