"""No fault leaves a reader waiting: each thread start, each line and each read of it fails in turn.

A trace function raises at one line of `read_ahead.py` after the other, as any line may that
allocates memory or asks the system for something.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from blocklearn.datasources import DataError, MatrixSource, Reader, read_ahead
from blocklearn.learner.exit_codes import ExitCode, exit_code
from blocklearn.matcache import ThreadStartError
from blocklearn.matcache.cpu.pool import Pool
from blocklearn.matcache.threads import REFUSED
from tests.support.own_threads import no_thread_left

pytestmark = pytest.mark.usefixtures("no_block_is_small")

BLOCKS = 5
TABLE = np.arange(2.0 * BLOCKS).reshape(BLOCKS, 2)
LONG = 30.0  # seconds in which any of these readers is done, on any machine


class Striped(MatrixSource):
    """Three threads may read it."""

    readers = 3


class Fault:
    """Raises `MemoryError` at the line number `at` (counted from 0) that one kind of thread runs.

    spared: functions whose lines do not count. hit: whether it came to that.
    """

    def __init__(self, at: int, spared: tuple[str, ...] = ()) -> None:
        self.left, self.spared, self.hit = at, spared, False
        self._lock = threading.Lock()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """For `sys.settrace`."""
        code: CodeType = frame.f_code
        if code.co_filename != read_ahead.__file__ or code.co_name in self.spared:
            return None
        if event == "line":
            with self._lock:
                self.left -= 1
                if self.left == -1:
                    self.hit = True
                    raise MemoryError("injected")
        return self.trace


def content(reader: Reader) -> list[float]:
    """The first number of each block of pass 0."""
    return [float(block.dense[0, 0]) for block in reader.blocks(0)]


def in_time(work: Callable[[], None]) -> None:
    """Do `work` on a thread that must come to its end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive(), "it waits for ever"
    if failures:
        raise failures[0]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], None]]:
    """`refuse(name, n)`: of threads whose name begins so, n start, and no more."""
    start = threading.Thread.start

    def refuse(name: str, allowed: int) -> None:
        left = [allowed]

        def limited(thread: threading.Thread) -> None:
            if thread.name.startswith(name):
                left[0] -= 1
                if left[0] < 0:
                    raise RuntimeError(REFUSED)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited)

    yield refuse


def test_python_says_that_it_starts_no_thread_as_we_expect() -> None:
    program = (
        "import resource, threading, time\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "threading.stack_size(1 << 30)\n"
        "threading.Thread(target=print).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=LONG)
    assert done.stderr.decode().endswith(f"RuntimeError: {REFUSED}\n")


@pytest.mark.parametrize("kind", [MatrixSource, Striped])
def test_a_reader_whose_threads_cannot_start_says_so(
    kind: type[MatrixSource], refuse: Callable[[str, int], None]
) -> None:
    for allowed in range(getattr(kind, "readers", 1)):
        with no_thread_left():
            reader = Reader(kind(TABLE, block_rows=1))
            refuse("blocklearn-reader", allowed)

            def read(reader: Reader = reader) -> None:
                with pytest.raises(ThreadStartError, match="blocklearn-reader: .*ulimit") as caught:
                    content(reader)
                assert exit_code(caught.value) == ExitCode.OUT_OF_MEMORY

            in_time(read)
            refuse("blocklearn-reader", 100)
            in_time(lambda reader=reader: check(reader))  # type: ignore[misc]
            in_time(reader.close)


def check(reader: Reader) -> None:
    assert content(reader) == TABLE[:, 0].tolist()


def faults(
    install: Callable[[Any], None], kind: type[MatrixSource], spared: tuple[str, ...]
) -> int:
    """Read with a fault at each line in turn until none is left; how many there were."""
    for at in range(10_000):
        fault = Fault(at, spared)

        def read(fault: Fault = fault) -> None:
            reader = Reader(kind(TABLE, block_rows=1), ring=3)
            install(fault.trace)
            try:
                found = content(reader)
                assert not fault.hit or found == TABLE[:, 0].tolist()
            except (MemoryError, DataError) as error:
                assert fault.hit
                assert exit_code(error) == ExitCode.OUT_OF_MEMORY
            finally:
                install(None)
                fault.left = -1  # threads that run already keep their trace function
            check(reader)  # a later pass is whole
            reader.close()

        with no_thread_left():
            in_time(read)
        if not fault.hit:
            return at
    raise AssertionError("lines have no end")


@pytest.mark.parametrize("kind", [MatrixSource, Striped])
def test_any_line_of_the_consumer_may_fail(kind: type[MatrixSource]) -> None:
    assert faults(sys.settrace, kind, ("_run", "_work")) > 20 * BLOCKS


def test_any_line_of_the_thread_may_fail() -> None:
    assert faults(threading.settrace, MatrixSource, ("_run",)) > 5 * BLOCKS


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_pool_whose_threads_cannot_start_says_so(
    allowed: int, refuse: Callable[[str, int], None]
) -> None:
    with no_thread_left():
        pool, done = Pool(3), set[int]()
        refuse("blocklearn-", allowed)
        with pytest.raises(ThreadStartError, match="blocklearn-"):
            in_time(lambda: pool.run(lambda chunk, thread: done.add(chunk), 9))
        refuse("blocklearn-", 100)
        in_time(lambda: pool.run(lambda chunk, thread: done.add(chunk), 9))
        assert done == set(range(9))
        in_time(pool.close)
