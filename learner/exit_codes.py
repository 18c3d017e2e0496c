"""Exit codes of `learn`, for batch systems.

A run with 75 may be started again; one with 2, 65 or 78 may not.
"""

import errno
import re
from enum import IntEnum

from blocklearn.matcache.errors import (
    BlocklearnError,
    DeviceError,
    MissingKernelError,
    ShapeError,
    ThreadStartError,
)

from .errors import (
    ConfigError,
    DivergedError,
    ModelFolderError,
    RunFolderError,
    RunInterrupted,
    WorkerError,
    WorkerLostError,
)
from .terminal import printable_text

LONG = 500  # characters of a word that a message shortens


class ExitCode(IntEnum):
    """The numbers of `sysexits.h` where one fits; 71 and 76 have meanings of our own."""

    DONE = 0
    USAGE = 2
    """The command line is wrong, or the run exists and an option must say what to do."""
    DATA = 65
    """Data, a model or a checkpoint is malformed or damaged, or data do not fit the model."""
    NO_INPUT = 66
    """A file or folder that should be read does not exist, or one to write to is no folder."""
    UNAVAILABLE = 69
    """A device, a driver of a file system, an optional package or a worker is missing or failed."""
    INTERNAL = 70
    """A mistake in blocklearn; comes with a traceback."""
    OUT_OF_MEMORY = 71
    """The host or the device has too little memory, or the system starts no further thread."""
    IO = 74
    """Reading or writing failed."""
    INTERRUPTED = 75
    """Stopped by a signal; run again with `--resume auto`."""
    DIVERGED = 76
    """Training produced numbers that are not finite."""
    PERMISSION = 77
    """Not allowed to read or write a file."""
    CONFIG = 78
    """The configuration is wrong."""
    KILLED = 130
    """A second Ctrl-C: stopped at once (128 + SIGINT, as shells have it)."""


def exit_code(error: BaseException) -> ExitCode:
    """Return the code for `error`.

    `INTERNAL` means an unexpected error: show the traceback.

    The first row of the table that fits decides, so narrower classes come first. A `ReadError` has
    the code of its cause.
    """
    # imported here, so that `learn --help` is quick
    from blocklearn.datasources.errors import DataError, ReadError
    from blocklearn.models.errors import ModelConfigError, TargetRangeError, UpdateError
    from blocklearn.optimizers.errors import CombinationError

    table: list[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode]] = [
        (TargetRangeError, ExitCode.DATA),
        ((ConfigError, CombinationError, ModelConfigError, UpdateError), ExitCode.CONFIG),
        ((RunFolderError, FileExistsError), ExitCode.USAGE),
        (RunInterrupted, ExitCode.INTERRUPTED),
        (DivergedError, ExitCode.DIVERGED),
        ((DataError, ShapeError, ModelFolderError), ExitCode.DATA),
        ((MemoryError, ThreadStartError), ExitCode.OUT_OF_MEMORY),
        ((FileNotFoundError, NotADirectoryError, IsADirectoryError), ExitCode.NO_INPUT),
        (PermissionError, ExitCode.PERMISSION),
        (OSError, ExitCode.IO),
        (
            (ImportError, DeviceError, MissingKernelError, WorkerLostError),
            ExitCode.UNAVAILABLE,
        ),
        (KeyboardInterrupt, ExitCode.KILLED),
    ]
    if isinstance(error, WorkerError):
        return ExitCode(error.code)
    if isinstance(error, ReadError) and error.__cause__ is not None:
        return exit_code(error.__cause__)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return ExitCode.PERMISSION
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return ExitCode.NO_INPUT
    if _name_without_locale(error) is not None:
        return ExitCode.IO
    return next((code for kind, code in table if isinstance(error, kind)), ExitCode.INTERNAL)


def message(error: BaseException) -> str:
    """Return the text to print for an expected error: a message and its notes.

    Control characters, which may come from a file, are escaped, and long words are shortened.
    """
    text = "\n".join([_text(error), *getattr(error, "__notes__", ())])
    return re.sub(rf"\S{{{LONG},}}", _shortened, printable_text(text))


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:100]}... ({len(word[0]):,} characters)"


def _name_without_locale(error: BaseException) -> str | None:
    """Return the name of a file that cannot be passed on as UTF-8; None: it is another error.

    Python has read it with an encoding that lacks its letters.
    """
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return error.object
    return None


def _text(error: BaseException) -> str:
    if (name := _name_without_locale(error)) is not None:
        return (
            f"{name}: the locale of this process lacks letters of the name. Set PYTHONUTF8=1, or "
            "LC_ALL=C.UTF-8"
        )
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{name}{error.strerror}"
    if isinstance(error, MemoryError) and not isinstance(error, BlocklearnError):
        return f"out of memory{f': {error}' if str(error) else ''}"
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    return str(error)
