"""The cache: finds the container of a result again from the operation and its operands' GUIDs.

A cache belongs to one replica (one thread, one device). Its life: *reserving* (shapes only: every
container that a program touches is recorded), `commit` (one slab holds them all), then `freeze`:
from there on a miss is an error. A cache used by hand starts committed and allocates as it goes.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from .cpu import CPU
from .errors import AllocationAfterWarmupError, MemoryPlanError, ReadDuringPlanError, ShapeError
from .slots import PatternSlot, Slot, aligned, allocate_bytes, carve, source_line

log = logging.getLogger("blocklearn.matcache")

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class CacheStats:
    """Counters of a cache. `hits` returned without computing; `recomputations` reused a container."""

    entries: int
    bytes: int
    hits: int
    recomputations: int
    allocations: int
    allocations_after_warmup: int
    flops: int


@dataclass(frozen=True)
class PlannedArray:
    """One line of the memory plan."""

    label: str
    where: str
    shape: tuple[int, int]
    dtype: str
    nbytes: int


class MatCache:
    """Containers by name and by expression, on the CPU with `threads` threads.

    enabled=False computes every expression in fresh memory: the reference for tests and the "before"
    of the allocation benchmark. reserving=True starts in the reserve phase.
    """

    def __init__(
        self, *, threads: int | None = None, enabled: bool = True, reserving: bool = False
    ) -> None:
        self.backend = CPU(threads)
        self.enabled = enabled
        self.reserving = reserving
        self.frozen: Literal[False, "raise", "warn"] = False
        self.flops = 0
        self._guids = itertools.count(1)
        self._entries: dict[Key, Slot] = {}
        self._planned: list[Slot] = []
        self._bytes = 0
        self._hits = self._recomputations = self._allocations = self._late = 0
        self._closed = False

    # ------------------------------------------------------------------ containers

    def new_guid(self) -> int:
        """A number that no other slot of this cache has."""
        return next(self._guids)

    def result(self, key: Key, shape: tuple[int, int], dtype: Any, label: str) -> Slot:
        """The container for the result `key`: found again, or allocated."""
        if self._closed:
            raise RuntimeError("MatCache: used after close().")
        slot = self._entries.get(key)
        if slot is None or not self.enabled:
            slot = self._allocate(key, shape, np.dtype(dtype), label)
        elif slot.shape != shape or slot.dtype != dtype:
            raise ShapeError(
                f"{label}: its container was {slot.shape} {slot.dtype} (written at {slot.where}) "
                f"and is now asked for as {shape} {dtype}; containers have one shape for life."
            )
        return slot

    def _allocate(self, key: Key, shape: tuple[int, int], dtype: np.dtype[Any], label: str) -> Slot:
        slot = Slot(self.new_guid(), shape, dtype, label, where=source_line())
        if self.reserving:
            self._planned.append(slot)
        else:
            if self.frozen:
                self._refuse_or_warn(key, slot)
            slot.array = allocate_bytes(max(slot.nbytes, 1))[: slot.nbytes].view(dtype).reshape(shape)
            self._allocations += 1
            self._bytes += slot.nbytes
        if self.enabled:
            self._entries[key] = slot
        return slot

    def grow(self, pattern: PatternSlot, needed: int) -> None:
        """Raise the capacity of a sparse container, and of the values that share its pattern, x1.2.

        GUIDs stay, so everything computed from it is still found.
        """
        if self.frozen == "raise":
            raise AllocationAfterWarmupError(
                f"{pattern.label}: a block with {needed:,} non-zeros at {source_line()}, but "
                f"{pattern.capacity:,} were reserved. The source must state its largest block "
                "(BlockShape.nnz), or freeze the cache with 'warn'."
            )
        pattern.capacity = max(needed, int(pattern.capacity * 1.2))
        for slot in pattern.dependents:
            slot.shape = (1, pattern.capacity)
            if not self.reserving:
                old = 0 if slot.array is None else slot.array.nbytes
                slot.array = np.zeros(slot.shape, slot.dtype)
                self._bytes += slot.nbytes - old
                self._allocations += 1
                self._late += bool(self.frozen)

    def _refuse_or_warn(self, key: Key, slot: Slot) -> None:
        message = (
            f"{slot.label} at {slot.where} needs a container of {slot.shape} {slot.dtype} "
            f"({slot.nbytes:,} bytes) after warm-up. {self._what_changed(key)}"
        )
        if self.frozen == "raise":
            raise AllocationAfterWarmupError(message)
        log.warning("%s", message)
        self._late += 1

    def _what_changed(self, key: Key) -> str:
        """Which part of the key differs from the nearest one that was there."""
        same = [k for k in self._entries if k[0] == key[0] and len(k) == len(key)]
        if not same:
            return "This expression was not part of the warm-up: run every branch of it there."
        nearest = max(same, key=lambda k: sum(a == b for a, b in zip(k, key, strict=True)))
        for part, (old, new) in enumerate(zip(nearest, key, strict=True)):
            if old != new:
                if part >= 1 and isinstance(new, float | int) and not isinstance(old, tuple):
                    names = {s.guid: s.label for s in self._entries.values()}
                    if isinstance(new, float) or new not in names:
                        return (
                            f"Operand {part} was {old!r} during warm-up and is {new!r} now: a number "
                            "that changes belongs in a Scalar, whose contents are set in place."
                        )
                    return (
                        f"Operand {part} was the container '{names.get(old, old)}' during warm-up "
                        f"and is '{names[new]}' now: assign with <<= into the old one."
                    )
                return f"Operand {part} was {old!r} during warm-up and is {new!r} now."
        return ""

    # ------------------------------------------------------------------ phases

    def commit(self) -> None:
        """End the reserve phase: allocate one slab, and place every planned container in it."""
        size = sum(aligned(s.nbytes) for s in self._planned)
        try:
            slab = allocate_bytes(size)
        except MemoryError as error:
            raise MemoryPlanError(
                f"The plan needs {size:,} bytes, which this machine will not give. Lower block_rows, "
                "or the model's size (its number of topics or factors)."
            ) from error
        offset = 0
        for slot in self._planned:
            slot.array = carve(slab, offset, slot)
            offset += aligned(slot.nbytes)
        for slot in self._planned:  # what was computed while reserving was not computed
            slot.computed = -1
        self._bytes += size
        self._allocations += 1
        self._planned = []
        self.reserving = False

    def freeze(self, mode: Literal["raise", "warn"] = "raise") -> None:
        """From here on an allocation is an error, or a warning that is counted."""
        if self.reserving:
            raise RuntimeError("MatCache.freeze: commit() the plan first.")
        self.frozen = mode

    def thaw(self) -> None:
        """Allow allocations again (a new warm-up)."""
        self.frozen = False

    def plan(self) -> list[PlannedArray]:
        """The containers, largest first: what `--dry-run` prints."""
        rows = [
            PlannedArray(s.label, s.where, s.shape, str(s.dtype), s.nbytes)
            for s in self._entries.values()
        ]
        return sorted(rows, key=lambda r: -r.nbytes)

    def stats(self) -> CacheStats:
        """The counters since the start."""
        return CacheStats(
            entries=len(self._entries),
            bytes=self._bytes,
            hits=self._hits,
            recomputations=self._recomputations,
            allocations=self._allocations,
            allocations_after_warmup=self._late,
            flops=self.flops,
        )

    # ------------------------------------------------------------------ used by expressions

    def begin(self, slot: Slot) -> bool:
        """Whether `slot` must be (re)computed; counts a hit otherwise."""
        if self.enabled and slot.is_current():
            self._hits += 1
            return False
        if slot.computed >= 0:
            self._recomputations += 1
        return True

    def require_data(self, what: str) -> None:
        """Refuse to read numbers while only shapes are known."""
        if self.reserving:
            raise ReadDuringPlanError(
                f"{what} at {source_line()}: numbers are read while memory is being planned, before "
                "any data exist. Keep the choice on the device (where), or move it out of update()."
            )

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Free the memory and stop the threads. The cache cannot be used afterwards."""
        self._closed = True
        self._entries.clear()
        self._planned.clear()
        self._bytes = 0
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
