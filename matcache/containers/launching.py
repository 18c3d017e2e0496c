"""Run an operation on the backend of a cache."""

from __future__ import annotations

from typing import Any

from ..errors import MissingKernelError, source_line
from .cache import MatCache
from .dispatch import Launched, launch_of


def launch(cache: MatCache, operation: str, *args: Any) -> None:
    """Run `operation` on the cache's backend.

    Raises MissingKernelError if this kind of backend has no launch for it.
    """
    found = launch_of(operation, cache.backend.kind)
    if found is None:
        raise MissingKernelError(
            f"{operation} at {source_line()}: there is no kernel for device: "
            f"{cache.backend.kind} yet. Use device: cpu for this."
        )
    if cache.launched is not None:
        cache.launched.append(Launched(operation, args))
    if cache.tape is None:
        found(cache, *args)
    else:
        cache.tape.launch(operation, found, args)
