"""A table in several files, one on each disk: its pages in turn, so that all disks share the work.

Bytes 0 to `part` - 1 lie in the first file, the next `part` bytes in the second one, and so on
around. In memory the files are mapped side by side, in this order: the table is one array.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .paging import PAGE, address_of

PARTS = 256  # of each file, at most: a system has room for some 65,000 maps
FIXED = 0x10  # of mmap, on all systems: at this address
NORESERVE = 0x4000  # of mmap on Linux: room that is larger than memory
FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True)
class Stripes:
    """Where the bytes of an array lie. files: in turn. part: bytes, whole pages."""

    files: Sequence[Path]
    part: int

    def at(self, byte: int) -> tuple[Path, int]:
        """Return the file of a byte of the array, and the byte's number in that file.

        >>> Stripes([Path("a"), Path("b")], 10).at(27)
        (PosixPath('a'), 17)
        """
        turn, rest = divmod(byte, self.part)
        round_, file = divmod(turn, len(self.files))
        return self.files[file], round_ * self.part + rest


def one_file(file: Path) -> Stripes:
    """Return the place of an array that is alone in a file."""
    return Stripes([file], 2**62)


def part_of(nbytes: int, files: int) -> int:
    """Return the bytes of a part, for an array of so many bytes in so many files."""
    return PAGE * max(1, -(-nbytes // (PAGE * PARTS * files)))


def shares(nbytes: int, files: int) -> list[int]:
    """Return the bytes that each file has of an array.

    >>> shares(5 * PAGE + 1, 2) == [3 * PAGE, 2 * PAGE + 1]
    True
    """
    part = part_of(nbytes, files)
    rounds, rest = divmod(nbytes, part * files)
    return [rounds * part + min(max(rest - i * part, 0), part) for i in range(files)]


def striped_array(stripes: Stripes, dtype: DTypeLike, shape: Sequence[int]) -> NDArray[Any]:
    """Map files, which have the bytes of `shares`, as one array; empty files are left out.

    Raises OSError if a file cannot be opened or mapped.
    """
    if len(stripes.files) == 1:
        return np.memmap(stripes.files[0], dtype, "r+", shape=tuple(shape)).view(np.ndarray)
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | (NORESERVE if sys.platform == "linux" else 0)
    whole = mmap.mmap(-1, nbytes, flags=flags)  # room, which the files are put into
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    begin, access = address_of(whole), mmap.PROT_READ | mmap.PROT_WRITE
    descriptors = [os.open(file, os.O_RDWR | os.O_CLOEXEC) for file in stripes.files]
    try:
        for start in range(0, nbytes, stripes.part):
            file, offset = stripes.at(start)
            found = library.mmap(
                ctypes.c_void_p(begin + start),
                ctypes.c_size_t(min(stripes.part, nbytes - start)),
                access,
                mmap.MAP_SHARED | FIXED,
                descriptors[list(stripes.files).index(file)],
                ctypes.c_long(offset),
            )
            if found == FAILED:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(file))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return np.ndarray(tuple(shape), dtype, buffer=whole)
