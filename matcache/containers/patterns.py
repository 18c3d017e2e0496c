"""Containers of sparse results: values on a pattern, and patterns that operations fill.

The non-zeros of a pattern that is filled differ from those of the operand's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from .lazy import Shape
from .slots import PatternSlot, Slot

if TYPE_CHECKING:
    from .cache import MatCache
    from .keys import Key

BAD = 2  # where `counts` has the place, plus one, of a position that is out of range


def values_container(
    cache: MatCache, key: tuple[Hashable, ...], pattern: PatternSlot, dtype: Any, label: str
) -> Slot:
    """Return a container for values on a pattern, which grows with it."""
    slot = cache.result(key, (1, pattern.capacity), dtype, label)
    if cache.enabled:
        pattern.dependents.setdefault(slot.guid, slot)
    return slot


def filled_pattern(
    cache: MatCache, key: Key, shape: Shape, capacity: int, label: str, like: PatternSlot
) -> PatternSlot:
    """Return the pattern of a result, found by its key, which kernels fill.

    capacity: non-zeros that it has room for, at first.
    like: the operand's pattern. When that grows, the result's grows with it.

    `counts` has three numbers: those of any pattern, and BAD. The transposed index is made where it
    is used.
    """
    pattern = cache.patterns.get(key) if cache.enabled else None
    if pattern is None:
        pattern = PatternSlot(cache.new_guid(), *shape, capacity, label)
        if cache.enabled:
            cache.patterns[key] = like.dependents[pattern.guid] = pattern
    _bind(cache, pattern)
    return pattern


def filled_beside(cache: MatCache, key: Key, like: PatternSlot, label: str) -> PatternSlot:
    """Return a pattern with the offsets of `like` and columns of its own, which kernels fill."""
    pattern = filled_pattern(cache, key, (like.rows, like.columns), like.capacity, label, like)
    pattern.beside, pattern.block = like, like.block
    return pattern


def fill_beside(pattern: PatternSlot, where: str) -> None:
    """Note that a pattern has the present offsets of the one that it is beside."""
    like = pattern.beside
    assert like is not None
    pattern.nnz, pattern.active_count = like.nnz, min(like.nnz, pattern.columns)
    pattern.beside_version = like.version
    pattern.written(where)


def _bind(cache: MatCache, pattern: PatternSlot) -> None:
    """Use containers of the cache as the arrays of a pattern."""
    rows, capacity, guid = pattern.rows, pattern.capacity, pattern.guid
    shapes = {"indptr": rows + 1, "indices": capacity, "counts": 3}
    for name, size in shapes.items():
        dtype = np.int32 if name == "indices" else np.int64
        slot = cache.result(("pattern", name, guid), (1, size), dtype, f"{name} of {pattern.label}")
        if name == "indices":
            pattern.dependents.setdefault(slot.guid, slot)
        if slot.array is not None:
            setattr(pattern, name, slot.array.reshape(-1))
    if pattern.build is None:
        pattern.grown = lambda: _forget(cache, pattern)
        pattern.grown()


def _forget(cache: MatCache, pattern: PatternSlot) -> None:
    """Make the transposed index anew when it is used next: its arrays have another size."""

    def build() -> None:
        index = cache.backend.index(cache, pattern, of_block=False)
        assert index is not None

        def again() -> None:
            if not cache.reserving:
                found = index.arrays()
                pattern.active, pattern.starts, pattern.t_rows, pattern.t_pos = found
            index.build()

        pattern.build = again
        again()

    pattern.build = build
