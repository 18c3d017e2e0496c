"""Registers of backends, launches and operations, by name.

An operation says which containers a result is computed from. Its launch, one for each kind of
backend, computes it. Higher folders register themselves here when they are imported, so containers
know neither operations nor devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import MissingKernelError, source_line

if TYPE_CHECKING:
    from .cache import MatCache

Launch = TypeVar("Launch", bound=Callable[..., None])

_backends: dict[str, Callable[..., Any]] = {}
_operations: dict[str, Callable[..., Any]] = {}
_launches: dict[tuple[str, str], Callable[..., None]] = {}
_only_call: set[Callable[..., None]] = set()


Entry = TypeVar("Entry", bound=Callable[..., Any])


def backend(kind: str) -> Callable[[Entry], Entry]:
    """Register the decorated class, or function, as what makes the backend of `kind`."""

    def enter(make: Entry) -> Entry:
        _backends[kind] = make
        return make

    return enter


def make_backend(kind: str, *args: Any) -> Any:
    """Make the backend of `kind`."""
    return _backends[kind](*args)


def operation(name: str) -> Callable[[Entry], Entry]:
    """Register the decorated function as the operation `name` of matrices."""

    def enter(function: Entry) -> Entry:
        _operations[name] = function
        return function

    return enter


def operate(name: str, *args: Any, **options: Any) -> Any:
    """Call the function that is registered as `name`."""
    return _operations[name](*args, **options)


class Launched(NamedTuple):
    """A launch, to be looked at later."""

    operation: str
    args: tuple[Any, ...]


def launches(operation: str, kind: str, *, only_calls: bool = False) -> Callable[[Launch], Launch]:
    """Register the decorated launch of `operation` for backends of `kind`.

    only_calls: whether all that it does with numbers goes through `run` and `call` of the backend,
        whatever they are. Then a recording repeats these calls, where their arrays stay.

    `launch(cache, ...)` is also called while memory is being planned. Then it asks the cache for
    its containers, and the backend to prepare its kernels.
    """

    def enter(launch: Launch) -> Launch:
        _launches[operation, kind] = launch
        if only_calls:
            _only_call.add(launch)
        return launch

    return enter


def only_calls(launch: Callable[..., None]) -> bool:
    """Return whether a launch is registered with `only_calls`."""
    return launch in _only_call


def launch(cache: MatCache, operation: str, *args: Any) -> None:
    """Run `operation` on the cache's backend.

    Raises MissingKernelError if this kind of backend has no launch for it.
    """
    found = _launches.get((operation, cache.backend.kind))
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
