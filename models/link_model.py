"""The base class of models of graphs."""

from __future__ import annotations

from typing import ClassVar

from blocklearn.matcache import Column, maximum

from .base import Model, rows_for
from .errors import ModelConfigError
from .inputs import Block, Shapes

LARGEST = 2**20  # rows of a block


class LinkModel(Model):
    """Learns from links between pages: X is square, and a row is the page of its own number."""

    scores_new_rows: ClassVar[bool] = True
    steps_by_pass: ClassVar[bool] = True

    def rows_of_block(self, rows: int | None) -> int:
        """Return all rows, or large blocks: each costs time, and their size changes no result."""
        return LARGEST if rows is None else rows_for(1, rows, largest=LARGEST)

    def number_of_pages(self, shapes: Shapes) -> int:
        """Return the number of pages. Raises ModelConfigError if there are more rows than that."""
        if shapes.total_rows > shapes.columns:
            raise ModelConfigError(
                f"{type(self).__name__}: data of {shapes.total_rows} rows and {shapes.columns} "
                "columns: rows and columns must be the same pages. Pass a square matrix of links."
            )
        return shapes.columns

    def pages(self, block: Block) -> Column:
        """Return the number of each row's page; rows of padding, which have no links, take 0."""
        return maximum(block.row_ids, 0.0)
