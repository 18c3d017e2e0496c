"""List the packages that a bare machine needs for each part of the check."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files

from scripts.benchmarks.report import table

NEEDS = {
    "the matrix layer": ("cupy-cuda12x", "numpy", "scipy", "numba", "llvmlite"),
    "trainings, kernels": (
        "pydantic",
        "pydantic-core",
        "annotated-types",
        "typing-extensions",
        "typing-inspection",
        "ruamel.yaml",
        "xxhash",
        "threadpoolctl",
    ),
    "tests": ("pytest", "pluggy", "iniconfig", "packaging", "pyarrow", "hypothesis", "rich"),
    "peers": ("torch",),
}


def shown() -> str:
    """Return a table of packages, and of the bytes that they take here where installed."""
    lines = [
        [part, name, None if size is None else size / 2**20]
        for part, names in NEEDS.items()
        for name in names
        for size in [bytes_of(name)]
    ]
    return table(["for", "package", "MiB installed (empty: not here)"], lines)


def bytes_of(name: str) -> int | None:
    """Return the size of an installed package, None if it is missing."""
    try:
        found = files(name) or []
    except PackageNotFoundError:
        return None
    return sum(path.size or 0 for path in found)
