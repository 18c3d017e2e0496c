"""What `learn` exits with. Batch systems read it: 75 may be run again, 2, 65 and 78 may not."""

import errno
from enum import IntEnum

from blocklearn.matcache.errors import (
    BlocklearnError,
    DeviceError,
    MissingKernelError,
    ShapeError,
    ThreadStartError,
)

from .errors import ConfigError, DivergedError, ModelFolderError, RunFolderError, RunInterrupted
from .terminal import printable_text


class ExitCode(IntEnum):
    """The numbers of `sysexits.h` where one fits; 71 and 76 are put to a use of our own."""

    DONE = 0
    USAGE = 2
    """The command line is wrong, or an option is needed to go on (a run that exists)."""
    DATA = 65
    """Data, a model or a checkpoint is malformed or damaged, or data do not fit the model."""
    NO_INPUT = 66
    """A file or folder that should be read does not exist."""
    UNAVAILABLE = 69
    """A device, a file system driver or an optional package is missing."""
    INTERNAL = 70
    """A mistake in blocklearn; comes with a traceback."""
    OUT_OF_MEMORY = 71
    """Of the host or of the device; or the system starts no further thread."""
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
    """The code for `error`. `INTERNAL` means that nobody foresaw it: show the traceback.

    The first line that fits decides, so the narrower class stands first. Of a block that could not
    be read, it is the code of what was in the way.
    """
    # imported here, so that `learn --help` is quick
    from blocklearn.datasources.errors import DataError, ReadError
    from blocklearn.models.errors import ModelConfigError, UpdateError
    from blocklearn.optimizers.errors import CombinationError

    table: list[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode]] = [
        ((ConfigError, CombinationError, ModelConfigError, UpdateError), ExitCode.CONFIG),
        (RunFolderError, ExitCode.USAGE),
        (RunInterrupted, ExitCode.INTERRUPTED),
        (DivergedError, ExitCode.DIVERGED),
        ((DataError, ShapeError, ModelFolderError), ExitCode.DATA),
        ((MemoryError, ThreadStartError), ExitCode.OUT_OF_MEMORY),
        ((FileNotFoundError, NotADirectoryError, IsADirectoryError), ExitCode.NO_INPUT),
        (PermissionError, ExitCode.PERMISSION),
        (OSError, ExitCode.IO),
        ((ImportError, DeviceError, MissingKernelError), ExitCode.UNAVAILABLE),
        (KeyboardInterrupt, ExitCode.KILLED),
    ]
    if isinstance(error, ReadError) and error.__cause__ is not None:
        return exit_code(error.__cause__)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return ExitCode.PERMISSION
    return next((code for kind, code in table if isinstance(error, kind)), ExitCode.INTERNAL)


def message(error: BaseException) -> str:
    """What to print for an expected error: one line where Python's own text is not one, and the
    notes that were added to it. Control characters, which a file may have brought in, are escaped.
    """
    return printable_text("\n".join([_text(error), *getattr(error, "__notes__", ())]))


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{name}{error.strerror}"
    if isinstance(error, MemoryError) and not isinstance(error, BlocklearnError):
        return f"out of memory{f': {error}' if str(error) else ''}"
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    return str(error)
