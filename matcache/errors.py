"""What can go wrong, by name, and the line that caused it.

Every error of the package derives from `BlocklearnError`.
"""

import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent) + os.sep
_LINKED = str(Path(__file__).absolute().parent) + os.sep


class BlocklearnError(Exception):
    """Base of all errors that this package raises on purpose."""


class ShapeError(BlocklearnError, ValueError):
    """Operands whose shapes, kinds or dtypes do not fit together."""


class StaleValueError(BlocklearnError, RuntimeError):
    """A handle was read after its container had received a newer value."""


class AllocationAfterWarmupError(BlocklearnError, RuntimeError):
    """A frozen cache was asked for memory that it had not reserved."""


class ReadDuringPlanError(BlocklearnError, RuntimeError):
    """The reserve phase met code that reads numbers before any data exist."""


class MemoryPlanError(BlocklearnError, MemoryError):
    """The planned memory does not fit the machine."""


class ThreadStartError(BlocklearnError, RuntimeError):
    """The system starts no further thread, for lack of memory or of processes."""


class MissingKernelError(BlocklearnError):
    """An operation has no kernel for the device that it was asked to run on."""


class DeviceError(BlocklearnError):
    """A device that is not there, or whose name nobody knows."""


def source_line() -> str:
    """`file:line` of the nearest caller outside this folder, and outside of modules that say of
    themselves `__hands_on__ = True`: their lines say nothing to those who call them.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith((_HERE, _LINKED)) or "__hands_on__" in frame.f_globals
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
