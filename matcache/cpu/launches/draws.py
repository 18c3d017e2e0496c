"""CPU launches of random numbers."""

from __future__ import annotations

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS
from ...containers.dispatch import launches
from ...containers.slots import Slot
from ..bounds import even_bounds
from ..draws import DRAWS, alias_table

CHUNK_DRAWS = 1024  # least draws in a chunk


@launches("draw", "cpu", only_calls=True)
def _draw(cache: MatCache, name: str, number: int, key: Slot, *slots: Slot) -> None:
    *params, out = (slot.data() for slot in slots)
    rows, columns = slots[-1].shape
    size = rows if name == "multinomial" else rows * columns
    chunks = max(1, min(ROW_CHUNKS, rows * columns // CHUNK_DRAWS, size))
    call = [key.data(), number, params[0], params[-1], out]
    cache.backend.run(DRAWS[name], even_bounds(cache, size, chunks), *call)


@launches("alias_table", "cpu", only_calls=True)
def _alias_table(cache: MatCache, weights: Slot, *slots: Slot) -> None:
    call = [weights.data().reshape(-1), *(slot.data() for slot in slots)]
    cache.backend.call(alias_table, *call)
