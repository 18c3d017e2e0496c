"""Make the transposed index of a block on the device, not in reader threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..containers.slots import PatternSlot
from .kernels import index_source

if TYPE_CHECKING:
    from ..containers.cache import MatCache

THREADS, WARPS = 256, 8  # in a block of threads
DIGIT = 8  # bits of a column number sorted by each pass
DIGITS = 1 << DIGIT
PARTS = 512  # most parts of the entries with separate counts; as in `index.cu`


def sorting(columns: int) -> tuple[int, int]:
    """Return the launches that make an index, and the bytes that they move for each non-zero."""
    passes = _passes(columns)
    return 3 * passes + 4, 20 * passes + 24


def _passes(columns: int) -> int:
    return max(1, -(-(columns - 1).bit_length() // DIGIT))


class DeviceIndex:
    """The transposed index of a sparse container, and scratch for sorting.

    `build` makes it when it is first read after a block was bound. A stable sort of the entries by
    column gives the same bits as the reader's. Nothing is copied to the device. One copy serves all
    blocks, since only the compute stream uses it.
    """

    def __init__(self, cache: MatCache, pattern: PatternSlot) -> None:
        """Reserve room in the plan, or allocate it at once if planning is over."""
        self.cache, self.pattern = cache, pattern
        capacity, position = pattern.capacity, pattern.position_type
        columns = min(pattern.columns, capacity)

        def room(what: str, size: int, dtype: Any) -> Any:
            key = ("cuda", "index", cache.new_guid())
            return cache.result(key, (1, size), dtype, f"{what} of {pattern.label} (on the device)")

        self._index = [
            room("active columns", columns, np.int32),
            room("offsets by column", columns + 1, np.int64),
            room("rows by column", capacity, np.int32),
            room("positions by column", capacity, position),
        ]
        self._spare_keys = room("columns being sorted", capacity, np.int32)
        self._spare = room("positions being sorted", capacity, position)
        self._sums = room("counts of parts", DIGITS * (PARTS + 1), position)
        self._built = -1  # version of the pattern when it was last built

    def arrays(self) -> list[Any]:
        """Return active, starts, t_rows and t_pos, each as one row: kernels take addresses."""
        return [slot.array for slot in self._index]

    def build(self) -> None:
        """Make the index, unless that of the present block exists already."""
        pattern, backend = self.pattern, self.cache.backend
        position = "int" if pattern.position_type is np.int32 else "i64"

        def text(name: str) -> Any:
            return backend.text((name, position), lambda: index_source(position), name)

        names = ("count", "places", "scatter", "heads", "columns", "rows")
        count, begin, scatter, heads, columns, rows = (text(f"index_{name}") for name in names)
        number = text("index_entries")
        if self.cache.reserving or self._built == pattern.version:
            return
        self._built = pattern.version
        counts, sums = pattern.counts, self._sums.array
        active, begins, t_rows, t_pos = self.arrays()
        # Keys and positions alternate between two pairs of arrays and end in the first. There the
        # rows finally replace the keys.
        pairs = [(t_rows, t_pos), (self._spare_keys.array, self._spare.array)]
        keys, places = pattern.indices, 0
        passes = _passes(pattern.columns)
        for done in range(passes):
            shift, (to_keys, to) = DIGIT * done, pairs[(passes - done - 1) % 2]
            backend.launch(count, PARTS, 1, counts, shift, keys, sums)
            backend.launch(begin, DIGITS, 1, counts, sums)
            backend.launch(scatter, PARTS, 1, counts, shift, keys, places, sums, to_keys, to)
            keys, places = to_keys, to
        backend.launch(heads, PARTS, 1, counts, keys, sums)
        backend.launch(columns, PARTS, 1, counts, keys, sums, active, begins)
        rows_of = self._spare_keys.array  # is free again
        backend.launch(number, pattern.rows, WARPS, pattern.rows, pattern.indptr, rows_of)
        backend.launch(rows, pattern.capacity, THREADS, counts, t_pos, rows_of, t_rows)
