"""Read whole arrays and matrices of NumPy, SciPy and Matrix Market files."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from scipy import sparse

from ..errors import DataError
from .market_files import load_market
from .npy_header import read_header

KINDS = "biufcSUMmV"  # kinds of dtypes: all but Python objects
INFLATED = 1100  # bytes that one byte of a zip archive can inflate to, at most


@contextmanager
def read_as(path: Path, what: str) -> Iterator[None]:
    """Turn errors of NumPy and SciPy about a file into a `DataError` that names it.

    Damaged files raise many types: `zlib.error`, `TokenError`, `AttributeError`.
    """
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{path}: cannot be read as {what}: {error}") from error


def load_file(path: Path, what: str) -> Any:
    """Read the array in a .npy file, or the matrix in a .npz or .mtx file.

    `READERS` has the supported ends of names.

    Raises:
        DataError: the file is missing or damaged, or differs from its header.
    """
    with read_as(path, what):
        return READERS[path.suffix](path)


def load_npy(path: Path) -> Any:
    """Read the array in a .npy file.

    Raises `ValueError`, before it allocates memory, if the file is shorter than its header says.
    """
    with path.open("rb") as file:
        check_size(file, file.seek(0, 2))
        return np.load(file, allow_pickle=False)


def load_npz(path: Path) -> Any:
    """Read the matrix that `scipy.sparse.save_npz` wrote.

    Raises as `check_archive` does.
    """
    with path.open("rb") as file:
        check_archive(file)
        return sparse.load_npz(file)


READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": load_npy,
    ".npz": load_npz,
    ".mtx": load_market,
}


def check_archive(file: BinaryIO) -> None:
    """Check the header of every array in an archive, then rewind the file.

    Raises:
        ValueError: an array is larger than its bytes in the archive.
    """
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.file_size > INFLATED * size:
                raise ValueError(f"{member.filename} announces {member.file_size:,} bytes")
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    check_size(stream, member.file_size)
    file.seek(0)


def check_size(file: IO[bytes], size: int) -> None:
    """Compare an array's header with the bytes in its file, then rewind it.

    Raises `ValueError` if they differ.
    """
    file.seek(0)
    head = read_header(file, KINDS)
    needed, left = math.prod(head.shape) * head.dtype.itemsize, size - file.tell()
    if needed > left:
        raise ValueError(f"its header announces {needed:,} bytes of numbers, but {left:,} follow")
    file.seek(0)
