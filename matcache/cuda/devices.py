"""Find and open CUDA devices through CuPy."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import DeviceError, MemoryPlanError
from . import faults
from .driver import Driver
from .faults import first_line

INSTALL = (
    "CUDA needs an NVIDIA driver, and CuPy with CUDA's libraries (pip install cupy-cuda12x[ctk], "
    "or cupy-cuda13x[ctk])"
)


def count() -> int:
    """Return the number of CUDA devices; 0 if CuPy is missing or does not work."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy's warnings, which tests may turn into errors
            from .cupy_driver import device_count

            return device_count()
    except Exception:  # CuPy does not work, for whatever reason: no device
        return 0


def open_driver(number: int) -> Driver:
    """Return the driver of a device.

    Raises:
        DeviceError: the device does not exist, or cannot be used.
        MemoryPlanError: other programs leave no memory to open it.
    """
    try:
        from .cupy_driver import CupyDriver, device_count

        found = device_count()
    except Exception as error:
        raise DeviceError(f"device: cuda:{number}, but {_why(error)}") from error
    if number >= found:
        raise DeviceError(f"device: cuda:{number}, but there are {found} CUDA devices. {INSTALL}.")
    try:
        return CupyDriver(number)
    except ImportError as error:  # a library that CuPy loads on first use
        raise DeviceError(f"device: cuda:{number}, but {first_line(error)}. {INSTALL}.") from error
    except (DeviceError, MemoryPlanError) as error:
        raise type(error)(f"device: {error}") from error
    except RuntimeError as error:  # such as no memory for a handle of cuBLAS
        raise DeviceError(
            f"device: cuda:{number} could not be opened: {first_line(error)}. Other programs may "
            "use its memory, or reserve the device: see nvidia-smi."
        ) from error


def _why(error: Exception) -> str:
    """Return why CuPy finds no devices, and what helps."""
    said = first_line(error)
    if getattr(error, "status", None) in faults.OLD_DRIVER:
        from .cupy_driver import cuda_versions

        driver, libraries = cuda_versions()
        if driver:
            return f"{said}. {faults.newer_driver(driver, libraries)}"
    return f"{said}. {INSTALL}."


def nccl() -> Any:
    """Return CuPy's NCCL module, or None if the library is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns if the library is missing
            from cupy.cuda import nccl as library
    except Exception:  # as in `count`
        return None
    return library if library.available else None


def nccl_version(library: Any) -> str:
    """Return the version of the loaded library, such as 2.27.3."""
    number = int(library.get_version())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
