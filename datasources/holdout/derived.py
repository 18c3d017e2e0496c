"""The bases of sources that are made from another source."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from queue import SimpleQueue
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.block_shape import BlockShape
from ..block import HostBlock
from ..errors import DataError
from ..source import (
    DataSource,
    Described,
    dealt,
    first_rows,
    notes_of,
    readers_of,
    row_names,
)


class MadeSource(Described):
    """A source that is made from another, and has its names and notes.

    - shape: of its own blocks.
    - settings: what they depend on, besides the contents of the other source.
    """

    def __init__(self, source: DataSource, shape: BlockShape, settings: str) -> None:
        """Keep what it is made from."""
        self._source, self._shape, self._settings = source, shape, settings

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block."""
        return self._shape

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the columns, or None."""
        return self._source.names

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows, or None."""
        return row_names(self._source)

    @property
    def notes(self) -> Sequence[str]:
        """The notes of the source."""
        return notes_of(self._source)

    @cached_property
    def fingerprint(self) -> str:
        """The XXH3 of the source's fingerprint and of the settings."""
        return xxhash.xxh3_64_hexdigest(f"{self._source.fingerprint} {self._settings}".encode())


class DerivedSource(MadeSource):
    """A source whose block i is made from block i of another, in every pass; nothing is kept.

    - shape, settings: see `MadeSource`.
    - scratch: an array of this shape and dtype that `_make` may use.
    """

    def __init__(
        self,
        source: DataSource,
        shape: BlockShape,
        settings: str,
        scratch: tuple[int | tuple[int, ...], npt.DTypeLike] = (0, np.int8),
    ) -> None:
        """Make room for as many whole blocks as threads may read at a time."""
        super().__init__(source, shape, settings)
        self.readers: int = readers_of(source)
        self._scratch = scratch
        self._make_rooms()

    def _make_rooms(self) -> None:
        self._rooms: SimpleQueue[tuple[HostBlock, npt.NDArray[Any]]] = SimpleQueue()
        for _ in range(self.readers):
            whole = HostBlock(self._source.shape, indexed=False)  # what is made has an index
            self._rooms.put((whole, np.empty(*self._scratch)))

    def dealt(self, parts: int) -> Self:
        """Return what is made from a source that keeps parts of its rows apart: see `dealt`."""
        source, before = dealt(self._source, parts), self._source.shape
        as_large = self._shape.nnz == before.nnz  # has room for all non-zeros of the source's block
        if source.shape != (replace(before, nnz=source.shape.nnz) if as_large else before):
            raise DataError(
                f"{self._source}: must have blocks of the same size for {parts} replicas, because "
                f"a {type(self).__name__} reads them. Pass shuffle=True."
            )
        other = copy(self)
        other._source = source
        if as_large:
            other._shape = replace(self._shape, nnz=source.shape.nnz)
        other._make_rooms()
        return other

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each block of the rows in order, and the number of rows."""
        return first_rows(self._source)

    @abstractmethod
    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        """Fill `into` from a block of the other source; return its number of rows."""

    @property
    def blocks(self) -> int:
        """The number of blocks, as of the source."""
        return self._source.blocks

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_`."""
        room = whole, scratch = self._rooms.get()
        try:
            self._source.read(pass_, index, whole)
            rows = self._make(pass_, whole, scratch, into)
        finally:
            self._rooms.put(room)
        into.finish(pass_=pass_, index=index, rows=rows)
