"""Describe this machine and measure its limits."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


def cpu_name() -> str:
    """Return the processor's name, on Linux with its widest vector instructions."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in info.read_text().splitlines())
    }
    flags = fields.get("flags", "").split()
    wide = next((f for f in ("avx512f", "avx2", "avx") if f in flags), "")
    name = fields.get("model name", platform.machine())
    clock = f"{float(fields['bogomips']) / 2000:.1f} GHz" if "bogomips" in fields else ""
    return " ".join(part for part in (name, clock, wide) if part)


def best_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the least wall seconds of a few calls.

    This is for limits of the machine, not for comparisons.
    """
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def limits(*, quick: bool = False) -> dict[str, float]:
    """Return `sgemm_gflops` and `copy_gb_per_s` (read + write) of one thread."""
    n, copied, repeats = (256, 2**22, 2) if quick else (2048, 2**27, 5)
    a, b = np.ones((2, n, n), np.float32)
    out = np.empty_like(a)
    source = np.ones(copied, np.uint8)
    target = np.zeros_like(source)
    with threadpool_limits(limits=1):
        sgemm = best_seconds(lambda: np.matmul(a, b, out=out), repeats)
    copy = best_seconds(lambda: np.copyto(target, source), repeats)
    return {
        "sgemm_gflops": round(2 * n**3 / sgemm / 1e9, 1),
        "copy_gb_per_s": round(2 * copied / copy / 1e9, 1),
    }
