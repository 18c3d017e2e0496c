"""Threads that a test starts. Those of earlier tests may end meanwhile, so counts tell nothing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


class Started:
    """Threads that live and did not when this was made."""

    def __init__(self) -> None:
        """Remembers those that live now."""
        self._before = set(threading.enumerate())

    def __call__(self) -> set[threading.Thread]:
        """Those that were started since and have not ended."""
        return set(threading.enumerate()) - self._before


@contextmanager
def no_thread_left() -> Iterator[None]:
    """Within it threads may start; at its end none of them lives."""
    started = Started()
    yield
    assert not started()


@pytest.fixture
def reader_threads() -> Iterator[Callable[[], list[threading.Thread]]]:
    """Which threads of readers live that the test started; none may be left at its end."""
    started = Started()

    def readers() -> list[threading.Thread]:
        return [thread for thread in started() if thread.name == "blocklearn-reader"]

    yield readers
    gc.collect()
    for thread in readers():  # of a reader that was forgotten: it ends soon
        thread.join(timeout=10)
    assert not readers()
