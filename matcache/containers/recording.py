"""Record what a program asks of a cache, in order, and compare two runs.

An update is Python code that runs for every block. Values that it makes on the host, such as a
random number or a counter, are invisible to a plan. Running the program twice reveals them if the
requests differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import source_line

if TYPE_CHECKING:
    from .cache import MatCache


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

    def note(self, what: str, args: tuple[Any, ...], result: Any = None) -> None:
        """Add an operation on these arguments, and the expression that it returned."""
        self.events.append(Event(what, tuple(map(self._part, args)), source_line()))
        if result is not None:
            self._made.setdefault(id(result), len(self.events))
            self._kept.append(result)

    def _part(self, arg: Any) -> Any:
        if (made := self._made.get(id(arg))) is not None:
            return ("expression", made)
        if (guid := getattr(arg, "guid", None)) is not None:
            return ("container", guid)
        if (inside := getattr(arg, "of", None)) is not None:
            return ("transposed", self._part(inside))
        if (stream := getattr(arg, "stream", None)) is not None:
            return ("random", stream)
        if hasattr(arg, "label"):
            return ("expression", arg.label)
        if isinstance(arg, np.ndarray):
            return ("array", arg.shape, arg.dtype.str, arg.tobytes())
        if isinstance(arg, int | float | np.number | np.bool_):
            return ("number", repr(float(arg)))
        return (type(arg).__name__, repr(arg) if arg is None or isinstance(arg, str) else "")


@contextmanager
def recorded(cache: MatCache, recording: Recording) -> Iterator[None]:
    """Record all requests to `cache` in `recording`, within this `with` block."""
    before, cache.recording = cache.recording, recording
    try:
        yield
    finally:
        cache.recording = before


def difference(first: Recording, second: Recording) -> str | None:
    """Describe the first difference between two runs of a program; None if equal."""
    for one, other in zip(first.events, second.events, strict=False):
        if one == other:
            continue
        if (one.what, one.where) != (other.what, other.where):
            calls = [f"{event.what} at {event.where}" for event in (one, other)]
            return f"one run called {calls[0]}, the other {calls[1]}"
        pairs = zip(one.parts, other.parts, strict=False)
        old, new = next(((a, b) for a, b in pairs if a != b), (one.parts, other.parts))
        if old[0] == new[0] == "number":
            return f"{one.what} at {one.where} received {old[1]}, and then {new[1]}"
        return f"{one.what} at {one.where} received something else the second time"
    counts = len(first.events), len(second.events)
    if counts[0] == counts[1]:
        return None
    extra = max(first.events, second.events, key=len)[min(counts)]
    return f"{extra.what} at {extra.where} was called in one run only"
