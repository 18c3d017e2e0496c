"""Digest the sources of kernels: compiled code holds while they stay as they are."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def sources(folder: Path) -> str:
    """Return a digest of all files of this folder, and of another one."""
    whole = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    if folder != FOLDER:
        whole += sources(FOLDER).encode()
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
