"""Read NumPy's .npy files: tables of numbers, with rows as the first dimension."""

from collections.abc import Iterator, Sequence
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..packed.streams import Metered, read_exactly
from ..parsing.layout import FIRST, Known, Layout, Place, Rows, check_columns, check_finite
from ..parsing.npy_header import Header, read_header
from ..parsing.scratch import Scratch
from ..parsing.sections import CHUNK_NUMBERS


class NpyFile:
    """Reads the rows of a .npy file with real numbers [rows, columns] or [rows].

    Both memory orders work. Raises `DataError` for any other file.
    """

    def __init__(self, paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> None:
        """Read the header."""
        if len(paths) > 1:
            raise DataError(f"{paths[1]}: an .npy file is a whole matrix; convert each by itself.")
        self._path, self._scratch = paths[0], scratch
        with self._path.open("rb") as file:
            try:
                head = read_header(file)
            except (ValueError, EOFError) as error:
                raise DataError(f"{self._path}: not an array of numbers: {error}") from error
            self._begin = file.tell()
        if len(head.shape) not in (1, 2) or 0 in head.shape:
            raise DataError(
                f"{self._path}: an array of shape {head.shape}: must have at least one row and "
                "one column, and no third dimension."
            )
        size = self._begin + prod(head.shape) * head.dtype.itemsize
        found = self._path.stat().st_size
        if found != size:
            raise DataError(
                f"{self._path}: {found:,} bytes, but an array of shape {head.shape} has {size:,}: "
                "cut off or damaged."
            )
        self._head = Header((head.shape[0], prod(head.shape[1:])), head.dtype, head.fortran)
        columns = check_columns(self._path, self._head.shape[1], known)
        names = None if known is None else known.names
        self.layout = Layout(columns, dense=True, names=names)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        rows, columns = self._head.shape
        step = max(1, CHUNK_NUMBERS // columns)
        with BufferedReader(Metered(self._path, self._scratch.tell), 1 << 18) as stream:
            for first in range(start.offset, rows, step):
                count = min(step, rows - first)
                try:
                    table = self._read(cast(BinaryIO, stream), first, count)
                except EOFError as error:
                    raise DataError(f"{self._path}: cut off: {error}") from error
                X = check_finite(table, str(self._path), first)
                yield Rows(X, Place(0, first + count, 0))

    def _read(self, stream: BinaryIO, first: int, count: int) -> npt.NDArray[Any]:
        (rows, columns), dtype = self._head.shape, self._head.dtype
        if not self._head.fortran:
            stream.seek(self._begin + first * columns * dtype.itemsize)
            data = read_exactly(stream, count * columns * dtype.itemsize, "the array")
            return np.frombuffer(data, dtype).reshape(count, columns)
        table = np.empty((count, columns), dtype)
        for column in range(columns):
            stream.seek(self._begin + (column * rows + first) * dtype.itemsize)
            data = read_exactly(stream, count * dtype.itemsize, f"column {column}")
            table[:, column] = np.frombuffer(data, dtype)
        return table
