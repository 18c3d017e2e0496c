"""Keep all rows of a state in device memory: a block's rows are copied within the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..containers.backend import Numbers
from ..containers.cache import MatCache
from ..containers.slots import Slot
from .arrays import DeviceArray
from .kernels import states_source
from .repeat import Launches
from .texts import Text
from .work import CudaWork

WARPS = 8  # in a block of threads
THREADS = 256


def launch_starts(
    backend: CudaWork, texts: Sequence[Text], ids: Slot, offsets: Any, starts: Any, counts: Any
) -> None:
    """Launch `row_sizes` and `row_starts`, the texts: where rows `ids` begin in a block.

    offsets: of all rows.
    starts: becomes where each row of the block begins.
    counts: where the number of all entries is noted, or 0.
    """
    sizes, sums = texts
    rows = ids.shape[0]
    backend.launch(sizes, rows, THREADS, rows, ids.array, offsets, starts)
    backend.launch(sums, 1, 1, rows, starts, counts)


class DeviceRows:
    """The rows of a state: `width` numbers each. See `Held`."""

    def __init__(self, backend: CudaWork, store: Slot) -> None:
        """Use the container of all rows. Memory is being planned."""
        self.backend, self.store = backend, store
        self._newer = False  # than what the host has
        self._launches: dict[tuple[str, int, int], Launches] = {}  # by the arrays they use
        module = partial(states_source, store.dtype.itemsize)
        self._text = {
            name: backend.text((name, store.dtype.itemsize), module, name) for name in self.names
        }

    names: tuple[str, ...] = ("take_rows", "put_rows")

    def take(self, ids: Slot, rows: Slot) -> None:
        """Launch copying rows `ids` of the state to `rows`."""
        self._repeat(self._take, ids, rows)

    def put(self, ids: Slot, rows: Slot) -> None:
        """Launch copying `rows` back, and setting those of padding to zero."""
        self._repeat(self._put, ids, rows)
        self._newer = True

    def _repeat(self, launch: Callable[[Slot, Slot], None], ids: Slot, rows: Slot) -> None:
        """Launch what is the same for all blocks with the same buffers.

        Containers get other arrays where a block needs more room.
        """
        key = launch.__name__, ids.array.address, rows.array.address
        if key not in self._launches:
            again = [partial(launch, ids, rows)]
            self._launches[key] = Launches(self.backend, again, "rows of a state")
        self._launches[key]()

    def _take(self, ids: Slot, rows: Slot) -> None:
        self._copy("take_rows", ids, rows, [self.store.array, rows.array])

    def _put(self, ids: Slot, rows: Slot) -> None:
        self._copy("put_rows", ids, rows, [rows.array, self.store.array])

    def _copy(self, name: str, ids: Slot, rows: Slot, arrays: list[DeviceArray]) -> None:
        n, width = rows.shape
        self.backend.launch(self._text[name], n * width, THREADS, n, width, ids.array, *arrays)

    def send(self, array: Numbers, first: int = 0) -> None:
        """Copy rows from the host, when the device is done with earlier work."""
        self.backend.drain()
        self.backend.send(self.store.array[first:].address, array.reshape(-1).view(np.uint8))
        self._newer = False

    def finite(self) -> bool:
        """Return whether all numbers are finite."""
        return self.backend.finite(self.store.array)

    def bring(self, array: Numbers) -> None:
        """Copy all rows to the host, unless it has them."""
        if self._newer:
            self.backend.fetch(self.store.array, array)
            self._newer = False


class DeviceTokens(DeviceRows):
    """The numbers of all tokens, of which a row has those between two offsets."""

    names = ("row_sizes", "row_starts", "take_tokens", "put_tokens")

    def __init__(
        self, cache: MatCache, store: Slot, offsets: np.ndarray[Any, Any], block_rows: int
    ) -> None:
        """Reserve room for the offsets and for places in a block.

        offsets: int64 [rows of the data + 1].
        """
        super().__init__(cache.backend, store)
        self._given = offsets
        self._offsets, self._places = (
            cache.result(("held", store.guid, what), (1, size), np.int64, f"{what} ({store.label})")
            for what, size in (("tokens before each row", offsets.size), ("places", block_rows))
        )

    def _take(self, ids: Slot, rows: Slot) -> None:
        """Launch copying the tokens of the rows `ids`, one row after another, to `rows`."""
        begin = [self._text[name] for name in self.names[:2]]
        launch_starts(self.backend, begin, ids, self._offsets.array, self._places.array, 0)
        self._tokens("take_tokens", ids, [self.store.array, rows.array])

    def _put(self, ids: Slot, rows: Slot) -> None:
        """Launch copying the tokens back; `take` was the last call before."""
        self._tokens("put_tokens", ids, [rows.array, self.store.array])

    def _tokens(self, name: str, ids: Slot, arrays: list[DeviceArray]) -> None:
        call = [ids.shape[0], ids.array, self._offsets.array, self._places.array, *arrays]
        self.backend.launch(self._text[name], ids.shape[0], WARPS, *call)

    def send(self, array: Numbers, first: int = 0) -> None:
        """Copy all tokens from the host, when the device is done with earlier work."""
        super().send(array, first)
        self.backend.send(self._offsets.array.address, self._given.view(np.uint8))
