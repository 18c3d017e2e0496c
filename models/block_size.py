"""How many rows a block has where `block_rows: auto` leaves it to the model."""

from __future__ import annotations

from typing import NamedTuple


class BlockSize(NamedTuple):
    """What `block_rows: auto` aims at: `steps` equal blocks a pass, of `least` to `most` rows.

    It depends on nothing but the data and the model, so results can be repeated on any machine.
    `scripts/bench block-rows` compares sizes.

    >>> BlockSize().of(10_000), BlockSize().of(100), BlockSize().of(10**6)
    (200, 25, 1024)
    """

    steps: int = 50
    least: int = 32
    most: int = 1024

    def of(self, rows: int | None) -> int:
        """Return the rows of a block.

        rows: of the training data; None: they are not in memory.
        """
        if rows is None:
            return self.most
        wanted = min(max(rows // self.steps, self.least), self.most)
        return -(-rows // -(-rows // wanted)) if rows else wanted
