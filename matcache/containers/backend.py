"""The interface between a cache and the backend that holds its memory.

`cpu/` and `cuda/` implement it. Launches of operations are registered separately, see
`dispatch.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from .cache import MatCache
    from .slots import PatternSlot, Slot

Numbers = np.ndarray[Any, Any]
"""An array in host memory."""


class Incoming(Protocol):
    """Receives some arrays of each block, together; as large as the largest block needs."""

    def bind(
        self,
        arrays: Sequence[Numbers | None],
        counts: Sequence[int] | None = None,
        same: Hashable | None = None,
    ) -> Sequence[Any]:
        """Return the arrays where kernels can read them, in the shapes that were planned.

        arrays: C-contiguous, of the planned types, maybe without the last ones; must stay unchanged
            until the block is over, see `Backend.end_block`. None: kernels will fill it.
        counts: how many numbers of each are used; None: all.
        same: equal for arrays with the same contents, which may stay where kernels read them; None:
            the contents change.
        """


class Held(Protocol):
    """All rows of a state, or of a table of the data, where kernels read and write them."""

    def take(self, ids: Slot, rows: Slot) -> None:
        """Launch copying rows of the state to those of a block.

        ids: int64 [block rows x 1], -1 for padding; its rows become zero.
        """

    def put(self, ids: Slot, rows: Slot) -> None:
        """Launch copying a block's rows back, and setting those of padding to zero."""

    def send(self, array: Numbers, first: int = 0) -> None:
        """Copy rows from the host: those from row `first` on."""

    def bring(self, array: Numbers) -> None:
        """Copy all rows to the host, unless it has them."""

    def finite(self) -> bool:
        """Return whether all numbers are finite."""


class HeldMatrix(Protocol):
    """All rows of a sparse matrix, where kernels read them."""

    def take(self, ids: Slot, pattern: PatternSlot, values: Slot) -> None:
        """Launch copying rows to those of a block: its offsets, columns, values and `counts[0]`.

        ids: see `Held`. The rows must fit into the block.
        """

    def send(self, first: int, indptr: Numbers, indices: Numbers, values: Numbers) -> None:
        """Copy rows from the host: those from row `first` on, after all before it were sent.

        indptr: int64 [rows + 1], from 0. indices: int32. values: float32.
        """


class Spread(Protocol):
    """Makes tables whose first rows lie on a device and whose other rows lie on the host."""

    def new(self, shape: tuple[int, int], dtype: Any, near: int) -> Any:
        """Allocate a table of zeros. near: rows that lie on the device."""

    def read(self, table: Any, rows: Numbers) -> Numbers:
        """Return rows of a table, after all earlier launches. rows: int64, their numbers."""

    def write(self, table: Any, rows: Numbers, numbers: Numbers) -> None:
        """Set rows of a table, each once, after all earlier launches.

        rows: int64. numbers: a row for each.
        """

    def finite(self, table: Any) -> bool:
        """Return whether all numbers are finite, after all earlier launches."""


class Index(Protocol):
    """Makes the transposed index of a sparse container if blocks do not bring it."""

    def arrays(self) -> list[Any]:
        """Return active, starts, t_rows and t_pos of `PatternSlot`; `build` fills them."""

    def build(self) -> None:
        """Fill the arrays for the present block, unless this was done already.

        While memory is being planned, only prepare the kernels.
        """


