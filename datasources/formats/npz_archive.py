"""The arrays of a .npz file as streams, several at a time."""

import errno
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from ..errors import DataError
from .npy_header import read_header
from .sections import Section
from .streams import Metered, read_exactly

CUT_OFF = (zipfile.BadZipFile, zlib.error, EOFError)
DAMAGE = (
    *CUT_OFF, struct.error, KeyError, ValueError, TypeError, OverflowError, SyntaxError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
SMALL = 64


@dataclass(frozen=True)
class NpzArchive:
    """A .npz file; tell: hears how many bytes of it were read. Its methods raise `DataError`."""

    path: Path
    tell: Callable[[int], None]

    @contextmanager
    def sections(self, *names: str) -> Iterator[list[Section]]:
        """The numbers of arrays [n], to be read side by side."""
        with ExitStack() as stack:
            with self._damage(DAMAGE):
                found = [self._section(stack, name) for name in names]
            with self._damage(CUT_OFF):
                yield found

    def shape(self) -> tuple[int, int]:
        """Rows and columns, at least one of each."""
        with self.sections("shape") as (section,), self._damage(DAMAGE):
            if section.size != 2 or section.dtype.kind not in "iu":
                raise ValueError("its shape is not two integers")
            rows, columns = section.read(2).tolist()
            if rows < 1 or columns < 1:
                raise ValueError(f"a matrix of {rows} rows and {columns} columns")
            return rows, columns

    def text(self, name: str) -> str:
        """A short text that stands alone."""
        with ExitStack() as stack, self._damage(DAMAGE):
            stream = self._open(stack, name)
            head = read_header(stream, "SU")
            if head.shape != () or head.dtype.itemsize > SMALL:
                raise ValueError(f"its {name} is no short text")
            data = read_exactly(stream, head.dtype.itemsize, name)
            word = np.frombuffer(data, head.dtype)[0]
            return word.decode() if isinstance(word, bytes) else str(word)

    def _section(self, stack: ExitStack, name: str) -> Section:
        stream = self._open(stack, name)
        head = read_header(stream)
        if len(head.shape) != 1:
            raise ValueError(f"its array {name} has the shape {head.shape}")
        return Section(stream, head.dtype, head.shape[0], name)

    def _open(self, stack: ExitStack, name: str) -> BinaryIO:
        raw = stack.enter_context(BufferedReader(Metered(self.path, self.tell), 1 << 18))
        archive = stack.enter_context(zipfile.ZipFile(cast(BinaryIO, raw)))
        return cast(BinaryIO, stack.enter_context(archive.open(f"{name}.npy")))

    @contextmanager
    def _damage(self, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
        caught: tuple[type[Exception], ...] = (*kinds, OSError)
        try:
            yield
        except DataError:
            raise
        except caught as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise  # of the operating system; EINVAL: a position that damage made up
            raise DataError(
                f"{self.path}: no sparse matrix that scipy.sparse.save_npz wrote, or damaged: "
                f"{error}"
            ) from error
