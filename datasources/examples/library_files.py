"""Python files of the standard library."""

import os
from pathlib import Path

# Folders outside the library itself: other packages, tests, editors, demos, Python 2's grammar.
SKIPPED = frozenset(
    "site-packages dist-packages test tests idle_test idlelib lib2to3 turtledemo pydoc_data".split()
)


def library_files(root: Path) -> list[Path]:
    """Return the Python files under `root`, relative to it, in order; not those in `SKIPPED`."""
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in SKIPPED]
        inside = Path(folder).relative_to(root)
        found += [inside / file for file in files if file.endswith(".py")]
    return sorted(found)


def module_name(path: Path) -> str:
    """Return the dotted name of a file, given relative to where imports start.

    >>> module_name(Path("email/mime/__init__.py")), module_name(Path("socket.py"))
    ('email.mime', 'socket')
    """
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
