"""Registers of backends, launches and operations, by name.

An operation says which containers a result is computed from. Its launch, one for each kind of
backend, computes it. Higher folders register themselves here when they are imported, so containers
know neither operations nor devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

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


def launch_of(operation: str, kind: str) -> Callable[..., None] | None:
    """Return the launch of `operation` for backends of `kind`; None: there is none."""
    return _launches.get((operation, kind))


def only_calls(launch: Callable[..., None]) -> bool:
    """Return whether a launch is registered with `only_calls`."""
    return launch in _only_call
