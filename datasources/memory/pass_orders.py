"""The permutations of passes: the next one is made while the present one is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

AHEAD = 1 << 15  # items whose permutation takes longer than the start of a thread

Order = npt.NDArray[np.int64]


class PassOrders:
    """A permutation of `items` for each pass. Several threads may read it.

    Of `AHEAD` items or more, two are held: see `expect`.

    make: fills an array with the permutation of a pass.
    lock: held while one is read; see `of`.
    """

    def __init__(self, items: int, make: Callable[[int, Order], None]) -> None:
        """Allocate the memory of all passes."""
        self._make, self._items, self._ahead = make, items, items >= AHEAD
        # An interrupt may cost an array at any place below; but none is ever in two places.
        self._free = [np.empty(items, np.int64) for _ in range(1 + self._ahead)]
        self._held: dict[int, Order] = {}  # by pass
        self._coming: _Coming | None = None
        self.lock = threading.Lock()  # two readers may be in two passes

    def expect(self, pass_: int) -> None:
        """Let another thread make a permutation, beside that of the pass before.

        Making one takes some 10 ns an item, in which a GPU would wait for the first block.
        """
        if not self._ahead:
            return
        with self.lock:
            if self._coming is not None or pass_ in self._held:
                return
            for old in [held for held in self._held if held != pass_ - 1]:
                self._free.append(self._held.pop(old))
            coming = _Coming(pass_, self._room(), self._make)
            try:
                coming.start()
            except RuntimeError:  # the system refuses another thread, which only saves time
                self._free.append(coming.order)
            else:
                self._coming = coming

    def of(self, pass_: int) -> Order:
        """Return the permutation of a pass, which holds while the caller has the lock."""
        if pass_ not in self._held and self._coming is not None:
            self._coming.join()
            coming, self._coming = self._coming, None
            if coming.made:
                self._held[coming.pass_] = coming.order
            else:
                self._free.append(coming.order)
        if pass_ not in self._held:
            if not self._free and self._held:
                self._free.append(self._held.pop(next(iter(self._held))))
            order = self._room()
            self._make(pass_, order)
            self._held[pass_] = order
        return self._held[pass_]

    def _room(self) -> Order:
        """Take an array that is free; make one if none is."""
        return self._free.pop() if self._free else np.empty(self._items, np.int64)


class _Coming(threading.Thread):
    """A permutation that a thread makes.

    made: whether it is there, when the thread has ended.
    """

    def __init__(self, pass_: int, order: Order, make: Callable[[int, Order], None]) -> None:
        super().__init__(name="blocklearn-order", daemon=True)
        self.pass_, self.order, self.made = pass_, order, False
        self._make = make

    def run(self) -> None:
        """Make it. After an error, the reader that needs it tries again and gets the error."""
        with suppress(Exception):
            self._make(self.pass_, self.order)
            self.made = True
