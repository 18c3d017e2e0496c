"""The kernel table: who does the work of an operation, by the kind of backend.

An operation says what is to be computed from which containers; its launch, one for each kind of
backend, says how. Nothing above this table asks where numbers live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import MissingKernelError
from .slots import source_line

if TYPE_CHECKING:
    from .cache import MatCache

Launch = TypeVar("Launch", bound=Callable[..., None])

_launches: dict[tuple[str, str], Callable[..., None]] = {}


def launches(operation: str, kind: str) -> Callable[[Launch], Launch]:
    """The decorated `launch(cache, ...)` does `operation` on backends of `kind`.

    While memory is being planned it is called too: then it asks the cache for the containers that
    it needs, and the backend to have the kernels ready.
    """

    def enter(launch: Launch) -> Launch:
        _launches[operation, kind] = launch
        return launch

    return enter


def launch(cache: MatCache, operation: str, *args: Any) -> None:
    """Do `operation` on the cache's backend. Raises MissingKernelError where nobody can."""
    found = _launches.get((operation, cache.backend.kind))
    if found is None:
        raise MissingKernelError(
            f"{operation} at {source_line()}: there is no kernel for device: "
            f"{cache.backend.kind} yet. Use device: cpu for this."
        )
    found(cache, *args)
