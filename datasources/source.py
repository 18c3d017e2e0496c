"""What every source of blocks offers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from .block import BlockShape, HostBlock


class DataSource(Protocol):
    """Blocks by number. Whatever has these five members is a source; nothing is inherited.

    The order of a pass is a function of the source's seed and of `pass_` alone, and any block can
    be read at any time, so a run resumes by starting at a later block. `read` is called from the
    reader's thread, one call at a time.

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

    A source with labels says so in its shape (`targets`, `weighted`), and `read` fills
    `into.targets` and `into.weights`; one that does not has none of that. `LabelledSource` names
    its targets.
    """

    @property
    def shape(self) -> BlockShape:
        """Sizes of every block, known before any is read."""

    @property
    def blocks(self) -> int:
        """Blocks of one pass."""

    @property
    def names(self) -> Sequence[str] | None:
        """Names of the columns (for text, the vocabulary), or None where nobody knows them."""

    @property
    def fingerprint(self) -> str:
        """XXH3 of the contents, in hexadecimal: equal contents, equal fingerprint."""

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` and call its `finish`.

        Must not allocate arrays; raises `DataError` naming what is wrong and where.
        """


@runtime_checkable
class LabelledSource(DataSource, Protocol):
    """A source whose targets have names."""

    @property
    def target_names(self) -> Sequence[str] | None:
        """Names of the targets, `shape.targets` of them, or None where nobody knows them."""


def target_names(source: DataSource) -> Sequence[str] | None:
    """Names of the targets of any source; None where there are none, or none are known."""
    return source.target_names if isinstance(source, LabelledSource) else None
