"""Compile kernels before they are called, in several processes at once.

Numba holds a lock while it compiles, so threads would wait for each other. A child process that
compiles a kernel leaves the code in a file (`code_files.py`), which this process then loads.
Whatever children fail to compile, this process compiles itself. So they only save time. A child
costs some 0.2 s, so kernels that Numba has translated already are compiled here.

Children are copies of this process, made by fork. Copies lack its other threads, and locks that
those held stay locked. Children take no locks but Numba's, which the parent holds when it forks. A
child that hangs all the same is ended.
"""

# Numba's dispatchers have no types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from ...emit.source import cache_folder
from .code_files import is_kept
from .sized import has_template

LONG = 2.0  # seconds of compiling that are worth a line
MOST = 4  # processes, each of which takes some 100 MB
PATIENCE = 60.0  # seconds that children may take when nothing is left to begin
OWN = "blocklearn-"  # names of this package's threads, which hold no lock that compiling needs
STRANGERS = "mpi4py.MPI", "ray"  # modules whose processes must not fork
log = logging.getLogger("blocklearn.compile")

Signatures = dict[Any, dict[tuple[int, ...], tuple[Any, ...]]]
"""Types of arguments in order, by kernel and by the ids of the types, whose hashes take long."""

Job = tuple[Any, tuple[Any, ...]]  # a kernel, types of its arguments


def want(wanted: Signatures, kernel: Any, types: tuple[Any, ...]) -> None:
    """Add a kernel for arguments of these types."""
    wanted.setdefault(kernel, {})[tuple(map(id, types))] = types


def compile_all(wanted: Signatures, processes: int = 1) -> None:
    """Compile kernels, or load them from disk.

    processes: how many may compile at once.
    """
    begun = time.perf_counter()
    jobs = [(kernel, types) for kernel in wanted for types in wanted[kernel].values()]
    jobs = [(kernel, types) for kernel, types in jobs if types not in kernel.overloads]
    if processes > 1 and _may_fork():
        missing = [job for job in jobs if not (is_kept(*job) or has_template(*job))]
        _compile_together(missing, min(processes, MOST, len(missing)))
    for kernel, types in jobs:
        if types not in kernel.overloads:
            kernel.compile(types)
    seconds = time.perf_counter() - begun
    if seconds > LONG:
        text = "kernels compiled in %.0f s; later runs load them from %s"
        log.info(text, seconds, cache_folder())


def _may_fork() -> bool:
    """Return whether copies of this process can compile."""
    here = threading.current_thread()
    ours = all(one is here or one.name.startswith(OWN) for one in threading.enumerate())
    return ours and sys.platform == "linux" and not any(name in sys.modules for name in STRANGERS)


def _compile_together(jobs: Sequence[Job], processes: int) -> None:
    """Compile kernels in this process and in children; return when the children have ended.

    Long functions come first. Each process takes the next one when it is done with the last.
    """
    if processes < 2:
        return
    jobs = sorted(jobs, key=lambda job: -len(job[0].py_func.__code__.co_code))
    queue, tickets = os.pipe()  # a number for each job, of two bytes
    ended, running = os.pipe()  # children hold the other end while they live
    children: list[int] = []
    with global_compiler_lock:
        try:
            os.write(tickets, b"".join(n.to_bytes(2) for n in range(len(jobs))))
            os.close(tickets)
            with suppress(OSError):  # the system allows no more processes
                children.extend(_child(jobs, queue, running) for _ in range(processes - 1))
            os.close(running)
            _take(jobs, queue)
            select.select([ended], [], [], PATIENCE)
        finally:
            _end(children)
            os.close(queue)
            os.close(ended)


def _take(jobs: Sequence[Job], queue: int) -> None:
    """Compile jobs of the queue until it is empty. A child whose parent has died stops."""
    parent = os.getppid()
    while os.getppid() == parent and (ticket := os.read(queue, 2)):
        kernel, types = jobs[int.from_bytes(ticket)]
        kernel.compile(types)


def _child(jobs: Sequence[Job], queue: int, running: int) -> int:
    """Start a child that compiles jobs of the queue; return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, see above
        pid = os.fork()
    if pid:
        return pid
    try:
        for stop in signal.SIGINT, signal.SIGTERM:
            signal.signal(stop, signal.SIG_DFL)
        _let_go({queue, running})
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # out of memory: end this one
        _take(jobs, queue)
    finally:
        os._exit(0)  # without what the parent does at its end


def _let_go(kept: set[int]) -> None:
    """Close files, so that a child which outlives its parent holds no lock and no terminal."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with suppress(OSError):  # the list's own
                os.close(number)


def _end(children: Sequence[int]) -> None:
    """End the children that still run, and take note of their end."""
    for pid in children:
        with suppress(ChildProcessError):  # the program ignores how its children end
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
