"""The CUDA backend: how blocks, and data that stay, are kept and used on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..containers.slots import BFLOAT16
from . import launches, merging  # noqa: F401 (they register themselves)
from .arrays import DeviceArray
from .driver import Driver
from .incoming import DeviceIncoming, Sources
from .index import DeviceIndex
from .matrix import DeviceMatrix
from .memory import Tenants
from .repeat import joined
from .shelf import DeviceShelf
from .spread import DeviceSpread
from .states import DeviceRows, DeviceTokens
from .work import CudaWork

if TYPE_CHECKING:
    from ..containers.cache import MatCache
    from ..containers.slots import PatternSlot, Slot


class Cuda(CudaWork):
    """The backend of one cache on one device. See `Backend`.

    The driver is shared by this backend and those made by `beside`.
    """

    kind = "cuda"
    rounded = BFLOAT16
    repeats = True
    planning = False

    def __init__(
        self,
        driver: Driver,
        *,
        graphs: bool = True,
        indexes: bool = False,
        tenants: Tenants | None = None,
    ) -> None:
        """Use a driver. For `graphs` and `tenants` see `CudaWork`.

        indexes: whether transposed indexes are made on the device, not copied from the host.
        """
        super().__init__(driver, graphs=graphs, tenants=tenants)
        self.indexes = indexes
        self.calls: list[Any] | None = None  # launches are repeated as they are; see `repeat.py`
        self._sources = Sources(driver)

    def beside(self) -> Cuda:
        """Return a backend for another cache on this device, with the same driver."""
        graphs = self.launcher.graphs
        return Cuda(self.driver, graphs=graphs, indexes=self.indexes, tenants=self._memory.tenants)

    def writing(self, array: DeviceArray, numbers: Any) -> Callable[[], None]:
        """Return a function that copies these numbers into an array.

        While a tape notes calls it does nothing, for the numbers are there already.
        """

        def write() -> None:
            if self.calls is None:
                self.write(array, numbers)

        return write

    def joined(self, steps: Sequence[Any], owners: Sequence[Any]) -> list[Callable[[], None]]:
        """Return functions that run steps of a `Tape` again."""
        return list(joined(self, steps))  # blocks bring other contents, not other arrays

    def set_rows(self, array: DeviceArray, rows: Any, numbers: Any) -> None:
        """Copy host numbers into rows of an array, in parts."""
        self.spread().write(array, rows, numbers)

    # ------------------------------------------------------------------ blocks, and what stays

    def incoming(
        self,
        cache: MatCache,
        label: str,
        arrays: Sequence[tuple[tuple[int, ...], Any]],
        copies: int,
    ) -> DeviceIncoming:
        """Reserve room on the device for arrays of blocks."""
        found = DeviceIncoming(self, self._sources, cache, label, arrays, copies)
        if copies > 1:  # for blocks that are not in pinned memory
            self.host_bytes += found.nbytes
        return found

    def keep_blocks(self, cache: MatCache, nbytes: int) -> None:
        """Reserve room for blocks that stay on the device."""
        self.shelf = DeviceShelf(cache, nbytes)

    def hold(
        self, cache: MatCache, store: Slot, offsets: Any = None, block_rows: int = 0
    ) -> DeviceRows:
        """Keep all rows of a state on the device."""
        if offsets is None:
            return DeviceRows(self, store)
        return DeviceTokens(cache, store, offsets, block_rows)

    def hold_matrix(self, cache: MatCache, label: str, rows: int, entries: int) -> DeviceMatrix:
        """Keep all rows of a sparse matrix on the device."""
        return DeviceMatrix(cache, label, rows, entries)

    def spread(self) -> DeviceSpread:
        """Return the maker of tables that may be larger than the device."""
        return DeviceSpread(self)

    def index(self, cache: MatCache, pattern: PatternSlot, *, of_block: bool) -> DeviceIndex | None:
        """Return the maker of the transposed index, if this backend makes it."""
        return DeviceIndex(cache, pattern) if self.indexes or not of_block else None

    # ------------------------------------------------------------------ what a device does not need

    def compile_later(self) -> None:
        """Do nothing: all kernels are compiled."""

    def prepare(self, calls: Iterable[tuple[Any, ...]]) -> None:
        """Do nothing: kernels of the host are compiled when they are first called."""

    def later(self) -> AbstractContextManager[None]:
        """Put nothing off: kernels take memory of the device, which is allocated once."""
        return nullcontext()

    def rest(self) -> None:
        """Do nothing: no threads wait for launches."""
