"""The base class of models of graphs."""

from __future__ import annotations

from typing import ClassVar

from blocklearn.matcache import Column, maximum

from .base import Model
from .block_size import BlockSize
from .errors import ModelConfigError
from .inputs import Block, Shapes


class LinkModel(Model):
    """Learns from links between pages: X is square, and a row is the page of its own number."""

    scores_new_rows: ClassVar[bool] = True
    steps_by_pass: ClassVar[bool] = True
    block_size: ClassVar[BlockSize] = BlockSize(1, most=2**20)  # it changes no result

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
