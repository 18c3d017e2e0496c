"""Times, floors, and the row that a section yields for each thing that it measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blocklearn.matcache import Mat, MatCache, make_backend

COPY = 4.3e12  # bytes per second that an H200 reads and writes, as measured by a copy
FLOPS = 67e12  # of float32, by NVIDIA's data sheet (H100 and H200, SXM)
Make = Callable[[MatCache], Callable[[], Any]]  # of what does the work and returns the Mat
LARGE = 300  # from this width on the CPU is left out: it would take most of the time


@dataclass
class Row:
    """seconds: on the device. cpu: of the same on the host, None where it was not run. floor: the
    least that an H200's memory and arithmetic allow. note: what else was found.
    """

    name: str
    seconds: float | None = None
    cpu: float | None = None
    floor: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Scale:
    """Of every problem: 1 fits a large card in its time; quick: a test of the script itself."""

    quick: bool = False
    until: float = float("inf")  # time.monotonic() after which no section starts anything large

    def of(self, full: int, quick: int) -> int:
        """A size."""
        return quick if self.quick else full

    @property
    def least(self) -> float:
        """Seconds that a measurement takes, at least."""
        return 0.01 if self.quick else 0.2

    @property
    def late(self) -> bool:
        """Whether the time is nearly over."""
        return time.monotonic() > self.until


def floor(nbytes: float, flops: float) -> float:
    """Seconds that the larger of the two takes on an H200."""
    return max(nbytes / COPY, flops / FLOPS)


def cache_on(device: str) -> MatCache:
    """A cache that allocates as it goes."""
    return MatCache(backend=make_backend(device, None))


def seconds_of(cache: MatCache, work: Callable[[], Any], least: float) -> float:
    """Seconds of one call of what works in a cache; on a device, until it is idle."""
    on_cpu = cache.backend.kind == "cpu"
    return timed(work, (lambda: None) if on_cpu else cache.backend.drain, least)


def timed(work: Callable[[], Any], wait: Callable[[], Any], least: float) -> float:
    """Seconds of one call, over as many as take `least`, some of which may be queued at a time."""
    for _ in range(2):
        work()
    wait()
    calls, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < least or calls < 2:
        work()
        calls += 1
        if calls % 8 == 0:
            wait()
    wait()
    return (time.perf_counter() - begun) / calls


def compared(
    name: str, make: Make, least: float, scale: Scale, *, with_cpu: bool = True
) -> tuple[Row, Any]:
    """The row of what `make` makes, on the device and on the CPU; and what the device found."""
    seconds, results = [], []
    for device in ("cuda:0", "cpu") if with_cpu else ("cuda:0",):
        with cache_on(device) as cache:
            work = make(cache)
            seconds.append(seconds_of(cache, work, scale.least))
            results.append(work().numpy())
    note = agreement(*results) if with_cpu else ""
    return Row(name, seconds[0], *seconds[1:], floor=least, note=note), results[0]


def random_table(rows: int, columns: int) -> Any:
    """Small numbers in float32, the same at every call."""
    return np.random.default_rng(0).normal(0, 0.1, (rows, columns)).astype(np.float32)


def agreement(found: Any, expected: Any, most: float = 1e-3, of: str = "the CPU") -> str:
    """What to note of two arrays that should be the same: by how much of the largest number they
    differ; that the check failed, where this is more than `most`. of: whose `expected` is.
    """
    if np.array_equal(found, expected):
        return f"same bits as on {of}"
    largest = np.abs(expected).max()
    share = np.abs(found - expected).max() / (largest if largest > 0 else 1.0)
    said = f"differs from {of} by {share:.1g} of the largest"
    return said if share <= most else f"failed: {said}"


def fresh(*mats: Mat) -> None:
    """What was computed from these has to be computed anew, though they are the same."""
    for mat in mats:
        mat.slot.written("scripts/gpu-check")
        mat.version = mat.slot.version
