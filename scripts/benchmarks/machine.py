"""Describe the machine of a benchmark and its limits."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from blocklearn.learner.installation.machine import best_seconds as best_seconds
from blocklearn.learner.installation.machine import cpu_name
from blocklearn.learner.installation.machine import limits as limits
from blocklearn.matcache import available_threads


def describe() -> dict[str, Any]:
    """Return processor, memory, versions and load."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_name(),
        "cores": available_threads(),
        "memory_bytes": pages,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_before": [round(x, 2) for x in os.getloadavg()],
    }
