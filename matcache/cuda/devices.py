"""CUDA devices that CuPy sees."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import DeviceError
from .driver import Driver

INSTALL = (
    "CUDA needs an NVIDIA driver, and CuPy with CUDA's libraries (pip install cupy-cuda12x[ctk], "
    "or cupy-cuda13x[ctk])"
)


def count() -> int:
    """How many there are; 0 also where CuPy is missing or does not work."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of CuPy's, which may be errors where tests run
            from .cupy_driver import device_count

            return device_count()
    except Exception:  # whatever keeps CuPy from working: there is no device then
        return 0


def _said(error: Exception) -> str:
    """In one line: CuPy says more on others, such as which files it looked at."""
    return str(error).partition("\n")[0].rstrip(".")


def open_driver(number: int) -> Driver:
    """The driver of a device. Raises DeviceError where it is not there."""
    try:
        from .cupy_driver import CupyDriver, device_count

        found = device_count()
    except Exception as error:
        raise DeviceError(f"device: cuda:{number}, but {_said(error)}. {INSTALL}.") from error
    if number >= found:
        raise DeviceError(f"device: cuda:{number}, but there are {found} CUDA devices. {INSTALL}.")
    try:
        return CupyDriver(number)
    except ImportError as error:  # of a library that CuPy loads when it is first used
        raise DeviceError(f"device: cuda:{number}, but {_said(error)}. {INSTALL}.") from error
    except RuntimeError as error:  # CUDA's own: no memory for a context, say
        raise DeviceError(
            f"device: cuda:{number} could not be opened: {_said(error)}. Other programs may hold "
            "its memory, or have it for themselves: see nvidia-smi."
        ) from error


def nccl() -> Any:
    """CuPy's module for NCCL; None where the library is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns where it does not find the library
            from cupy.cuda import nccl as library
    except Exception:  # as in `count`
        return None
    return library if library.available else None


def nccl_version(library: Any) -> str:
    """Of the library that is loaded, such as 2.27.3."""
    number = int(library.get_version())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
