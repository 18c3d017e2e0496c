"""List the wheels that a bare machine needs for each part of the check, with their sizes.

It runs on a machine that has none of them.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

from scripts.benchmarks.report import table

NEEDS: dict[str, dict[str, float]] = {
    "the matrix layer": {
        "cupy-cuda12x": 279, "cuda-pathfinder": 0.2, "numpy": 55, "scipy": 109, "numba": 15,
        "llvmlite": 171,
    },
    "CUDA, unless the machine has it": {
        "nvidia-cuda-nvrtc-cu12": 217, "nvidia-cuda-runtime-cu12": 9.2, "nvidia-cublas-cu12": 816,
    },
    "trainings, kernels": {
        "pydantic": 1.9, "pydantic-core": 5.1, "annotated-types": 0.03, "typing-extensions": 0.2,
        "typing-inspection": 0.05, "pyarrow": 163, "rich": 1.2, "markdown-it-py": 0.2,
        "mdurl": 0.02, "pygments": 4.4, "xxhash": 2,
    },
    "tests": {
        "pytest": 1.4, "pluggy": 0.1, "iniconfig": 0.02, "packaging": 0.5, "hypothesis": 3.7,
        "sortedcontainers": 0.1, "ruamel.yaml": 0.5, "threadpoolctl": 0.1,
    },
    "factorizations (SVD, mixtures)": {
        "nvidia-cusolver-cu12": 472, "nvidia-cusparse-cu12": 464, "nvidia-nvjitlink-cu12": 92,
    },
    "merges by NCCL": {"nvidia-nccl-cu12": 468},
    "peers, with all that torch needs": {"torch": 1091},
}  # fmt: skip
"""MiB of each package, unpacked, as they were in November 2026."""


def shown() -> str:
    """Return a table of packages, and the command that downloads those that are missing."""
    lines = [
        [part, name, size, here(name) or "missing"]
        for part, sizes in NEEDS.items()
        for name, size in sizes.items()
    ]
    missing = " ".join(line[1] for line in lines if line[3] == "missing")
    wanted = table(["for", "wheel", "MiB, unpacked", "here"], lines)
    if not missing:
        return wanted
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"{wanted}\n\nOn a machine with a connection, for Python {number}:\n"
        f"python3 -m pip download --no-deps --only-binary=:all: --python-version {number} "
        "--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 "
        f"--platform manylinux2014_x86_64 -d wheels {missing}"
    )


def here(name: str) -> str:
    """Return the version of an installed package, nothing if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
