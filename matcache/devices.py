"""Resolve the device names that users write, and make the backends behind them."""

from __future__ import annotations

import re
from typing import Literal

from .containers.backend import Backend
from .containers.dispatch import backend
from .errors import DeviceError

IndexedBy = Literal["host", "device"]
"""Where the transposed index of a block is made."""

IDLE = "idle:"


def resolve(device: str) -> str:
    """Return the canonical name of a device: `cpu` or `cuda:N`.

    device: cpu, cuda (the first CUDA device), cuda:N, or auto (the first CUDA device if CuPy finds
    one, else the CPU).

    Raises DeviceError for any other name.

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
        raise DeviceError(f"device={device}: must be cpu, cuda, cuda:N (such as cuda:1) or auto.")
    return f"cuda:{int(found[1] or 0)}"


def free_bytes(device: str) -> int | None:
    """Return the free memory of a device in bytes, or None for the CPU.

    device: a name as `resolve` returns it.

    Raises DeviceError if the device does not exist.
    """
    if device == "cpu":
        return None
    from .cuda import devices

    driver = devices.open_driver(_number(device))
    try:
        return driver.limits().free
    finally:
        driver.close()


def device_name(device: str) -> str:
    """Return the name of a GPU with its number, such as `cuda:0 (NVIDIA H200)`.

    Raises DeviceError if the device does not exist.
    """
    from .cuda import devices

    driver = devices.open_driver(_number(device))
    try:
        return driver.limits().name
    finally:
        driver.close()


def _number(device: str) -> int:
    return int(device.partition(":")[2])


@backend("cpu")
def _cpu(threads: int | None) -> Backend:
    from .cpu.backend import CPU  # not above: a fit without matrices of a cache needs no Numba

    return CPU(threads)


def make_backend(device: str, threads: int | None, index: IndexedBy = "host") -> Backend:
    """Make the backend of a device.

    device: a name as `resolve` returns it, or `idle:N`: a CUDA device of N bytes that does nothing,
        to count launches with; every plan fits.
    threads: number of CPU threads; None: as many as the process may use.
    index: where the transposed index of blocks is made: by the reader's threads ("host") or on the
    GPU ("device"). The CPU backend always takes the reader's.

    Raises DeviceError if the device does not exist.
    """
    if device == "cpu":
        return _cpu(threads)
    if device.startswith(IDLE):
        from .cuda.idle import Idle

        return Idle(_number(device), indexes=index == "device")
    from .cuda import Cuda, devices

    driver = devices.open_driver(_number(device))
    return Cuda(driver, indexes=index == "device")
