"""Compile generated kernels with Numba, each text once in a process."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ..emit.numba_rows import rowwise_source
from ..emit.source import load_source

Kernel = Callable[..., Any]

_kernels: WeakKeyDictionary[Any, Kernel] = WeakKeyDictionary()


def kernel_of(found: Any, source: Callable[[Any], str] = rowwise_source) -> Kernel:
    """Return the kernel of a compiled program, whose text `source` prints once."""
    kernel = _kernels.get(found)
    if kernel is None:
        kernel = _kernels[found] = compiled(source(found.plan))
    return kernel


@cache
def _helpers() -> str:
    """Return a digest of the sources that generated kernels call."""
    here = Path(__file__).parent
    names = ("access.py", "jit.py", "math32.py", "math64.py", "random.py", "vectors.py")
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
