"""The rows of each block: a function of (seed, pass, index), and of the parts kept apart."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from ..arrays.copy_rows import count_up
from ..errors import DataError
from .pass_orders import PassOrders

Shuffle = bool | Literal["blocks"]
"""Whether rows change places from pass to pass, or their blocks only."""
DEAL = 2**64 - 1  # the number of no real pass: keys the dealing of rows to blocks


class RowOrder:
    """The rows 0..rows-1 in blocks of `block_rows`, for every pass.

    - shuffle: False: the rows in order. True: a new permutation of all rows in each pass.
      "blocks": rows are dealt to blocks once, at random, and each pass visits these blocks in a
      new order.

    With False and "blocks", a block has the same rows in every pass (`fixed`), so results for a
    block can be kept. With "blocks", the short block is not always the last of a pass. Dealt rows
    are in random order within their block, too. Neighbouring rows are seldom independent, so steps
    row by row would learn less from ascending rows.

    parts: keep rows apart, see `deal`: block i of every pass has only rows of the part i mod parts.

    Raises `DataError` for impossible settings.

    >>> order, ids = RowOrder(5, 2, "blocks", 0), np.empty(2, np.int64)
    >>> for pass_ in range(2):
    ...     print([ids[: order.rows_of(pass_, i, ids)].tolist() for i in range(order.blocks)])
    [[0, 3], [2], [1, 4]]
    [[1, 4], [0, 3], [2]]
    """

    def __init__(
        self, rows: int, block_rows: int, shuffle: Shuffle, seed: int, parts: int = 1
    ) -> None:
        """Check the settings; deal the rows if shuffle is "blocks"."""
        if not 1 <= block_rows < 2**31:
            raise DataError(f"MatrixSource: block_rows={block_rows}: must be 1 to 2**31 - 1.")
        if not 0 <= seed < 2**64:
            raise DataError(f"MatrixSource: seed={seed}: must be 0 to 2**64 - 1.")
        if shuffle not in (True, False, "blocks"):
            raise DataError(f'MatrixSource: shuffle={shuffle!r}: must be True, False or "blocks".')
        self.rows, self.block_rows, self.shuffle, self.seed = rows, block_rows, shuffle, seed
        self.blocks, self.parts = -(-rows // block_rows), parts
        self.fixed = shuffle is not True
        items = self.blocks if shuffle == "blocks" else rows if shuffle else 0
        size = 1 if self.fixed else block_rows
        self._orders = PassOrders(items, partial(permute, seed, size, parts))  # of rows or blocks
        self._dealt = np.empty(0, np.int64)
        if shuffle == "blocks":
            self._dealt = np.empty(rows, np.int64)
            shuffle_rows(seed, DEAL, self._dealt)
            deal(self._dealt, block_rows, parts)

    def dealt(self, parts: int) -> RowOrder:
        """Return the order of the same rows that keeps so many parts apart."""
        return RowOrder(self.rows, self.block_rows, self.shuffle, self.seed, parts)

    def number(self, pass_: int, index: int) -> int:
        """Return the number of the block at position `index` of the pass.

        If the order is `fixed`, a block of one number has the same rows in every pass.
        """
        if self.shuffle != "blocks":
            return index
        with self._orders.lock:
            return self._orders.of(pass_).item(index)

    def rows_of(self, pass_: int, index: int, into: npt.NDArray[np.int64]) -> int:
        """Fill `into` [block_rows] with the rows of a block; return their count."""
        start = self.number(pass_, index) * self.block_rows
        ids = into[: min(self.block_rows, self.rows - start)]
        if self.shuffle is False:
            count_up(start, ids)
        elif self.shuffle == "blocks":
            ids[:] = self._dealt[start : start + ids.size]
        else:
            with self._orders.lock:
                ids[:] = self._orders.of(pass_)[start : start + ids.size]
            if pass_ > 0 and index >= self.blocks // 2:  # one pass alone needs no other order
                self._orders.expect(pass_ + 1)
        return ids.size

    def largest(self, lengths: npt.NDArray[np.int64]) -> int:
        """Return the most non-zeros of a block in any pass; row i has `lengths[i]`.

        The result is at least 1, so that no buffer is empty.

        >>> lengths = np.array([5, 1, 3])
        >>> [RowOrder(3, 2, shuffle, 0).largest(lengths) for shuffle in (False, True, "blocks")]
        [6, 8, 6]
        """
        if self.shuffle is True:
            if self.block_rows < self.rows:
                lengths = np.partition(lengths, self.rows - self.block_rows)[-self.block_rows :]
            return max(1, int(lengths.sum()))
        if self.shuffle == "blocks":
            lengths = lengths[self._dealt]
        return max(1, int(np.add.reduceat(lengths, range(0, self.rows, self.block_rows)).max()))


def permute(seed: int, size: int, parts: int, pass_: int, into: npt.NDArray[np.int64]) -> None:
    """Fill `into` with the order of a pass, of rows or of blocks: see `deal`."""
    shuffle_rows(seed, pass_, into)
    deal(into, size, parts)


def shuffle_rows(seed: int, pass_: int, into: npt.NDArray[np.int64]) -> None:
    """Fill `into` [n] with a permutation from Philox keyed by `(seed, pass_)`.

    >>> order = np.empty(5, np.int64)
    >>> shuffle_rows(0, 1, order)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4]
    """
    count_up(0, into)
    key: Any = Key([seed, pass_])  # NumPy takes any `ISeedSequence`, its types do not
    philox = np.random.Philox(key, counter=np.zeros(4, np.uint64))
    np.random.Generator(philox).shuffle(into)


class Key(ISeedSequence):
    """Gives Philox its key. Of `Philox(key=key)` a seed that is not used takes nearly all time."""

    def __init__(self, key: list[int]) -> None:
        """key: two numbers of 64 bits."""
        self._key = np.array(key, np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> npt.NDArray[Any]:
        """Return the key."""
        return self._key


def deal(order: npt.NDArray[np.int64], size: int, parts: int) -> None:
    """Move the items of a permutation to places of their own part, in the order that they have.

    Item k, and place k, are of the part (k // size) mod parts: of every parts-th block of `size`.

    >>> order = np.array([4, 1, 3, 0, 2])
    >>> deal(order, 1, 2)
    >>> order.tolist()
    [4, 1, 0, 3, 2]
    """
    if parts == 1:
        return
    places = np.arange(order.size) // size % parts
    items = order // size % parts
    order[np.argsort(places, kind="stable")] = order[np.argsort(items, kind="stable")]
