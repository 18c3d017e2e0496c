"""Copies between pageable memory and a device, piece by piece through pinned memory."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .driver import Bytes, Driver

BOUNCE = 1 << 24  # bytes copied at a time


class Bounce:
    """Copies through pinned memory, which is allocated by the first one. Each waits for its end."""

    def __init__(self, driver: Driver, stream: Any) -> None:
        """Copy on a stream."""
        self._driver, self._stream = driver, stream

    @cached_property
    def memory(self) -> Any:
        """The pinned memory, `BOUNCE` bytes."""
        return self._driver.pinned(BOUNCE)

    def send(self, address: int, numbers: Bytes) -> None:
        """Copy host bytes to an address of the device."""
        for begin in range(0, numbers.size, BOUNCE):
            part = numbers[begin : begin + BOUNCE]
            self.memory[: part.size] = part
            self._driver.copy_in(address + begin, self.memory[: part.size], self._stream)
            self._driver.synchronize(self._stream)

    def fetch(self, address: int, into: Bytes) -> None:
        """Copy bytes from an address of the device to the host."""
        for begin in range(0, into.size, BOUNCE):
            part = self.memory[: min(BOUNCE, into.size - begin)]
            self._driver.copy_out(part, address + begin, self._stream)
            self._driver.synchronize(self._stream)
            into[begin : begin + part.size] = part
