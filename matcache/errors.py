"""The errors of the package, and the source line that caused one.

Every error of the package derives from `BlocklearnError`.
"""

import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent) + os.sep
_LINKED = str(Path(__file__).absolute().parent) + os.sep
_skipped: dict[str, bool] = {}  # whether `source_line` skips the lines of a file


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
    """The system refuses to start another thread, for lack of memory or processes."""


class MissingKernelError(BlocklearnError):
    """An operation has no kernel for the requested device."""


class DeviceError(BlocklearnError):
    """A device does not exist or cannot be used, or its name is unknown."""


class DeviceLostError(DeviceError, RuntimeError):
    """A device stopped working; what it had in memory is lost."""


def source_line() -> str:
    """Return `file:line` of the nearest caller outside the matrix layer.

    Modules that set `__hands_on__ = True` are skipped too: they only pass calls on, so their lines
    do not help the user.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        skipped = _skipped.get(file)
        if skipped is None:
            inside = file.startswith((_HERE, _LINKED))
            skipped = inside or "__hands_on__" in frame.f_globals
            if not file.startswith("<"):  # "<string>" is the name of many texts
                _skipped[file] = skipped
        if not skipped:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def row_error(text: str) -> ShapeError:
    """Return the error of what a `@rowwise` function does, with its line."""
    return ShapeError(f"@rowwise at {source_line()}: {text}")
