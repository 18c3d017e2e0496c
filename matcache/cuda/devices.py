"""CUDA devices that CuPy sees."""

from __future__ import annotations

from ..errors import DeviceError
from .driver import Driver

INSTALL = "CUDA needs an NVIDIA driver and CuPy (pip install cupy-cuda12x, or cupy-cuda13x)"


def count() -> int:
    """How many there are; 0 also where CuPy is missing or does not work."""
    try:
        from .cupy_driver import device_count

        return device_count()
    except Exception:  # whatever keeps CuPy from working: there is no device then
        return 0


def open_driver(number: int) -> Driver:
    """The driver of a device. Raises DeviceError where it is not there."""
    try:
        from .cupy_driver import CupyDriver, device_count

        found = device_count()
    except Exception as error:
        raise DeviceError(f"device: cuda:{number}, but {error}. {INSTALL}.") from error
    if number >= found:
        raise DeviceError(f"device: cuda:{number}, but there are {found} CUDA devices. {INSTALL}.")
    return CupyDriver(number)
