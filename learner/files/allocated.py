"""Make files that are mapped into memory, and reserve their space on the disk.

Without reserved space a mapped file has holes. Writing to a hole when the disk is full kills the
process by SIGBUS, without a message.
"""

from __future__ import annotations

import errno
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.durable import naming

PART = 2**20  # bytes written at a time, where a file system cannot reserve space
MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = ("tmpfs", "ramfs")  # file systems
CANNOT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of file systems that cannot reserve space."""


def new_file(path: Path, nbytes: int) -> None:
    """Make the file `path` of so many zeros.

    Raises:
        FileExistsError: the file exists; it is left as it is.
        OSError: the disk has too little room; the message gives needed and free bytes, and no
            file is left.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with naming(path):
            reserve(descriptor, nbytes, path.parent)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def nameless_array(folder: Path, dtype: DTypeLike, shape: Sequence[int]) -> NDArray[Any]:
    """Make a file of zeros in `folder`, without a name, and map it into memory as an array.

    Its disk space becomes free when the array is deleted. Raises OSError if the disk has too little
    room; the message gives needed and free bytes.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if not nbytes:
        return np.zeros(shape, dtype)
    with naming(folder), tempfile.TemporaryFile(dir=folder) as file:
        reserve(file.fileno(), nbytes, folder)
        return np.memmap(file, dtype, "r+", shape=tuple(shape)).view(np.ndarray)


def new_npy(path: Path, dtype: DTypeLike, shape: Sequence[int]) -> NDArray[Any]:
    """Make the .npy file `path` of zeros, and map its numbers into memory.

    An existing file is replaced. Raises OSError, without the name of the file, if the disk has too
    little room; the message gives needed and free bytes.
    """
    entries = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": tuple(shape),
    }
    with path.open("w+b") as file:
        np.lib.format.write_array_header_1_0(file, entries)
        file.flush()
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        reserve(file.fileno(), file.tell() + nbytes, path.parent)
    return np.lib.format.open_memmap(path, "r+")


def reserve(descriptor: int, nbytes: int, folder: Path) -> None:
    """Extend an open file with zeros to `nbytes` bytes, and reserve them on the disk.

    Raises OSError, without the name of the file, if the disk has too little room.

    folder: of the file, on whose disk free bytes are counted.
    """
    if not nbytes:
        return
    try:
        try:
            os.posix_fallocate(descriptor, 0, nbytes)
        except OSError as error:
            if error.errno not in CANNOT:
                raise
            _write_zeros(descriptor, nbytes)
    except OSError as error:
        raise too_little_room(nbytes, free_bytes(folder), error.errno or errno.EIO) from error


def too_little_room(needed: int, free: int, code: int = errno.ENOSPC) -> OSError:
    """Make the error for a file that needs more bytes than the disk has."""
    text = (
        f"{os.strerror(code)}: {needed:,} bytes are needed, {free:,} bytes are free. Make room, or "
        "choose a folder on another disk."
    )
    return OSError(code, text)


def free_bytes(folder: Path) -> int:
    """Count the free bytes of the disk of `folder`, which need not exist yet."""
    disk = os.statvfs(nearest(folder))
    return disk.f_bavail * disk.f_frsize


def lies_in_memory(folder: Path, mounts: Path = MOUNTS) -> bool:
    """Return whether files of `folder`, which need not exist yet, take memory, as in a tmpfs.

    mounts: the system's list of mounted file systems. False where there is none.
    """
    device = nearest(folder).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    found = [line.partition(" - ")[2].split() for line in lines if line.split()[2] == number]
    return any(kind in IN_MEMORY for kind, *_ in found)


def nearest(folder: Path) -> Path:
    """Return the folder itself, or the nearest one above it that exists."""
    return next(place for place in [folder, *folder.absolute().parents] if place.exists())


def _write_zeros(descriptor: int, nbytes: int) -> None:
    """Write the file out, from its present end to `nbytes` bytes."""
    place, zeros = os.fstat(descriptor).st_size, bytes(PART)
    while place < nbytes:
        place += os.pwrite(descriptor, zeros[: nbytes - place], place)
