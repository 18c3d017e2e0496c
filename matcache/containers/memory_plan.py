"""Place planned containers in one slab of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MemoryPlanError
from .slots import Slot, aligned, carve, type_name


@dataclass(frozen=True)
class PlannedArray:
    """One line of the memory plan."""

    label: str
    where: str
    shape: tuple[int, int]
    dtype: str
    nbytes: int


def planned_array(slot: Slot) -> PlannedArray:
    """Return the line of a container."""
    return PlannedArray(slot.label, slot.where, slot.shape, type_name(slot.dtype), slot.nbytes)


def place(slots: Sequence[Slot], backend: Any, elsewhere: Mapping[int, Callable[[], Any]]) -> int:
    """Allocate a slab for containers without memory; return its bytes.

    elsewhere: makes the array of a named container that is not to lie in the slab, by GUID: of its
        shape and dtype, all zeros. They are made in this order.

    Raises MemoryPlanError if there is not enough memory.
    """
    outside = {slot.guid: slot for slot in slots if slot.guid in elsewhere}
    for guid, make in elsewhere.items():
        if guid in outside:
            slot = outside[guid]
            slot.array, slot.computed, slot.cleared = make(), -1, slot.version
    within = [slot for slot in slots if slot.guid not in elsewhere]
    size = sum(aligned(slot.nbytes) for slot in within)
    try:
        slab = backend.allocate(size)
    except MemoryPlanError:
        raise
    except MemoryError as error:
        raise MemoryPlanError(
            f"The plan needs {size:,} bytes, more than this machine has free. Lower "
            "block_rows, or the model's size (its number of topics or factors)."
        ) from error
    offset = 0
    for slot in within:
        slot.array = carve(slab, offset, slot)
        slot.in_slab = True
        if slot.named:
            backend.clear(slot.array)
            slot.cleared = slot.version
        slot.computed = -1  # nothing was really computed while reserving
        offset += aligned(slot.nbytes)
    return size
