"""Say what is measured: the card, its driver, libraries, packages and the commit."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from blocklearn.matcache import from_array

from .measure import Row, Scale, cache_on, fresh, seconds_of

PACKAGES = ("numpy", "scipy", "numba", "pydantic", "pytest", "torch")
WIDTH = 512  # numbers in a row of the tables that are copied


def rows(scale: Scale) -> Iterator[Row]:
    """Yield a row for each version, without times."""
    found: dict[str, Callable[[], str]] = {
        "card": _card,
        "CUDA": _cuda,
        "commit": _commit,
        "packages": _packages,
    }
    for name, say in found.items():
        try:
            said = say()
        except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
            said = f"unknown: {error}"
        yield Row(name, note=said)
    yield from _copies(scale)


def _copies(scale: Scale) -> Iterator[Row]:
    """Yield how fast the card reads and writes: its memory, and within its second-level cache."""
    for name, rows in (("memory", scale.of(1 << 19, 8)), ("cache", scale.of(8192, 8))):
        with cache_on("cuda:0") as cache:
            A = from_array(cache, np.ones((rows, WIDTH), np.float32))

            def work(A: Any = A) -> Any:
                fresh(A)
                return (A + 1.0).mat()

            seconds = seconds_of(cache, work, scale.least)
        nbytes = 2 * 4 * WIDTH * rows
        note = f"{nbytes / 1e6:,.0f} MB, {nbytes / seconds / 1e9:,.0f} GB/s"
        yield Row(f"numbers read and written in the card's {name}", seconds, note=note)


def _card() -> str:
    """Return name, driver and memory, as nvidia-smi has them."""
    asked = "--query-gpu=name,driver_version,memory.total,clocks.max.sm"
    return _said("nvidia-smi", asked, "--format=csv,noheader").replace("\n", "; ")


def _cuda() -> str:
    import cupy
    from cupy.cuda import nvrtc, runtime

    compiler = ".".join(map(str, nvrtc.getVersion()))
    return (
        f"CuPy {cupy.__version__}, runtime {runtime.runtimeGetVersion()}, "
        f"driver {runtime.driverGetVersion()}, NVRTC {compiler}"
    )


def _commit() -> str:
    changed = " and changes" if _said("git", "status", "--porcelain") else ""
    return _said("git", "rev-parse", "HEAD") + changed


def _packages() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()
