"""Kernels that several processes compile at once: children only save time, whatever they do."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from blocklearn.matcache import cpu
from blocklearn.matcache.cpu import backend
from blocklearn.matcache.cpu.backend import CPU
from blocklearn.matcache.cpu.compiling import ahead as compiling
from blocklearn.matcache.cpu.compiling import jit
from blocklearn.matcache.cpu.executor import RUNNERS

TYPES = (numba.types.int64,)
KERNELS = 3


def jobs_of(jobs: Iterable[tuple[Any, Any]]) -> compiling.Signatures:
    """Kernels and types of their arguments, as what compiles them gets them."""
    wanted: compiling.Signatures = {}
    for kernel, types in jobs:
        compiling.want(wanted, kernel, types)
    return wanted


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: Any) -> Iterator[dict[Any, Any]]:
    """Kernels that add 0, 1 and 2, of which no code exists."""
    monkeypatch.setattr(compiling, "_may_fork", lambda: True)  # runners of tests have threads
    monkeypatch.setattr(compiling, "MOST", 4)
    kernels = []
    for n in range(KERNELS):
        path = tmp_path / f"adds_{n}.py"
        path.write_text(f"def run(x):\n    return x + {n}\n")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        kernels.append(jit.kernel()(module.run))
    children, fork = list[int](), os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", noted)
    yield jobs_of((kernel, TYPES) for kernel in kernels)
    assert [kernel(40) for kernel in kernels] == [40 + n for n in range(KERNELS)]
    for child in children:
        with pytest.raises(ChildProcessError):  # its end was taken note of
            os.waitpid(child, os.WNOHANG)


def loaded(wanted: dict[Any, Any]) -> int:
    """Return how many kernels came from disk."""
    return sum(sum(kernel.stats.cache_hits.values()) for kernel in wanted)


def in_children(monkeypatch: Any, work: Any) -> None:
    """Let children do `work(jobs, queue)`, and this process take no job while they may."""
    here, take = os.getpid(), work or compiling._take
    monkeypatch.setattr(
        compiling, "_take", lambda *given: None if os.getpid() == here else take(*given)
    )


def test_kernels_without_a_compiler_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(ImportError, match="NUMBA_DISABLE_JIT: must be 0 or unset"):
        importlib.reload(cpu)


def test_code_that_children_compiled_is_loaded(wanted: Any, monkeypatch: Any) -> None:
    in_children(monkeypatch, None)
    compiling.compile_all(wanted, 2)
    assert loaded(wanted) == KERNELS


def test_kernels_that_are_called_directly_are_prepared(wanted: Any, monkeypatch: Any) -> None:
    in_children(monkeypatch, None)
    backend = CPU(2)
    backend.prepare((kernel, 0) for kernel in wanted)
    assert loaded(wanted) == KERNELS
    backend.close()


def test_children_print_nothing_and_hold_no_lock(
    wanted: Any, monkeypatch: Any, tmp_path: Path, capfd: Any
) -> None:
    def look(*_: Any) -> None:
        os.write(1, b"output")
        places = [Path(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
        names = [str(place.readlink()) for place in places if place.exists()]
        (tmp_path / "names").write_text("\n".join(names))

    in_children(monkeypatch, look)
    with (tmp_path / "lock").open("w") as locked:
        compiling.compile_all(wanted, 2)
        names = (tmp_path / "names").read_text().splitlines()
        assert os.devnull in names and locked.name not in names
    assert capfd.readouterr().out == ""


def test_one_process_forks_no_child(wanted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    compiling.compile_all(wanted, 1)
    compiling.compile_all(wanted, 8)  # all are compiled
    assert loaded(wanted) == 0


def test_kernels_of_children_that_die_are_compiled_here(wanted: Any, monkeypatch: Any) -> None:
    def die(jobs: Any, queue: int) -> None:
        os.read(queue, 2)
        os.kill(os.getpid(), 9)

    in_children(monkeypatch, die)
    compiling.compile_all(wanted, 3)
    assert loaded(wanted) == 0


def test_children_that_hang_are_ended(wanted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", 0.05)
    in_children(monkeypatch, lambda *_: time.sleep(600))
    compiling.compile_all(wanted, 3)
    assert loaded(wanted) == 0


def test_children_are_ended_where_this_process_is_interrupted(
    wanted: Any, monkeypatch: Any
) -> None:
    here = os.getpid()

    def take(*_: Any) -> None:
        if os.getpid() == here:
            raise KeyboardInterrupt
        time.sleep(600)

    monkeypatch.setattr(compiling, "_take", take)
    with pytest.raises(KeyboardInterrupt):
        compiling.compile_all(wanted, 2)


def test_all_is_compiled_where_the_system_allows_no_process(wanted: Any, monkeypatch: Any) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    compiling.compile_all(wanted, 4)
    assert loaded(wanted) == 0


def test_a_process_with_threads_of_others_does_not_fork(monkeypatch: Any) -> None:
    mine = [threading.current_thread()]
    monkeypatch.setattr(threading, "enumerate", lambda: mine)
    for name in compiling.STRANGERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    linux = sys.platform == "linux"
    assert compiling._may_fork() is linux
    mine.append(threading.Thread(name="blocklearn-reader"))
    assert compiling._may_fork() is linux
    monkeypatch.setitem(sys.modules, "ray", sys)
    assert not compiling._may_fork()
    monkeypatch.delitem(sys.modules, "ray")
    mine.append(threading.Thread(name="a server's"))
    assert not compiling._may_fork()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_runs_recorded_calls_is_compiled_with_the_rest(threads: int, monkeypatch: Any) -> None:
    """And each of its parts once."""
    found: list[Any] = []
    monkeypatch.setattr(backend, "compile_all", lambda wanted, _: found.append(dict(wanted)))
    cpu = CPU(threads)
    cpu.compile_expected()
    cpu.close()
    assert found == [jobs_of(RUNNERS if threads > 1 else ())]
    for kernel, types in RUNNERS:
        kernel.compile(types)
        assert list(kernel.overloads) == [types]
