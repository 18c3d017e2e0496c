"""CPU launches of random numbers."""

from __future__ import annotations

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS
from ...containers.dispatch import launches
from ...containers.patterns import fill_beside
from ...containers.slots import PatternSlot, Slot
from ..kernels.bounds import Work, even_bounds, row_bounds
from ..kernels.draws import DRAWS, alias_table, beside

CHUNK_DRAWS = 1024  # least draws in a chunk
ENTRY = Work(entry=20)


@launches("draw", "cpu", only_calls=True)
def _draw(cache: MatCache, name: str, number: int, key: Slot, *slots: Slot) -> None:
    *params, out = (slot.data() for slot in slots)
    rows, columns = slots[-1].shape
    size = rows if name == "multinomial" else rows * columns
    chunks = max(1, min(ROW_CHUNKS, rows * columns // CHUNK_DRAWS, size))
    call = [key.data(), number, params[0], params[-1], out]
    cache.backend.run(DRAWS[name], even_bounds(cache, size, chunks), *call)


@launches("beside", "cpu")
def _beside(
    cache: MatCache, number: int, key: Slot, chance: Slot, other: Slot, to: PatternSlot, out: Slot
) -> None:
    assert to.beside is not None
    indptr, bounds = to.beside.offsets()[0], row_bounds(cache, to.rows, to.beside, ENTRY)
    call = [key.data(), number, chance.data(), other.data(), indptr]
    call += [*to.offsets(), out.data()[0], to.numbers()]
    cache.backend.run(beside, bounds, *call)
    if not cache.reserving:
        fill_beside(to, out.where)


@launches("alias_table", "cpu", only_calls=True)
def _alias_table(cache: MatCache, weights: Slot, *slots: Slot) -> None:
    call = [weights.data().reshape(-1), *(slot.data() for slot in slots)]
    cache.backend.call(alias_table, *call)
