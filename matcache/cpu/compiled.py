"""Compiles generated kernels with Numba, once in a process for each text."""

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
    """Digest of the sources that generated kernels call."""
    here = Path(__file__).parent
    names = ("gibbs.py", "math32.py", "math64.py", "random.py", "vectors.py")
    whole = b"".join((here / n).read_bytes() for n in names)
    return hashlib.blake2b(whole, digest_size=8).hexdigest()


_loading = threading.Lock()


def compiled(source: str) -> Kernel:
    """The `run` function of a generated module.

    One per text and process, and never dropped: compiled code is immutable, so learners share it,
    and there are as many as a program has different kernels.
    """
    with _loading:  # two threads that ask for one text get the same function, compiled once
        return _load(source)


@cache
def _load(source: str) -> Kernel:
    return load_source(source, _helpers()).run  # type: ignore[no-any-return]
