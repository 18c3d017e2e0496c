"""Flatten frozen dataclasses and tuples into a kernel's arguments; rebuild them.

A kernel takes matrices and numbers. A function may take them as one object, such as the equations
of a row. The object is flattened for the kernel, and rebuilt around traced values for the function.
Dataclasses and tuples may be nested. Everything else, including None, is a leaf.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from ..errors import row_error


@dataclass(frozen=True)
class Record:
    """The class of a record argument; its fields are Records, or None for leaves."""

    kind: Any  # the class
    parts: tuple[Record | None, ...]


Structure = tuple[Record | None, ...]
"""One entry for each argument."""


def flatten(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Structure | None]:
    """Return the leaves of the arguments in order, and the structure to rebuild them.

    The structure is None if every argument is a leaf.

    Raises ShapeError for a dataclass that is not frozen.
    """
    kinds: Any = map(type, args)
    if set(map(field_names, kinds)) <= {None}:
        return args, None
    leaves: list[Any] = []
    structure = tuple(_take_apart(arg, leaves) for arg in args)
    return tuple(leaves), structure


def rebuild(structure: Structure | None, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with these leaves, without calling `__post_init__`."""
    if structure is None:
        return leaves
    remaining = iter(leaves)
    return tuple(_put_together(record, remaining) for record in structure)


def leaf_names(function: Callable[..., Any], structure: Structure | None, count: int) -> list[str]:
    """Return names of `count` leaves for messages: `eq.table` is a field of `eq`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount]
    if inspect.ismethod(inspect.unwrap(function)):
        known = known[1:]  # without self

    def name(number: int) -> str:
        return known[number] if number < len(known) else f"argument {number}"

    if structure is None:
        return [name(number) for number in range(count)]
    return [leaf for n, record in enumerate(structure) for leaf in _paths(record, name(n))]


@cache
def field_names(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass or named tuple; () of a tuple, None of a leaf."""
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", ())
    if not is_dataclass(kind):
        return None
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise row_error(
            f"{kind.__name__} is a mutable dataclass; an "
            "argument must be frozen. Write @dataclass(frozen=True) above it."
        )
    return tuple(field.name for field in fields(kind))


def _names(arg: Any) -> tuple[str, ...] | None:
    kind: Any = type(arg)
    return field_names(kind)


def _take_apart(arg: Any, leaves: list[Any]) -> Record | None:
    names = _names(arg)
    if names is None:
        leaves.append(arg)
        return None
    parts = arg if isinstance(arg, tuple) else [getattr(arg, name) for name in names]
    return Record(type(arg), tuple(_take_apart(part, leaves) for part in parts))


def _put_together(record: Record | None, leaves: Iterator[Any]) -> Any:
    if record is None:
        return next(leaves)
    parts = [_put_together(part, leaves) for part in record.parts]
    if issubclass(record.kind, tuple):
        return record.kind(*parts) if hasattr(record.kind, "_fields") else tuple(parts)
    made = object.__new__(record.kind)
    for name, part in zip(field_names(record.kind) or (), parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def _paths(record: Record | None, path: str) -> list[str]:
    if record is None:
        return [path]
    names = field_names(record.kind) or [str(n) for n in range(len(record.parts))]
    return [
        leaf
        for name, part in zip(names, record.parts, strict=True)
        for leaf in _paths(part, f"{path}.{name}")
    ]
