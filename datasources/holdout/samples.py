"""Rows in memory with their names and labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..memory.matrix import KEEP_BYTES, MatrixSource
from ..memory.order import Shuffle
from ..source import DataSource
from .split import split_by_contents, split_rows

Sizing = Callable[[int | None], int]
"""Rows of the data -> rows of a block. None: the data are not in memory."""


@dataclass(frozen=True)
class Reading:
    """How to read a source: rows of a block, their order, and the number of passes.

    - block_rows: rows of a block, or a function that chooses them by the size of the data.
    - shuffle, seed: as for `MatrixSource`.
    - visits: passes over the source that the run will make. If 1, no block is worth keeping.
    - counts: whether a file of counts may have no negative number; False for models that take
      others, too.
    """

    block_rows: int | Sizing = 1024
    shuffle: Shuffle = False
    seed: int = 0
    visits: int = 1
    counts: bool = True

    @property
    def keep_bytes(self) -> int:
        """The bytes of blocks that a source may keep for later passes."""
        return KEEP_BYTES if self.visits > 1 else 0

    def rows_of_block(self, rows: int | None = None) -> int:
        """Return the rows of a block of data with so many rows; None: they are not in memory."""
        return self.block_rows if isinstance(self.block_rows, int) else self.block_rows(rows)

    def like(self, source: DataSource) -> Self:
        """Return the same with the block size of `source`."""
        return replace(self, block_rows=source.shape.rows)


@dataclass(frozen=True)
class Samples:
    """The arguments of a `MatrixSource`, which describes them.

    - X: [rows, columns].
    - targets: [rows, T].
    - weights: [rows].
    - names, target_names, row_names: names of the columns, targets and rows.

    >>> train, held = Samples(np.eye(20), weights=np.arange(20.0)).split(0.2, seed=1)
    >>> train.X.shape, held.weights.tolist()
    ((17, 20), [7.0, 14.0, 16.0])
    """

    X: Any
    names: Sequence[str] | None = None
    targets: Any = None
    target_names: Sequence[str] | None = None
    weights: Any = None
    row_names: Sequence[str] | None = None

    def rows(self, ids: npt.NDArray[np.int64]) -> Self:
        """Return the rows `ids`, in that order."""
        targets = None if self.targets is None else self.targets[ids]
        weights = None if self.weights is None else self.weights[ids]
        names = None if self.row_names is None else [self.row_names[i] for i in ids]
        return replace(self, X=self.X[ids], targets=targets, weights=weights, row_names=names)

    def split(self, share: float, seed: int, *, contents: bool = False) -> tuple[Self, Self]:
        """Return the rows to train on and the rows held out.

        contents: split by `split_by_contents` instead of `split_rows`. Raises `DataError` if a part
        is empty.
        """
        rows = self.X.shape[0]
        if contents:
            bits = split_by_contents(MatrixSource(self.X, keep_bytes=0), share, seed)
            is_held = np.unpackbits(bits, count=rows, bitorder="little").astype(bool)
            train, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
        else:
            train, held = split_rows(rows, share, seed)
        check_parts(share, train.size, held.size)
        return self.rows(train), self.rows(held)

    def source(self, reading: Reading) -> MatrixSource:
        """Return the rows as blocks."""
        return MatrixSource(
            self.X,
            targets=self.targets,
            weights=self.weights,
            block_rows=reading.rows_of_block(self.X.shape[0]),
            shuffle=reading.shuffle,
            seed=reading.seed,
            names=self.names,
            row_names=self.row_names,
            target_names=self.target_names,
            keep_bytes=reading.keep_bytes,
        )


def check_parts(share: float, train: int, held: int, what: str = "rows") -> None:
    """Raise `DataError` unless both parts have rows."""
    if not train or not held:
        raise DataError(
            f"holdout: share={share} of {train + held} {what} leaves {train} to train on and "
            f"{held} to evaluate: both must have at least one. Choose a "
            f"{'smaller' if held else 'larger'} share (in a configuration `data.eval.share`), or "
            "hold out none (`data.eval: null`)."
        )
