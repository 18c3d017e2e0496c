"""Hand on names of a package's modules, which are imported when a name is first used."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

NAMED = re.compile(r"^    from (\.\S+) import (\w+) as (\w+)$", re.M)
"""A name that a package hands on: its module, its name there, and here."""


def on_demand(
    package: str, *defined: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    The package names what it hands on once, for type checkers and for the interpreter, as `from
    .module import Name as Name` under `if TYPE_CHECKING`. It is read here and not run.

    package: `__name__` of the package.
    defined: names that its `__init__.py` defines itself.

    >>> find, names, _ = on_demand("blocklearn.mixins")
    >>> find("L1"), "TopWeights" in names()
    (<class 'blocklearn.mixins.l1.L1'>, True)
    """
    module = sys.modules[package]
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    places = {name: (place, original) for place, original, name in NAMED.findall(text)}
    listed = sorted([*places, *defined])

    def find(name: str) -> Any:
        if name not in places:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=module)
        place, original = places[name]
        value = getattr(imported(place, package), original)
        setattr(module, name, value)
        return value

    return find, lambda: listed, listed


def imported(name: str, package: str) -> Any:
    """Import a module without collecting garbage: what imports make lives on.

    Then it is old to the collector, which would else look through all of it, twice, when a fit
    makes its first objects.
    """
    collects, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        return with_room(import_module, name, package)
    finally:
        if collects:
            if len(sys.modules) > before and not gc.get_freeze_count():  # the program froze none
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


def with_room(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with room for the frames of the calls that it makes.

    CPython keeps frames in chunks of 16 KB, and frees a chunk as soon as it is empty. A loop whose
    calls begin the next chunk allocates and frees it each time, at 8 us. How deep the caller is
    decides which loops do. So this function's own frame is large: its chunk has 128 KB to spare.
    """
    return function(*arguments)


ROOM = 2**14  # words of 8 bytes
with_room.__code__ = with_room.__code__.replace(co_stacksize=ROOM)

Class = TypeVar("Class")


class Kinds(Mapping[str, Class]):
    """Classes of a package by kind, each imported when it is first looked up.

    >>> Kinds("blocklearn.mixins", {"l1": "L1"})["l1"]
    <class 'blocklearn.mixins.l1.L1'>
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        """Take the names of the classes by kind."""
        self._package, self._names = package, names

    def __getitem__(self, kind: str) -> Class:
        found: Class = getattr(sys.modules[self._package], self._names[kind])
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
