"""NCCL that is none: what `matcache.cuda.wires` asks of CuPy's module, on stand-ins for devices.

What one stream was given within a group is one step of it, which sends and receives at once, and
ends when others have taken what it sends: so a stream that comes late holds up the others, as on
cards, and one that never comes holds them up until they are aborted. A send that is not received,
or in another length, is an error; so are calls outside a group, and communicators that are at work
while others are.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.support.cuda_device import HostDriver, HostStream, _await


class Letter:
    """Bytes on their way from one device to another."""

    def __init__(self) -> None:
        self.sent: Any = None
        self.received: Any = None
        self.lost = False  # one of both devices was aborted
        self.there, self.taken = threading.Event(), threading.Event()


class Library:
    """The module, for these devices. initialised: lists of numbers that it was given.

    groups: how many there were. live: communicators that are not destroyed. moved: bytes.
    """

    NCCL_UINT8, available = 1, True

    def __init__(self, drivers: Sequence[HostDriver]) -> None:
        self.drivers = drivers
        self.initialised: list[list[int]] = []
        self.groups = self.live = self.moved = self.aborted = 0
        self._group: dict[tuple[int, int], Letter] | None = None
        self._by_stream: dict[HostStream, tuple[list[tuple[Letter, bool]], list[int]]] = {}
        self._working: list[list[int]] = []  # whose steps are not done
        self._letters: list[tuple[Letter, list[int]]] = []  # of the last group of each
        self.NcclCommunicator = self

    def get_version(self) -> int:
        return 22501

    def initAll(self, numbers: list[int]) -> list[Member]:
        assert len(set(numbers)) == len(numbers), "a device twice"
        self.initialised.append(numbers)
        self.live += len(numbers)
        return [Member(self, rank, numbers) for rank in range(len(numbers))]

    def groupStart(self) -> None:
        assert self._group is None, "a group within a group"
        self._group, self._by_stream = defaultdict(Letter), {}

    def give(
        self, all_: list[int], way: tuple[int, int], part: Any, stream: HostStream, sends: bool
    ) -> None:
        assert self._group is not None, "a call outside a group would wait for ever"
        assert all(working is all_ for working in self._working), "others are at work"
        letter = self._group[way]
        assert (letter.sent if sends else letter.received) is None, "twice"
        if sends:
            letter.sent = part
            self.moved += part.size
        else:
            letter.received = part
        self._by_stream.setdefault(stream, ([], all_))[0].append((letter, sends))
        self._letters.append((letter, all_))

    def groupEnd(self) -> None:
        assert self._group is not None
        for letter in self._group.values():
            assert letter.sent is not None and letter.received is not None, "one side only"
            assert letter.sent.size == letter.received.size, "lengths differ"
        for stream, (letters, all_) in self._by_stream.items():
            self._working.append(all_)
            stream.give(partial(self._exchange, letters, all_))
        self._group = None
        self.groups += 1

    def abort(self, all_: list[int]) -> None:
        """Ends the waiting of these communicators."""
        self.aborted += 1
        for letter, whose in self._letters:
            if whose is all_:
                letter.lost = True
                letter.there.set()
                letter.taken.set()
        self._working = [working for working in self._working if working is not all_]

    def _exchange(self, letters: list[tuple[Letter, bool]], all_: list[int]) -> Callable[[], None]:
        def run() -> None:
            _exchange(letters)
            if not any(letter.lost for letter, _ in letters):
                self._working.remove(all_)

        return run


def _exchange(letters: list[tuple[Letter, bool]]) -> None:
    for letter, sends in letters:
        if sends:
            letter.there.set()
    for letter, sends in letters:
        if not sends:
            _await(letter.there)
            if letter.lost:
                return
            np.copyto(letter.received, letter.sent)
            letter.taken.set()
    for letter, sends in letters:
        if sends:
            _await(letter.taken)


class Member:
    """A communicator. numbers: of the devices of all."""

    def __init__(self, library: Library, rank: int, numbers: list[int]) -> None:
        self.library, self.rank, self.numbers = library, rank, numbers

    def send(self, address: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._give((self.rank, peer), address, count, kind, stream, sends=True)

    def recv(self, address: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._give((peer, self.rank), address, count, kind, stream, sends=False)

    def _give(
        self, way: tuple[int, int], address: int, count: int, kind: int, stream: int, sends: bool
    ) -> None:
        assert kind == Library.NCCL_UINT8
        ((driver, found),) = (
            (driver, own)
            for driver in self.library.drivers
            for own in driver._streams
            if own.ptr == stream
        )
        assert driver.number == self.numbers[self.rank]
        part = driver._bytes(address, count)
        self.library.give(self.numbers, way, part, found, sends)

    def destroy(self) -> None:
        self.library.live -= 1

    def abort(self) -> None:
        self.library.abort(self.numbers)
        self.destroy()
