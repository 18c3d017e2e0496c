"""Rows without targets and weights."""

from collections.abc import Iterator
from dataclasses import replace

from .rows import FIRST, Layout, Place, RowFile, Rows


class Unlabelled:
    """The rows of a file, for who only wants to know what a model makes of them."""

    def __init__(self, file: RowFile) -> None:
        """file: with labels or without."""
        self._file = file
        self._layout = replace(file.layout, targets=0, target_names=None, weighted=False)

    @property
    def layout(self) -> Layout:
        """That of the file, but for the labels."""
        return self._layout

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """All rows from `start` on."""
        for rows in self._file.chunks(start):
            yield replace(rows, targets=None, weights=None)
