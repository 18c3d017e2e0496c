"""Where a cache computes: the names that users give to devices, and the backends behind them."""

from __future__ import annotations

import re
from typing import Literal

from .containers.backend import Backend
from .cpu.backend import CPU
from .errors import DeviceError

IndexedBy = Literal["host", "device"]


def resolve(device: str) -> str:
    """`cpu`, or `cuda:N`: what cpu, cuda, cuda:N or auto mean here and now.

    auto: the first CUDA device if CuPy sees one, else the CPU. Raises DeviceError for another name.

    >>> resolve("cpu"), resolve("cuda"), resolve("cuda:1")
    ('cpu', 'cuda:0', 'cuda:1')
    """
    if device == "cpu":
        return device
    if device == "auto":
        from .cuda import devices

        return "cuda:0" if devices.count() else "cpu"
    found = re.fullmatch(r"cuda(?::(\d+))?", device)
    if found is None:
        raise DeviceError(f"device: {device}; it is cpu, cuda, cuda:N (such as cuda:1) or auto.")
    return f"cuda:{int(found[1] or 0)}"


def free_bytes(device: str) -> int | None:
    """What a device, `resolve`d, could still give; None: it is the host. Raises DeviceError where
    it is not there.
    """
    if device == "cpu":
        return None
    from .cuda import devices

    driver = devices.open_driver(_number(device))
    try:
        return driver.limits().free
    finally:
        driver.close()


def _number(device: str) -> int:
    return int(device.partition(":")[2])


def make_backend(device: str, threads: int | None, index: IndexedBy = "host") -> Backend:
    """The backend of a device, `resolve`d. Raises DeviceError where it is not there.

    threads: of the CPU; None: as many as the process may use. index: who makes the transposed
    index of blocks, the reader's threads or a GPU; on the CPU it is always they.
    """
    if device == "cpu":
        return CPU(threads)
    from .cuda import Cuda, devices

    driver = devices.open_driver(_number(device))
    return Cuda(driver, indexes=index == "device")
