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
WIDTH = 512  # numbers in a row of the table that is read


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
    yield _of_memory(scale)


def _of_memory(scale: Scale) -> Row:
    """Return how fast a kernel reads and writes the card's memory."""
    with cache_on("cuda:0") as cache:
        A = from_array(cache, np.ones((scale.of(1 << 19, 8), WIDTH), np.float32))

        def work() -> Any:
            fresh(A)
            return (A + 1.0).mat()

        seconds, nbytes = seconds_of(cache, work, scale.least), 2 * A.slot.nbytes
    note = f"{nbytes / 1e6:,.0f} MB, {nbytes / seconds / 1e9:,.0f} GB/s"
    return Row("numbers read and written", seconds, note=note)


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
