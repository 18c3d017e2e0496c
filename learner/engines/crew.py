"""The workers of a run, as one of them sees them: who leads, and what all agree on.

Worker 0 leads. Between blocks it alone calls hooks, decides on evaluations and writes files, and
the others carry out what it orders. So a decision is made once, and a hook sees one model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import WorkerError, WorkerLostError
from .exchange import Alone, Exchange

CHUNK = 2**24  # numbers that are broadcast at a time


class Crew:
    """All workers of a run.

    - exchange: the connection of this worker; None: it works alone.
    - followed: whether the others always `follow` this one, so that it orders what they take part
      in; False: they do so in `lead` and `leading` only.

    wish: returns what this worker asks the leader for, such as the name of a signal that it
        received; None: nothing. It may be set.
    asked: what any worker asked for, when all met the last time.
    repeats: whether this worker has failed with the error of the leader, which says it.
    """

    def __init__(self, exchange: Exchange | None = None, *, followed: bool = False) -> None:
        self.exchange = Alone() if exchange is None else exchange
        self.rank = self.exchange.rank
        self.wish: Callable[[], str | None] = lambda: None
        self.asked: str | None = None
        self._leading = followed and self.size > 1
        self._in_step = True  # whether all orders were carried out
        self.repeats = False

    def renew(self) -> None:
        """End the workers that the engine has started: the next exchange starts others.

        If they wait for orders, they first stop to `follow`, and remove their files.
        """
        if self._leading and self._in_step and self.exchange.running:
            with suppress(WorkerError, WorkerLostError):
                self.told("")
            self.exchange.see_off()
        self.exchange.renew()
        self._in_step = True

    def dismiss(self) -> None:
        """Do what `renew` does, and end a cluster that was started for the workers."""
        self.renew()
        self.exchange.dismiss()

    def restart(self, fewest: int, seconds: float) -> None:
        """Begin afresh with other workers, which the engine starts: see `Exchange.regroup`."""
        self.exchange.regroup(fewest, seconds)
        self.asked = None

    @property
    def size(self) -> int:
        """The number of workers."""
        return self.exchange.size

    @property
    def leads(self) -> bool:
        """Whether this worker leads."""
        return self.rank == 0

    def own(self, items: range) -> range:
        """Return the share of this worker: the items i of which i mod `size` is its rank."""
        return items[(self.rank - items.start) % self.size :: self.size]

    def folder_name(self, name: str) -> str:
        """Return the name of a folder of this worker: several may share a disk."""
        return name if self.leads else f"{name}-worker-{self.rank}"

    def lacks(self, name: str, found: str) -> bool:
        """Return whether `found` is the `folder_name` of a worker that the run does not have."""
        number = found.removeprefix(f"{name}-worker-")
        return number != found and number.isdecimal() and int(number) >= self.size

    # ------------------------------------------------------------- messages

    def gather(self, message: Any) -> list[Any]:
        """Return the messages of all workers, by rank. They are values for JSON."""
        if self.size == 1:
            return [message]
        own = _packed(message)
        parts = self.exchange.exchange([own] * self.size)
        return [_unpacked(part) for part in parts]

    def meet(self, message: Any) -> list[Any]:
        """Return the messages of all workers, and hear what they ask for."""
        found = self.gather([message, self.wish()])
        self.asked = next((wish for _, wish in found if wish is not None), None)
        return [message for message, _ in found]

    def told(self, message: Any = None) -> Any:
        """Return the message of the leader, a value for JSON. The others give none."""
        if self.size == 1:
            return message
        given = _packed(message) if self.leads else np.empty(0, np.uint8)
        parts = self.exchange.exchange([given] * self.size)
        return message if self.leads else _unpacked(parts[0])

    def spread(self, array: NDArray[Any]) -> None:
        """Fill `array` with that of the leader. It has the same shape and dtype everywhere."""
        flat, nothing = array.reshape(-1), np.empty(0, array.dtype)
        for start in range(0, flat.size if self.size > 1 else 0, CHUNK):
            part = flat[start : start + CHUNK]
            parts = self.exchange.exchange([part if self.leads else nothing] * self.size)
            if not self.leads:
                part[:] = parts[0]

    def pooled(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the arrays of all workers, by rank, flat: they may differ in size."""
        return self.exchange.share(array)

    # ------------------------------------------------------------- leading

    @property
    def orders(self) -> bool:
        """Whether this worker orders what the others take part in; else all make the same calls."""
        return self._leading

    @contextmanager
    def ordered(self, name: str) -> Iterator[None]:
        """Order the other workers to take part in the `with` statement, while this one leads.

        Outside of `lead` no order is needed: there, all workers make the same calls.

        name: of what the others do, among the `orders` of `lead`.
        """
        before, self._leading = self._leading, False
        in_step = self._in_step
        try:
            if before:
                self._in_step = False
                self.told(name)
            yield
            self._in_step = in_step
        finally:
            self._leading = before

    def lead(self, work: Callable[[], Any], orders: Mapping[str, Callable[[], Any]]) -> None:
        """Call `work` on the worker that leads, while the others carry out its orders.

        orders: what each order of `work` means for the other workers.
        """
        if not self.leads:
            self.follow(orders)
            return
        with self.leading():
            work()

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Lead in a `with` statement, while all other workers `follow`."""
        before, self._leading = self._leading, self.size > 1
        try:
            yield
        finally:
            self._leading = before
        if not before:
            self.told("")

    def follow(self, orders: Mapping[str, Callable[[], Any]]) -> None:
        """Carry out orders of the worker that leads, until it is done. orders: see `lead`."""
        while (name := self.told()) != "":
            orders[name]()

    @contextmanager
    def guard(self, code: Callable[[BaseException], int]) -> Iterator[None]:
        """Tell the other workers of an error that ends the `with` statement.

        code: returns the exit code of an error.
        """
        try:
            yield
        except Exception as error:
            with suppress(WorkerLostError):
                text = f"{type(error).__name__}: {error}"
                self.repeats = self.exchange.fail(int(code(error)), text)
            raise


def _packed(message: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(message).encode(), np.uint8)


def _unpacked(part: NDArray[np.uint8]) -> Any:
    return json.loads(part.tobytes())


def bounds(length: int, parts: int) -> Sequence[int]:
    """Return the bounds of `parts` nearly equal parts of `length` items, `parts` + 1 numbers."""
    return [length * i // parts for i in range(parts + 1)]
