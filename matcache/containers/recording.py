"""Record what a program asks of a cache, in order, and compare two runs.

An update is Python code that runs for every block. Values that it makes on the host, such as a
random number or a counter, are invisible to a plan. Running the program twice reveals them if the
requests differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import source_line

Request = TypeVar("Request", bound=tuple[Any, ...])


NUMBERS = int, float, np.number, np.bool_


class Same:
    """Equals what is made of the same object, and keeps it alive."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        """Wrap the object `it`."""
        self.it = it

    def __eq__(self, other: object) -> bool:
        """Return whether both are of the same object."""
        return type(other) is Same and other.it is self.it

    def __hash__(self) -> int:
        """Return the object's identity."""
        return id(self.it)


def comparable(arg: Any, other: Callable[[Any], Any]) -> Any:
    """Return what makes an argument the same in two runs.

    other: returns it for an argument that is neither a container nor a number.
    """
    if (guid := getattr(arg, "guid", None)) is not None:
        pattern = getattr(arg, "pattern", None)
        return ("container", guid, None if pattern is None else pattern.guid)
    if isinstance(arg, NUMBERS):
        return ("number", repr(float(arg)))
    return other(arg)


def first_unequal(
    first: Sequence[Request], second: Sequence[Request], fields: int
) -> tuple[Request, Request | None] | None:
    """Return the first requests of two runs that differ; None: all are equal.

    fields: of a request, so many that are compared.

    If one run is longer, and otherwise equal, its next request has None beside it.
    """
    for one, other in zip(first, second, strict=False):
        if one[:fields] != other[:fields]:
            return one, other
    if len(first) == len(second):
        return None
    return max(first, second, key=len)[min(len(first), len(second))], None


class Event(NamedTuple):
    """One request.

    what: name of the operation.
    parts: its arguments, made comparable.
    where: source line.
    """

    what: str
    parts: tuple[Any, ...]
    where: str


class Recording:
    """The requests of one run. Expressions are numbered in the order they were made."""

    def __init__(self) -> None:
        """Start an empty recording."""
        self.events: list[Event] = []
        self._made: dict[int, int] = {}  # expression -> number of the event that made it
        self._kept: list[Any] = []  # so that no two expressions share an id

    def note(
        self, what: str, args: tuple[Any, ...], result: Any = None, where: str | None = None
    ) -> None:
        """Add an operation on these arguments, and the expression that it returned.

        where: the source line; None: the caller's.
        """
        self.events.append(Event(what, tuple(map(self._part, args)), where or source_line()))
        if result is not None:
            self._made.setdefault(id(result), len(self.events))
            self._kept.append(result)

    def _part(self, arg: Any) -> Any:
        if (made := self._made.get(id(arg))) is not None:
            return ("expression", made)
        return comparable(arg, self._other)

    def _other(self, arg: Any) -> Any:
        if (inside := getattr(arg, "of", None)) is not None:
            return ("transposed", self._part(inside))
        if (stream := getattr(arg, "stream", None)) is not None:
            return ("random", stream)
        if hasattr(arg, "label"):
            return ("expression", arg.label)
        if isinstance(arg, np.ndarray):
            return ("array", arg.shape, arg.dtype.str, arg.tobytes())
        return (type(arg).__name__, repr(arg) if arg is None or isinstance(arg, str) else "")


def difference(first: Recording, second: Recording) -> str | None:
    """Describe the first difference between two runs of a program; None if equal."""
    found = first_unequal(first.events, second.events, fields=3)
    if found is None:
        return None
    one, other = found
    if other is None:
        return f"{one.what} at {one.where} was called in one run only"
    if (one.what, one.where) != (other.what, other.where):
        calls = [f"{event.what} at {event.where}" for event in (one, other)]
        return f"one run called {calls[0]}, the other {calls[1]}"
    pairs = zip(one.parts, other.parts, strict=False)
    old, new = next(((a, b) for a, b in pairs if a != b), (one.parts, other.parts))
    if old[0] == new[0] == "number":
        return f"{one.what} at {one.where} received {old[1]}, and then {new[1]}"
    return f"{one.what} at {one.where} received something else the second time"
