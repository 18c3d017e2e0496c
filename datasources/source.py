"""The protocol of a source of blocks, and of what only some sources offer.

Each optional protocol has only its own members. So a check for it never touches others, such as
`fingerprint`, which may have to read all data. Functions here ask for a member by name: checks of
protocols take a twentieth of `partial_fit`.
"""

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from blocklearn.card import card

from .arrays.block_shape import BlockShape
from .block import HostBlock
from .errors import DataError

T = TypeVar("T")
_ABSENT = object()


class DataSource(Protocol):
    """A source of blocks by number: any object with these five members.

    The order of a pass depends only on the source's seed and on `pass_`. Any block can be read at
    any time, so a run resumes by starting at a later block.

    `read` is called from the reader's thread, one call at a time, unless the source is a
    `ParallelSource` or a `KeepingSource`. Two readers of one source (training, and scoring of the
    training data meanwhile) call it from two threads. So a source that keeps a position between
    calls needs a lock.

    A source of multiples of 0.5, one row for each of ten numbers, two columns:

    >>> class Halves:
    ...     shape = BlockShape(rows=4, columns=2, nnz=4, total_rows=10)
    ...     blocks = 3
    ...     names = ["even", "odd"]
    ...     fingerprint = "00000000000000a5"
    ...     def read(self, pass_, index, into):
    ...         rows = min(4, 10 - 4 * index)
    ...         for i in range(rows):
    ...             row = into.row_ids[i] = 4 * index + i
    ...             into.indices[i], into.values[i], into.indptr[i + 1] = row % 2, row / 2, i + 1
    ...         into.finish(pass_=pass_, index=index, rows=rows)
    >>> source: DataSource = Halves()
    >>> block = HostBlock(source.shape)
    >>> source.read(0, 2, block)
    >>> block.rows, block.values[:block.nnz].tolist(), block.indptr.tolist()
    (2, [4.0, 4.5], [0, 1, 2, 2, 2])

    A source with labels sets `targets` and `weighted` in its shape, and its `read` fills
    `into.targets` and `into.weights`. `LabelledSource` adds names of the targets.
    """

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block, known before any is read."""

    @property
    def blocks(self) -> int:
        """The number of blocks of one pass."""

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the columns (for text, the vocabulary), or None if unknown."""

    @property
    def fingerprint(self) -> str:
        """The XXH3 of the contents, in hexadecimal: equal contents, equal fingerprint."""

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` and call its `finish`.

        Must not allocate arrays. Raises `DataError` that names the fault and its place.
        """


class Described:
    """Gives a source HTML for notebooks: its sizes, and the memory of a block."""

    def _repr_html_(self: DataSource) -> str:
        shape = self.shape
        stored = "dense" if shape.dense else f"sparse, at most {shape.nnz:,} entries a block"
        blocks = "block" if self.blocks == 1 else "blocks"
        facts = {
            "rows": f"{shape.total_rows:,} in {self.blocks:,} {blocks} of {shape.rows:,}",
            "columns": f"{shape.columns:,}, {stored}",
            "targets": f"{shape.targets:,}",
            "names": ", ".join([str(name) for name in (self.names or ())[:5]]) or "-",
            "memory of a block": f"{shape.nbytes:,} bytes",
        }
        return card(type(self).__name__, facts)


@runtime_checkable
class LabelledSource(Protocol):
    """A source whose targets have names."""

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, `shape.targets` of them, or None if unknown."""


def _offered(source: DataSource | None, name: str, absent: T) -> Any | T:
    """Return a member that only some sources have, or `absent`.

    Raises AttributeError if the source has it as a property, and that itself lacks an attribute.
    """
    found = getattr(source, name, _ABSENT)
    if found is not _ABSENT:
        return found
    return getattr(source, name) if hasattr(type(source), name) else absent


def target_names(source: DataSource) -> Sequence[str] | None:
    """Return the names of the targets of any source; None without targets or names."""
    return _offered(source, "target_names", None)


class RowLabels(NamedTuple):
    """The labels of some rows.

    - ids: int64 [n], numbers of the rows.
    - targets: float32 [n, targets].
    - weights: float32 [n].
    """

    ids: npt.NDArray[np.int64]
    targets: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]


def labels_of(source: DataSource) -> Iterator[RowLabels] | None:
    """Return the labels of each block of pass 0; None if features would be read with them."""
    read = _offered(source, "read_labels", None)
    return None if read is None else read()


@runtime_checkable
class TwoSidedSource(Protocol):
    """A source that has its data in both orientations."""

    def transposed(self) -> DataSource:
        """Return the data with rows and columns exchanged, in blocks of as many rows."""


@runtime_checkable
class NamedRowsSource(Protocol):
    """A source whose rows have names."""

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows, `shape.total_rows` of them, or None if unknown."""


def row_names(source: DataSource) -> Sequence[str] | None:
    """Return the names of the rows of any source; None if unknown."""
    return _offered(source, "row_names", None)


@runtime_checkable
class ParallelSource(Protocol):
    """A source whose `read` several threads may call at once, on blocks of their own."""

    @property
    def readers(self) -> int:
        """The number of threads with which it reads fastest, 1 or more."""


def readers_of(source: DataSource) -> int:
    """Return how many threads may read a source at once."""
    return _offered(source, "readers", 1)


def rows_last(source: DataSource) -> bool:
    """Return whether a row has the same number and contents in all passes: no stream's do."""
    return bool(_offered(source, "rows_last", True))


def mean_sum(source: DataSource) -> float | None:
    """Return the sum of a row's values, on average, if it is known before any row is read.

    A source has it as `mean_sum`, or makes it of `value_sums`.
    """
    known: float | None = _offered(source, "mean_sum", None)
    sums = _offered(source, "value_sums", None)
    if known is not None or sums is None:
        return known
    return float(sums()[0]) / max(source.shape.total_rows, 1)


def notes_of(source: DataSource | None) -> Sequence[str]:
    """Return the `notes` of a source, if any: lines about its own choices."""
    return _offered(source, "notes", ())


@runtime_checkable
class KeepingSource(Protocol):
    """A source that keeps some blocks at hand, whose reading is not worth a thread.

    The training thread reads these itself, while another thread may be reading other blocks.
    """

    def kept(self, pass_: int, index: int) -> bool:
        """Whether block `index` of pass `pass_` is at hand; it then stays at hand."""


@runtime_checkable
class QuickSource(Protocol):
    """A source whose blocks may take less time to read than a thread takes to wake up."""

    @property
    def quick(self) -> bool:
        """Whether the training thread reads blocks itself, if they need no transposed index."""


@runtime_checkable
class DealingSource(Protocol):
    """A source whose order can keep parts of the rows apart."""

    def dealt(self, parts: int) -> Self:
        """Return a source of the same rows, see `dealt`."""


def dealt(source: DataSource, parts: int) -> DataSource:
    """Return a source of the same rows whose order keeps parts of them apart.

    Block j of the rows in order is of the part j mod parts. Block i of every pass has only rows of
    the part i mod parts. A source without `dealt` must have its rows in order in every pass.
    """
    return source.dealt(parts) if parts > 1 and isinstance(source, DealingSource) else source


def first_rows(source: DataSource) -> npt.NDArray[np.int64]:
    """Return the first row of each block of the rows in order, and the number of rows.

    A source whose blocks have unequal rows, besides the last one, has a property `first_rows`.
    """
    uneven: npt.NDArray[np.int64] | None = _offered(source, "first_rows", None)
    if uneven is not None:
        return uneven
    shape = source.shape
    return np.minimum(np.arange(source.blocks + 1) * shape.rows, shape.total_rows)


def each_block(source: DataSource, start: int = 0) -> Iterator[HostBlock]:
    """Yield the blocks of pass 0 from `start` on, each in the same memory, without their index."""
    block = HostBlock(source.shape, indexed=False)
    for index in range(start, source.blocks):
        source.read(0, index, block)
        yield block


def check_source(source: DataSource) -> None:
    """Raise DataError for an object that is no source, or whose sizes contradict each other."""
    if isinstance(source, type):
        name = source.__name__
        raise DataError(f"{name}: is a class; must be a source. Write {name}(...).")
    name, shape, blocks = type(source).__name__, source.shape, source.blocks
    if not isinstance(shape, BlockShape):
        raise DataError(
            f"{name}.shape is a {type(shape).__name__}; must be a "
            "blocklearn.datasources.BlockShape(rows=..., columns=..., nnz=..., total_rows=...)."
        )
    if not isinstance(blocks, Integral):
        raise DataError(
            f"{name}.blocks is a {type(blocks).__name__}; must be a whole number. Before a method, "
            "write @property."
        )
    if blocks * shape.rows < shape.total_rows:
        raise DataError(
            f"{name}: blocks={blocks:,} of shape.rows={shape.rows:,} rows: must hold all of "
            f"shape.total_rows={shape.total_rows:,}. Correct the number that is wrong: so many "
            f"rows make {-(-shape.total_rows // shape.rows):,} blocks."
        )


def check_request(source: DataSource, pass_: int, index: int, room: BlockShape) -> None:
    """Raise `DataError` unless the block exists in `source` and fits in a block of shape `room`.

    >>> import numpy as np
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(np.eye(2), block_rows=1)
    >>> check_request(source, 0, 2, source.shape)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    blocklearn.datasources.errors.DataError: MatrixSource: block 2 of pass 0, but blocks are 0...
    """
    name, shape = type(source).__name__, source.shape
    if room is not shape and not room.has_room_for(shape):
        raise DataError(f"{name}: a block of {room} cannot hold {shape}.")
    if pass_ < 0 or not 0 <= index < source.blocks:
        raise DataError(
            f"{name}: block {index} of pass {pass_}, but blocks are 0 to {source.blocks - 1} and "
            "passes start at 0."
        )
