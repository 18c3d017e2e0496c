"""What the cache asks of whoever holds its memory and runs its kernels.

There is a CPU backend (`cpu/`) and one for CUDA devices (`cuda/`). How operations are launched on
each is in the kernel table (`table.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from .cache import MatCache
    from .slots import PatternSlot

Numbers = np.ndarray[Any, Any]
"""An array of the host."""


class Incoming(Protocol):
    """Where an array of a block arrives: as large as the largest one."""

    def bind(self, array: Numbers, count: int | None = None) -> Any:
        """The array where kernels can read it; of its numbers, the first `count` (None: all).

        array: C-contiguous. It stays as it is until the block is over (see `Backend.end_block`).
        """


class Index(Protocol):
    """Makes the transposed index of a sparse container, where blocks do not bring it."""

    def arrays(self) -> list[Any]:
        """active, starts, t_rows, t_pos, as `PatternSlot` has them; filled by `build`."""

    def build(self) -> None:
        """Fill them for the present block, unless that is done; while memory is being planned, see
        that the kernels are ready.
        """


class Backend(Protocol):
    """Memory and kernels of one cache. What it calls an array, `Slot.array`, is its own affair.

    kind: the name of its launches in the kernel table. host_bytes: memory of the host that it takes
    for itself, as far as is known. free_bytes: what its device could still give; None: it is the
    host. rounded: how a table is stored that was rounded to bfloat16.
    """

    kind: str
    host_bytes: int
    rounded: np.dtype[Any]

    @property
    def free_bytes(self) -> int | None:
        """See above."""

    def allocate(self, nbytes: int) -> Any:
        """Bytes that start at a multiple of the alignment of containers.

        Raises MemoryPlanError, or MemoryError, where they are not there.
        """

    def clear(self, array: Any) -> None:
        """All zeros."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Numbers:
        """An array of the host, where blocks are best made."""

    def write(self, array: Any, numbers: Any) -> None:
        """Copy numbers of the host, of the same shape or one for all, into an array."""

    def read(self, array: Any) -> Numbers:
        """A copy on the host, after everything that was launched before."""

    def host(self, array: Any) -> Numbers:
        """The same, to be looked at only: not a copy where the array is the host's anyway."""

    def put_back(self, array: Any, shown: Numbers) -> None:
        """What was written to `shown`, which is `host(array)`, into the array."""

    def incoming(self, cache: MatCache, label: str, size: int, dtype: Any, copies: int) -> Incoming:
        """Room for arrays of up to `size` numbers. copies: how many may be in use at a time."""

    def index(self, cache: MatCache, pattern: PatternSlot) -> Index | None:
        """Who makes the transposed index of a container's blocks; None: they bring it."""

    def begin_block(self) -> None:
        """A block is about to be bound."""

    def end_block(self) -> None:
        """Its work is launched. Returns when nothing reads its arrays on the host any more."""

    @property
    def counted(self) -> int:
        """Floating point operations that kernels themselves counted, as far as is known by now."""

    def drain(self) -> None:
        """Wait until everything that was launched is done."""

    def compile_expected(self) -> None:
        """Have every kernel ready that launches asked for while memory was planned."""

    def close(self) -> None:
        """Free the memory, stop the threads."""


MakeBackend = Callable[[], Backend]
