"""The transposed index of a block, made on the device instead of by the reader's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..containers.slots import PatternSlot
from .kernels import index_source

if TYPE_CHECKING:
    from ..containers.cache import MatCache

DIGIT = 4  # bits of a column number that a pass sorts by
PARTS = 1024  # of the entries, that are counted apart; as in the text


class DeviceIndex:
    """Room for the index of a sparse container, and for what is sorted on the way to it.

    It is made when it is first read after a block was bound, by `build`: a stable sort of the
    entries by column, so it has the bits of the reader's. Nothing of it is copied to the device;
    one place is enough for all blocks, since only the stream of kernels uses it.
    """

    def __init__(self, cache: MatCache, pattern: PatternSlot) -> None:
        """Planned, or allocated at once if the cache plans no more."""
        self.cache, self.pattern = cache, pattern
        capacity, position = pattern.capacity, pattern.position_type
        columns = min(pattern.columns, capacity)

        def room(what: str, size: int, dtype: Any) -> Any:
            key = ("cuda", "index", cache.new_guid())
            return cache.result(key, (1, size), dtype, f"{what} of {pattern.label} (on the device)")

        self._active = room("active columns", columns, np.int32)
        self._starts = room("offsets by column", columns + 1, np.int64)
        self._rows = room("rows by column", capacity, np.int32)
        self._positions = room("positions by column", capacity, position)
        self._spare_keys = room("columns being sorted", capacity, np.int32)
        self._spare = room("positions being sorted", capacity, position)
        self._sums = room("counts of parts", (1 << DIGIT) * PARTS + 1, np.int64)
        self._built = -1  # version of the pattern

    def arrays(self) -> list[Any]:
        """active, starts, t_rows, t_pos, as `PatternSlot` has them; not made yet."""
        return [slot.array.reshape(-1) for slot in self._containers()]

    def _containers(self) -> list[Any]:
        return [self._active, self._starts, self._rows, self._positions]

    def build(self) -> None:
        """Make it, unless the present block's is there already."""
        pattern, backend = self.pattern, self.cache.backend
        position = "int" if pattern.position_type is np.int32 else "i64"

        def text(name: str) -> Any:
            return backend.text((name, position), lambda: index_source(position), name)

        names = ("count", "starts", "scatter", "heads", "columns", "rows")
        count, starts, scatter, heads, columns, rows = (text(f"index_{name}") for name in names)
        if self.cache.reserving or self._built == pattern.version:
            return
        self._built = pattern.version
        counts, sums = pattern.counts, self._sums.array
        active, begins, t_rows, t_pos = (slot.array for slot in self._containers())
        # Keys and positions go from one pair of arrays to the other, and end in the first one,
        # whose keys make room for the rows at last.
        pairs = [(t_rows, t_pos), (self._spare_keys.array, self._spare.array)]
        keys, places = pattern.indices, 0
        passes = max(1, -(-(pattern.columns - 1).bit_length() // DIGIT))
        for done in range(passes):
            shift, (to_keys, to) = DIGIT * done, pairs[(passes - done - 1) % 2]
            backend.launch(count, PARTS, 1, counts, shift, keys, sums)
            backend.launch_blocks(starts, 1, (1 << DIGIT) * PARTS, sums)
            backend.launch(scatter, PARTS, 1, counts, shift, keys, places, sums, to_keys, to)
            keys, places = to_keys, to
        backend.launch(heads, PARTS, 1, counts, keys, sums)
        backend.launch_blocks(starts, 1, PARTS, sums)
        backend.launch(columns, PARTS, 1, counts, keys, sums, active, begins)
        each = 256  # threads of a block
        call = [counts, pattern.rows, pattern.indptr, t_pos, t_rows]
        backend.launch(rows, pattern.capacity, each, *call)
