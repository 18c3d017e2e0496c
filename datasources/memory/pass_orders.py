"""The permutations of passes: the next one is made while the present one is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

AHEAD = 1 << 15  # items whose permutation takes longer than the start of a thread

Order = npt.NDArray[np.int64]


class PassOrders:
    """A permutation of `items` for each pass. Several threads may read it.

    Of `AHEAD` items or more, two are held: see `expect`.

    make: fills an array with the permutation of a pass.
    """

    def __init__(self, items: int, make: Callable[[int, Order], None]) -> None:
        """Allocate the memory of all passes."""
        self._make = make
        self._free = [np.empty(items, np.int64) for _ in range(1 + (items >= AHEAD))]
        self._held: dict[int, Order] = {}  # by pass
        self._coming: _Coming | None = None
        self._lock = threading.Lock()  # two readers may be in two passes

    @contextmanager
    def of(self, pass_: int) -> Iterator[Order]:
        """Yield the permutation of a pass, which holds within this `with` block."""
        with self._lock:
            yield self._of(pass_)

    def expect(self, pass_: int) -> None:
        """Let another thread make a permutation, beside that of the pass before.

        Making one takes some 10 ns an item, in which a GPU would wait for the first block.
        """
        with self._lock:
            if self._coming is not None or pass_ in self._held:
                return
            for old in [held for held in self._held if held != pass_ - 1]:
                self._free.append(self._held.pop(old))
            if self._free:
                self._coming = _Coming(pass_, self._free.pop(), self._make)

    def _of(self, pass_: int) -> Order:
        """Return the permutation of a pass; called under the lock."""
        if pass_ in self._held:
            return self._held[pass_]
        coming, self._coming = self._coming, None
        if coming is not None:
            made = coming.wait()
            if coming.pass_ == pass_ and made:
                self._held[pass_] = coming.order
                return coming.order
            self._free.append(coming.order)
        if not self._free:
            self._free.append(self._held.pop(next(iter(self._held))))
        order = self._free.pop()
        self._make(pass_, order)
        self._held[pass_] = order
        return order


class _Coming:
    """A permutation that a thread makes."""

    def __init__(self, pass_: int, order: Order, make: Callable[[int, Order], None]) -> None:
        """Start the thread."""
        self.pass_, self.order = pass_, order
        self._run, self._made = make, False
        self._thread = threading.Thread(target=self._fill, name="blocklearn-order", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Wait for the thread; return whether the permutation is there."""
        self._thread.join()
        return self._made

    def _fill(self) -> None:
        self._run(self.pass_, self.order)
        self._made = True
