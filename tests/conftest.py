"""What holds for all tests."""

from __future__ import annotations

import gc
import math
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from blocklearn.matcache.cuda import devices
from tests.support.learn_command import command as command
from tests.support.own_threads import reader_threads as reader_threads

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # `scripts/gpu-check` runs some tests on machines that have not all packages
    pass
else:
    # How long an example takes says nothing on a machine with other work to do.
    slow = [HealthCheck.too_slow]
    settings.register_profile("any speed", deadline=None, suppress_health_check=slow)
    settings.load_profile("any speed")


# Of the repository, not of the package; an installed wheel is tested without them.
OF_THE_REPOSITORY = [
    "benchmarks",
    "command_line/test_operations.py",
    "formats/test_format_samples.py",
    "layout",
    "learner/test_model_format.py",
]
collect_ignore = [] if (Path(__file__).parents[1] / "scripts").exists() else OF_THE_REPOSITORY


def pytest_configure() -> None:
    """Ctrl-C interrupts, also where a shell that started the tests in the background ignores it.

    Imports and compiled kernels make millions of objects that stay. Python would look through them
    again and again: with its own thresholds an eighth of the time of all tests.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What imports and collecting make stays: looking through it is a third of their time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need a device are skipped where there is none."""
    if item.get_closest_marker("gpu") is not None and not devices.count():
        pytest.skip("CuPy sees no CUDA device")


@pytest.fixture
def every_block_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows are scored before they are trained on does not depend on the clock."""
    monkeypatch.setattr("blocklearn.learner.training.scoring.SHARE", math.inf)
    monkeypatch.setattr("blocklearn.learner.training.scoring.FIRST", 0.0)


@pytest.fixture
def two_threads_of_blas() -> Iterator[None]:
    """BLAS has more than one thread, also where a variable of the process gives it one."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(2, "blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_compiled_in_this_process() -> Iterator[None]:
    """Tests fill the cores: a copy of this large process takes time, and no core waits for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blocklearn.matcache.cpu.compiling.ahead.MOST", 1)
        yield


@pytest.fixture(scope="module", autouse=True)
def _collections_look_at_one_module() -> Iterator[None]:
    """Compiled kernels stay for the life of the process: some thousand of them are millions of
    objects, and `gc.collect()`, which many tests call, would look at all of them for seconds.
    """
    gc.collect()
    gc.freeze()
    yield
