"""Times and floors of what is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blocklearn.matcache import Mat, MatCache, make_backend

from .row import Row as Row

COPY = 4.3e12  # bytes per second that an H200 reads and writes in a copy, measured
FLOPS = 67e12  # of float32, by NVIDIA's data sheet (H100 and H200, SXM)
Make = Callable[[MatCache], Callable[[], Any]]  # makes work that returns a Mat
LARGE = 300  # the CPU is left out from this width: it would take most of the time


@dataclass(frozen=True)
class Scale:
    """The size of every problem.

    quick: tiny, a test of the script itself. Otherwise problems fit a large card and its time.
    """

    quick: bool = False
    until: float = float("inf")  # time.monotonic() after which no section starts anything large

    def of(self, full: int, quick: int) -> int:
        """Return the size for this scale."""
        return quick if self.quick else full

    @property
    def least(self) -> float:
        """Least seconds of a measurement."""
        return 0.01 if self.quick else 0.2

    @property
    def late(self) -> bool:
        """Whether the time is nearly over."""
        return time.monotonic() > self.until


def floor(nbytes: float, flops: float) -> float:
    """Return the larger of the seconds for bytes and for flops on an H200."""
    return max(nbytes / COPY, flops / FLOPS)


def cache_on(device: str) -> MatCache:
    """Return a cache that allocates on demand."""
    return MatCache(backend=make_backend(device, None))


def seconds_of(cache: MatCache, work: Callable[[], Any], least: float) -> float:
    """Return the seconds of one call of `work`; on a device, until it is idle."""
    on_cpu = cache.backend.kind == "cpu"
    return timed(work, (lambda: None) if on_cpu else cache.backend.drain, least)


def timed(work: Callable[[], Any], wait: Callable[[], Any], least: float) -> float:
    """Return the seconds of one call, the mean over as many as take `least` seconds.

    On a device several calls may be queued at a time.
    """
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
    """Return the row of the work on device and CPU, and the device's result."""
    seconds, results = [], []
    for device in ("cuda:0", "cpu") if with_cpu else ("cuda:0",):
        with cache_on(device) as cache:
            work = make(cache)
            seconds.append(seconds_of(cache, work, scale.least))
            results.append(work().numpy())
    note = agreement(*results) if with_cpu else ""
    return Row(name, seconds[0], *seconds[1:], floor=least, note=note), results[0]


def random_table(rows: int, columns: int) -> Any:
    """Return small float32 numbers, the same at every call."""
    return np.random.default_rng(0).normal(0, 0.1, (rows, columns)).astype(np.float32)


def agreement(found: Any, expected: Any, most: float = 1e-3, of: str = "the CPU") -> str:
    """Return a note on how two arrays agree that should be equal.

    The note has their difference relative to the largest number, and a failure if this exceeds
    `most`. of: the name of the system that `expected` is from.
    """
    if np.array_equal(found, expected):
        return f"same bits as on {of}"
    largest = np.abs(expected).max()
    share = np.abs(found - expected).max() / (largest if largest > 0 else 1.0)
    said = f"differs from {of} by {share:.1g} of the largest"
    return said if share <= most else f"failed: {said}"


def fresh(*mats: Mat) -> None:
    """Mark these Mats as changed, so that everything computed from them is computed anew."""
    for mat in mats:
        mat.slot.written("scripts/gpu-check")
        mat.version = mat.slot.version
