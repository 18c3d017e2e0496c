"""Compile generated kernels with Numba, each text once in a process."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..emit.source import load_source

Kernel = Callable[..., Any]


@cache
def _helpers() -> str:
    """Return a digest of the sources that generated kernels call."""
    here = Path(__file__).parent
    names = ("gibbs.py", "math32.py", "math64.py", "random.py", "vectors.py")
    whole = b"".join((here / n).read_bytes() for n in names)
    return hashlib.blake2b(whole, digest_size=8).hexdigest()


_loading = threading.Lock()


def compiled(source: str) -> Kernel:
    """Return the `run` function of a generated module.

    Each text is compiled once per process and kept. Compiled code is immutable, so learners share
    it, and a program has only so many different kernels.
    """
    with _loading:  # two threads with the same text get one function, compiled once
        return _load(source)


@cache
def _load(source: str) -> Kernel:
    found: Kernel = load_source(source, _helpers()).run
    return found