class Backend(Protocol):
    """Memory and kernels of one cache.

    kind: name of its launches in the dispatch table.
    host_bytes: host memory that the backend itself uses, as far as is known.
    rounded: dtype that stores a table rounded to bfloat16.
    planning: whether launches only prepare their kernels; the cache sets it, `compile_expected`
        ends it.
    repeats: whether launches may be recorded and run again, see `tape.py`. Such a backend has a
        list `calls` (or None), to which launches with `only_calls` add what they call, and methods
        `writing(array, numbers)`: a function that copies them, and `joined(steps, owners)`:
        functions that run steps of a tape again.

    `Slot.array` holds arrays of a type that only the backend knows.
    """

    kind: str
    host_bytes: int
    rounded: np.dtype[Any]
    planning: bool
    repeats: bool

    @property
    def free_bytes(self) -> int | None:
        """Free memory of the device in bytes; None for the CPU."""

    def allocate(self, nbytes: int) -> Any:
        """Allocate bytes, aligned for containers.

        Raises MemoryPlanError or MemoryError if there is not enough memory.
        """

    @property
    def lost(self) -> bool:
        """Whether the device failed, so that what it held is gone."""

    def clear(self, array: Any) -> None:
        """Set all numbers to zero."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Numbers:
        """Return a zeroed host array, in memory suited for assembling blocks."""

    def write(self, array: Any, numbers: Any) -> None:
        """Copy host numbers into an array.

        numbers: of the same shape, or one number for all.
        """

    def set_rows(self, array: Any, rows: Numbers, numbers: Numbers) -> None:
        """Copy host numbers into rows of an array, after all earlier launches.

        rows: int64, their numbers, each once. numbers: a row for each.
        """

    def read(self, array: Any) -> Numbers:
        """Return a copy on the host, after all earlier launches."""

    def host(self, array: Any) -> Numbers:
        """Return the contents on the host, read-only; no copy if they are there already."""

    def finite(self, array: Any) -> bool:
        """Return whether all numbers are finite, after all earlier launches."""

    def put_back(self, array: Any, shown: Numbers) -> None:
        """Write `shown`, an edited result of `host(array)`, back into the array."""

    def incoming(
        self,
        cache: MatCache,
        label: str,
        arrays: Sequence[tuple[tuple[int, ...], Any]],
        copies: int,
    ) -> Incoming | None:
        """Reserve room for arrays of each block; None: kernels use them where they are.

        arrays: shapes and dtypes of the largest.
        copies: how many blocks may be in use at a time.
        """

    def keep_blocks(self, cache: MatCache, nbytes: int) -> None:
        """Reserve room, as a part of the plan, for blocks that stay where kernels read them."""

    def hold(
        self, cache: MatCache, store: Slot, offsets: Numbers | None = None, block_rows: int = 0
    ) -> Held | None:
        """Keep all rows of a state where kernels read them; None: the host has them there.

        store: their container, a part of the plan.
        offsets: int64 [rows + 1], where each row begins, if rows differ in length. Blocks of such a
            state have `block_rows` rows.
        """

    def hold_matrix(
        self, cache: MatCache, label: str, rows: int, entries: int
    ) -> HeldMatrix | None:
        """Keep all rows of a sparse matrix where kernels read them, as a part of the plan.

        None: the host has them there. entries: of all rows.
        """

    def spread(self) -> Spread | None:
        """Return the maker of tables that are larger than the device; None: it is the host."""

    def index(self, cache: MatCache, pattern: PatternSlot, *, of_block: bool) -> Index | None:
        """Return the maker of the transposed index; None if blocks bring the index.

        of_block: whether the pattern is that of a block; otherwise kernels fill it.
        """

    def begin_block(self) -> None:
        """Prepare for a block that is about to be bound."""

    def end_block(self) -> None:
        """Finish a block whose work was launched.

        Returns when the block's host arrays are no longer read.
        """

    @property
    def counted(self) -> int:
        """Floating point operations counted by kernels themselves, as far as known."""

    def drain(self) -> None:
        """Wait until all launched work is done."""

    def rest(self) -> None:
        """Stop threads that wait for launches; the next one that needs them starts them again."""

    def compile_expected(self) -> None:
        """Compile every kernel that launches asked for while memory was planned, save `later`."""

    def compile_later(self) -> None:
        """Compile what `later` put off, so that nothing but blocks takes time."""

    def prepare(self, calls: Iterable[tuple[Any, ...]]) -> None:
        """Compile kernels of the host before they are called, several at once where it can.

        calls: for each, the kernel, and arguments of the types that it will get.
        """

    def later(self) -> AbstractContextManager[None]:
        """Return a context: kernels that are planned in it may be compiled at their first call."""

    def close(self) -> None:
        """Free the memory and stop the threads."""
