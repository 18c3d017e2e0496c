"""Digest the sources of kernels: compiled code holds while they stay as they are."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1]  # of the CPU backend


@cache
def sources(folder: Path) -> str:
    """Return a digest of all files of the CPU backend, and of another folder."""
    files = sorted(FOLDER.rglob("*.py"))
    if FOLDER not in (folder, *folder.parents):
        files += sorted(folder.glob("*.py"))
    return _digest(files)


@cache
def helpers() -> str:
    """Return a digest of all files that generated kernels depend on."""
    rooms = FOLDER / "compiling", FOLDER / "inline"
    return _digest([path for room in rooms for path in sorted(room.glob("*.py"))])


def _digest(files: list[Path]) -> str:
    whole = b"".join(path.read_bytes() for path in files)
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
