"""Arrays and matrices in files of NumPy, SciPy and Matrix Market, read whole into memory."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from ..errors import DataError
from .market_files import load_market
from .npy import read_header

KINDS = "biufcSUMmV"  # of dtypes: all but Python objects
INFLATED = 1100  # bytes that a byte of a zip archive can become, at most


@contextmanager
def read_as(path: Path, what: str) -> Iterator[None]:
    """Turns what NumPy and SciPy raise over a file into a `DataError` that names it.

    They raise whatever the damage leads to: `zlib.error`, `TokenError`, `AttributeError`.
    """
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{path}: cannot be read as {what}: {error}") from error


def load_file(path: Path, what: str) -> Any:
    """Returns the array in a .npy file, or the matrix in a .npz or .mtx file; `READERS` has the
    ends of names.

    Raises:
        DataError: the file is missing, damaged, or does not hold what it announces.
    """
    with read_as(path, what):
        return READERS[path.suffix](path)


def load_npy(path: Path) -> Any:
    """Returns the array in a .npy file. Raises `ValueError` where the file is shorter than its
    header says, before memory is taken.
    """
    with path.open("rb") as file:
        check_size(file, file.seek(0, 2))
        return np.load(file, allow_pickle=False)


def load_npz(path: Path) -> Any:
    """Returns the matrix that `scipy.sparse.save_npz` wrote. Raises as `check_archive` does."""
    with path.open("rb") as file:
        check_archive(file)
        return sparse.load_npz(file)


READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": load_npy,
    ".npz": load_npz,
    ".mtx": load_market,
}


def check_archive(file: BinaryIO) -> None:
    """Looks at the header of every array in an archive; the file is at its beginning then.

    Raises:
        ValueError: an array is larger than what is there of it.
    """
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.file_size > INFLATED * size:
                raise ValueError(f"{member.filename} announces {member.file_size:,} bytes")
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    check_size(stream, member.file_size)  # type: ignore[arg-type]
    file.seek(0)


def check_size(file: BinaryIO, size: int) -> None:
    """Compares the header of an array with the bytes of its file; the file is at its beginning
    then. Raises `ValueError`.
    """
    file.seek(0)
    head = read_header(file, KINDS)
    needed, left = math.prod(head.shape) * head.dtype.itemsize, size - file.tell()
    if needed > left:
        raise ValueError(f"its header announces {needed:,} bytes of numbers, but {left:,} follow")
    file.seek(0)
