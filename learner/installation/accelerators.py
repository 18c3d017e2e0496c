"""Find the machine's GPUs through the NVIDIA driver, without any Python library."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver.

    version: the CUDA version that it supports.
    devices: names and bytes of memory.
    """

    version: str
    devices: list[tuple[str, int]]


def find_driver(library: str = "libcuda.so.1") -> Driver:
    """Return the driver and its devices.

    Raises:
        OSError: the driver is missing or does not work; the message says why.
    """
    cuda = ctypes.CDLL(library)
    number = ctypes.c_int()
    _check(cuda.cuInit(0), "cuInit")
    _check(cuda.cuDriverGetVersion(ctypes.byref(number)), "cuDriverGetVersion")
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    _check(cuda.cuDeviceGetCount(ctypes.byref(number)), "cuDeviceGetCount")
    devices = []
    for index in range(number.value):
        device, name, total = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_size_t()
        _check(cuda.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
        _check(cuda.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
        _check(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device), "cuDeviceTotalMem")
        devices.append((name.value.decode(), total.value))
    return Driver(version, devices)


REASONS = {100: "no device", 3: "not initialised", 803: "another version than the kernel module"}


def _check(code: int, what: str) -> None:
    if code:
        raise OSError(f"{what} failed: {REASONS.get(code, 'error')} ({code})")
