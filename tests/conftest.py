"""What holds for all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing on a machine with other work to do.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_configure() -> None:
    """Ctrl-C interrupts, also where a shell that started the tests in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _collections_look_at_one_module() -> Iterator[None]:
    """Compiled kernels stay for the life of the process: some thousand of them are millions of
    objects, and `gc.collect()`, which many tests call, would look at all of them for seconds.
    """
    gc.collect()
    gc.freeze()
    yield
