"""Allocate memory of a device that several caches may share."""

from __future__ import annotations

import weakref

import numpy as np

from ..errors import MemoryPlanError
from .arrays import DeviceArray
from .driver import Driver


class Tenants:
    """The backends that share one driver; the last one to leave closes it."""

    def __init__(self, driver: Driver) -> None:
        """Start without backends."""
        self.driver = driver
        self._count = 0

    def enter(self) -> None:
        """Count one backend more."""
        self._count += 1

    def leave(self) -> None:
        """Count one backend less; close the driver after the last one."""
        self._count -= 1
        if not self._count:
            self.driver.close()


class DeviceMemory:
    """What one backend has allocated; freed at the latest when it is garbage-collected.

    held: bytes on the device.
    """

    def __init__(self, tenants: Tenants) -> None:
        """Enter among the backends of a driver."""
        self.tenants, self._driver = tenants, tenants.driver
        self.held = 0
        self._addresses: list[int] = []
        tenants.enter()
        self.free = weakref.finalize(self, _release, tenants, self._addresses)

    @property
    def in_use(self) -> bool:
        """Whether anything is allocated, and not freed."""
        return self.free.alive and bool(self._addresses)

    def allocate(self, nbytes: int, near: int | None = None) -> DeviceArray:
        """Allocate device memory. Raises MemoryPlanError if there is not enough.

        near: how many of the bytes lie on the device, and the others on the host; None: all.
        """
        limits = self._driver.limits()
        wanted = max(nbytes if near is None else near, 1)
        try:
            if wanted > limits.free:
                raise MemoryError
            driver = self._driver
            address = driver.allocate(wanted) if near is None else driver.spread(nbytes, near)
        except MemoryError as error:
            limits = self._driver.limits()  # other programs may have taken some since
            whole = " in one piece" if limits.free >= wanted else ""
            raise MemoryPlanError(
                f"The plan needs {wanted:,} bytes{whole} of {limits.name}, and {limits.free:,} of "
                f"its {limits.total:,} are free. Lower block_rows, or the model's size (its number "
                "of topics or factors), or end other programs that use the device: see nvidia-smi."
            ) from error
        self._addresses.append(address)
        self.held += wanted
        return DeviceArray(address, (nbytes,), np.dtype(np.uint8))


def _release(tenants: Tenants, addresses: list[int]) -> None:
    """Free memory and driver, also of a backend that was garbage-collected."""
    try:
        for address in addresses:
            tenants.driver.free(address)
    finally:
        tenants.leave()
