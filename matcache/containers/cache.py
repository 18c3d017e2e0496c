"""The cache: finds a result's container by operation and operands' GUIDs.

A cache belongs to one replica (one thread, one device). It passes through three phases. While
*reserving*, only shapes are known, and every container that a program touches is recorded. `commit`
places all of them in one slab. After `freeze` a miss is an error. A cache used by hand starts
committed and allocates on demand.

Longer than 300 lines: keys, phases and counters change together.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from blocklearn.closing import Closing

from ..errors import (
    AllocationAfterWarmupError,
    ReadDuringPlanError,
    ShapeError,
    source_line,
)
from .backend import Backend
from .dispatch import Launched, make_backend
from .keys import Key, what_changed
from .memory_plan import PlannedArray, place, planned_array
from .recording import Recording
from .slots import PatternSlot, Slot, carve
from .tape import Tape

log = logging.getLogger("blocklearn.matcache")


@dataclass(frozen=True)
class CacheStats:
    """Counters since the cache was made.

    entries: containers held.
    bytes: memory of the containers, the slab included.
    hits: results returned without computing.
    recomputations: results computed anew into their container.
    allocations: containers allocated; the slab counts as one.
    allocations_after_warmup: allocations since `freeze`.
    flops: floating point operations of all kernels.
    """

    entries: int
    bytes: int
    hits: int
    recomputations: int
    allocations: int
    allocations_after_warmup: int
    flops: int


class MatCache(Closing):
    """A cache of matrix containers, found by name and by expression.

    enabled: False computes every expression in fresh memory, as a reference for tests and
    benchmarks.
    reserving: True starts in the reserve phase.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        enabled: bool = True,
        reserving: bool = False,
        backend: Backend | None = None,
    ) -> None:
        """Make an empty cache.

        threads: of the CPU backend; None: as many as the process may use.
        backend: belongs to the cache from now on; None: a new CPU backend.
        """
        if reserving and not enabled:
            raise ValueError("MatCache: enabled=False: must be True beside reserving=True.")
        # a Backend; launches use more of it than that interface
        self.backend: Any = make_backend("cpu", threads) if backend is None else backend
        self.enabled = enabled
        self.reserving = self.backend.planning = reserving
        self.frozen: Literal[False, "raise", "warn"] = False
        self.flops = 0
        self.line: str | None = None  # of the caller, while an operation runs; see `at_line`
        self.recording: Recording | None = None  # notes every request, for `difference`
        self.edition = 0  # recordings of an earlier one are void; see `edit`
        self.tape: Tape | None = None  # records what runs, for running it again
        self.repeats = False  # whether a tape is run again
        self.launched: list[Launched] | None = None  # launches, if they are to be looked at
        self.inputs: list[Slot | PatternSlot] = []  # containers that blocks are bound to
        self.sealed = False  # whether planning another container is an error
        self.programs: dict[Hashable, Any] = {}  # of calls and dense expressions, by structure
        self._guids = itertools.count(1)
        self.patterns: dict[Key, PatternSlot] = {}  # those that operations fill, see `patterns.py`
        self._entries: dict[Key, Slot] = {}
        self._planned: list[Slot] = []
        self.nbytes = 0  # of all containers, the slab included
        self.late_allocations = 0  # since `freeze`
        self._hits = self._recomputations = self._allocations = 0
        self._closed = False

    # ------------------------------------------------------------------ containers

    def new_guid(self) -> int:
        """Return a number that no other slot of this cache has."""
        return next(self._guids)

    def result(self, key: Key, shape: tuple[int, int], dtype: Any, label: str) -> Slot:
        """Return the container for the result `key`; allocate it if it does not exist.

        Raises ShapeError if it exists with another shape or dtype.
        """
        self.require_open(label)
        slot = self._entries.get(key)
        if slot is None:
            slot = self._allocate(key, shape, np.dtype(dtype), label)
        elif slot.shape != shape or slot.dtype != dtype:
            raise ShapeError(
                f"{label} at {source_line()}: its container was made as {slot.shape} {slot.dtype} "
                f"at {slot.where} and is now asked for as {shape} {np.dtype(dtype)}; a container "
                "has one shape for life."
            )
        return slot

    def _allocate(self, key: Key, shape: tuple[int, int], dtype: np.dtype[Any], label: str) -> Slot:
        slot = Slot(self.new_guid(), shape, dtype, label, where=source_line())
        slot.named = key[0] == "named"
        if self.tape is not None and not self.reserving:
            self.tape.refuse(f"allocates {label}")
        keep = self.enabled or slot.named
        if self.reserving:
            if self.sealed:
                raise AllocationAfterWarmupError(
                    f"{slot.label} at {slot.where}: a block that is not full, such as the last one "
                    "of a pass, needs a container that full blocks do not. "
                    f"{what_changed(key, self._entries)}"
                )
            self._planned.append(slot)
        else:
            if self.frozen and self.enabled:
                self._refuse_or_warn(key, slot)
            slot.array = carve(self.backend.allocate(slot.nbytes), 0, slot)
            if slot.named:
                self.backend.clear(slot.array)
            self._allocations += 1
            self.nbytes += slot.nbytes if keep else 0
        if keep:
            self._entries[key] = slot
        return slot

    def grow(self, pattern: PatternSlot, needed: int) -> None:
        """Raise the capacity of a sparse container and its values by 20% or more.

        needed: least new capacity, in non-zeros.

        GUIDs stay, so results that depend on it are still found. Contents are lost and handles on
        them become stale.
        """
        if self.frozen:
            message = (
                f"{pattern.label}: a block with {needed:,} non-zeros at {source_line()}, but "
                f"{pattern.capacity:,} were reserved. The source must state its largest block "
                "(BlockShape.nnz)."
            )
            if self.frozen == "raise":
                raise AllocationAfterWarmupError(message)
            log.warning("%s", message)
        before, pattern.capacity = pattern.capacity, max(needed, int(pattern.capacity * 1.2))
        pattern.written()
        for slot in pattern.dependents.values():
            if isinstance(slot, PatternSlot):
                self.grow(slot, -(-slot.capacity // before) * pattern.capacity)
                continue
            held = 0 if slot.array is None or slot.in_slab else slot.nbytes
            slot.stretch(before, pattern.capacity)
            if not self.reserving:
                slot.array = carve(self.backend.allocate(slot.nbytes), 0, slot)
                slot.in_slab = False
                self.nbytes += slot.nbytes - held
                self._allocations += 1
                self.late_allocations += bool(self.frozen)
        if pattern.grown is not None:
            pattern.grown()
        self.edit(f"grows {pattern.label}")

    def _refuse_or_warn(self, key: Key, slot: Slot) -> None:
        message = (
            f"{slot.label} at {slot.where} needs a container of {slot.shape} {slot.dtype} "
            f"({slot.nbytes:,} bytes) after warm-up. {what_changed(key, self._entries)}"
        )
        if self.frozen == "raise":
            raise AllocationAfterWarmupError(message)
        log.warning("%s", message)
        self.late_allocations += 1

    # ------------------------------------------------------------------ phases

    def commit(self, elsewhere: Mapping[int, Callable[[], Any]] | None = None) -> None:
        """End the reserve phase: compile kernels, allocate one slab for all containers.

        elsewhere: see `place`.
        """
        self.backend.compile_expected()  # first, because kernels take device memory too
        self.nbytes += place(self._planned, self.backend, elsewhere or {})
        self._allocations += 1
        self._planned = []
        self.reserving = False

    def freeze(self, mode: Literal["raise", "warn"] = "raise") -> None:
        """Make allocations an error ("raise"), or a counted warning ("warn").

        A cache with enabled=False is not affected: it allocates by design.
        """
        if mode not in ("raise", "warn"):
            raise ValueError(f"MatCache.freeze: mode={mode!r}: must be 'raise' or 'warn'.")
        if self.reserving:
            raise RuntimeError("MatCache.freeze: commit() the plan first.")
        self.frozen = mode

    @contextmanager
    def seal(self) -> Iterator[None]:
        """Make planning another container an error, within this `with` block.

        The error names the line that asked for it.
        """
        self.sealed = True
        try:
            yield
        finally:
            self.sealed = False

    def thaw(self) -> None:
        """Allow allocations again, for a new warm-up."""
        self.frozen = False

    def plan(self) -> list[PlannedArray]:
        """Return the containers, largest first, as `--dry-run` prints them."""
        return sorted(map(planned_array, self._entries.values()), key=lambda row: -row.nbytes)

    def stats(self) -> CacheStats:
        """Return the counters since the cache was made."""
        return CacheStats(
            entries=len(self._entries),
            bytes=self.nbytes,
            hits=self._hits,
            recomputations=self._recomputations,
            allocations=self._allocations,
            allocations_after_warmup=self.late_allocations,
            flops=self.work,
        )

    @property
    def work(self) -> int:
        """Floating point operations of all kernels so far.

        Some kernels of a device count their own; these are included once they are known to be done.
        """
        counted: int = self.backend.counted
        return self.flops + counted

    # ------------------------------------------------------------------ used by expressions

    def begin(self, slot: Slot) -> bool:
        """Return whether `slot` must be computed; count a hit if not."""
        if self.enabled and slot.is_current():
            self._hits += 1
            if self.tape is not None:
                self.tape.hit(slot)
            return False
        if slot.computed >= 0:
            self._recomputations += 1
        return True

    def fills(self, slot: Slot, pattern: PatternSlot) -> bool:
        """Return whether a launch must fill `slot`, which depends on the present block alone.

        A second launch for the same block finds it filled, also where the first was recorded.
        """
        if slot.computed == pattern.version and (self.tape is None or self.tape.filled(slot)):
            return False
        slot.computed = pattern.version
        if self.tape is not None:
            self.tape.fill(slot)
        return True

    def count(
        self,
        operations: int = 0,
        pattern: PatternSlot | None = None,
        entries: int = 0,
        columns: int = 0,
    ) -> None:
        """Count the floating point operations of a launch; none while memory is being planned.

        operations: for any block.
        entries, columns: for each non-zero of `pattern`, and for each column that occurs in it.
        """
        if self.reserving:
            return
        self.flops += operations
        if pattern is not None:
            self.flops += entries * pattern.nnz + columns * pattern.active_count
        if self.tape is not None:
            self.tape.worked(operations, pattern, entries, columns)

    def at_line(self) -> str | None:
        """Keep the caller's source line for what an operation makes; return the one before.

        The operation sets `line` to that when it ends. To find the line anew takes a microsecond.
        """
        before = self.line
        if before is None:
            self.line = source_line()
        return before

    def each_block(self, function: Callable[[], None]) -> None:
        """Call a function that sets numbers by what Python counts, such as a step size.

        Where a recorded update runs again without its Python code, this function is called all the
        same, maybe before the launches that came before it. So it launches and reads nothing.
        """
        if self.tape is None:
            function()
        else:
            self.tape.host(function)

    @contextmanager
    def recorded(self, recording: Recording) -> Iterator[None]:
        """Note all requests in `recording`, within this `with` block."""
        before, self.recording = self.recording, recording
        try:
            yield
        finally:
            self.recording = before

    def edit(self, why: str) -> None:
        """Make all recordings void: what programs launch may have changed.

        why: what the present update did, if one is being recorded.
        """
        self.edition += 1
        if self.tape is not None:
            self.tape.refuse(why)

    def containers(self) -> Iterator[Slot | PatternSlot]:
        """Yield every container of this cache."""
        yield from self._entries.values()
        yield from self.patterns.values()
        yield from self.inputs

    def require_open(self, what: str) -> None:
        """Raise RuntimeError if the cache is closed."""
        if self._closed:
            raise RuntimeError(f"{what} at {source_line()}: its MatCache was closed.")

    def require_data(self, what: str) -> None:
        """Raise an error if numbers are not available: during planning or after `close`."""
        self.require_open(what)
        if self.reserving:
            raise ReadDuringPlanError(
                f"{what} at {source_line()}: numbers are read while memory is being planned, "
                "before any data exist. Keep the choice on the device (where), or move it out of "
                "update()."
            )

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Free the memory and stop the threads; the cache and its Mats become unusable."""
        self._closed = True
        for slot in (*self._entries.values(), *self._planned):
            slot.array = None
        self._entries.clear()
        self.patterns.clear()
        self.programs.clear()
        self._planned.clear()
        self.nbytes = 0
        self.backend.close()
