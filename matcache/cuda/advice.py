"""Advise CUDA where managed memory lies; otherwise it moves to the processor that touches it.

Memory that is kept on the host and mapped to a device is read and written by its kernels in place,
across the bus, a cache line at a time.

The driver's library is called, since CuPy's `memAdvise` takes no host for a place under CUDA 13.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ..errors import DeviceError

HOST = -1  # CU_DEVICE_CPU
PREFERRED_LOCATION, ACCESSED_BY = 3, 5  # CU_MEM_ADVISE_SET_...


def keep(address: int, nbytes: int, place: int) -> None:
    """Keep managed memory on a device, or on the `HOST`. Raises DeviceError if it cannot be."""
    _advise(address, nbytes, PREFERRED_LOCATION, place)


def map_to(address: int, nbytes: int, device: int) -> None:
    """Let a device read and write managed memory wherever it lies."""
    _advise(address, nbytes, ACCESSED_BY, device)


def _advise(address: int, nbytes: int, what: int, place: int) -> None:
    if not nbytes:
        return
    status = _library().cuMemAdvise(
        ctypes.c_uint64(address), ctypes.c_size_t(nbytes), ctypes.c_int(what), ctypes.c_int(place)
    )
    if status:
        raise DeviceError(
            f"cuMemAdvise({what}, {place}) of {nbytes:,} bytes: CUDA error {status}. Leave out "
            "tables.device, if the tables fit on the device."
        )


@cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")
