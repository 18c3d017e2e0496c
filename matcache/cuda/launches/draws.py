"""CUDA launches of random numbers."""

from __future__ import annotations

from typing import Any

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.patterns import fill_beside
from ...containers.slots import PatternSlot, Slot
from ..kernels import draws_source
from .common import WARPS

PER_BLOCK = 256  # draws that a block of threads makes at a time


@launches("draw", "cuda")
def _draw(cache: MatCache, name: str, number: int, key: Slot, *slots: Slot) -> None:
    *params, out = slots
    text = _kernel(cache, name)
    if cache.reserving:
        return
    rows, columns = out.shape
    call: list[Any] = [rows, columns, key.array, number]
    match name:
        case "choice":
            call += [params[0].shape[1], *(param.array for param in params)]
        case "integers":
            call += [params[0].array]
        case _:
            for param in params:
                tall, wide = (int(side > 1) for side in param.shape)
                call += [param.array, tall * param.shape[1], wide]
    units = rows if name == "multinomial" else rows * columns
    cache.backend.launch(text, units, PER_BLOCK, *call, out.array)


@launches("beside", "cuda")
def _beside(
    cache: MatCache, number: int, key: Slot, chance: Slot, other: Slot, to: PatternSlot, out: Slot
) -> None:
    text = _kernel(cache, "beside")
    if cache.reserving:
        return
    assert to.beside is not None
    call = [to.rows, key.array, number, chance.shape[1], chance.array, other.array]
    call += [to.beside.indptr, to.indptr, to.indices, out.array, to.counts]
    cache.backend.launch(text, to.rows, WARPS, *call)
    fill_beside(to, out.where)


@launches("alias_table", "cuda")
def _alias_table(cache: MatCache, weights: Slot, *slots: Slot) -> None:
    text, size = _kernel(cache, "alias_table"), slots[0].shape[1]
    if not cache.reserving:
        call = [size, weights.array, *(slot.array for slot in slots)]
        cache.backend.launch_blocks(text, 1, *call)


def _kernel(cache: MatCache, name: str) -> Any:
    return cache.backend.text(("draws", name), draws_source, name)
