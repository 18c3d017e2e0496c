"""Parameters of a saved model that are used where they lie: in its file, mapped into memory.

Nothing is copied, so the model may be larger than memory. If it is, predictions read only the pages
of rows that occur in their blocks, and ask for them ahead of use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from blocklearn.datasources import HostBlock

from ..memory import memory_limits
from .lost_pages import Watched
from .paging import PagedArray, fetch_rows, file_of, map_of
from .stripes import one_file

REMEDY = "load a copy of the model from another disk"


class LentTables:
    """Arrays by name, that lie in files mapped into memory.

    watched: finds their lost pages.
    paged: tables with a row for each column of the data, longest rows first. Empty if the memory
        that is left can hold all arrays.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], columns: int) -> None:
        """Note those of the arrays that are mapped, and writable. columns: of the data."""
        self.arrays = {
            name: array
            for name, array in arrays.items()
            if array.size and array.flags.writeable and map_of(array) is not None
        }
        files = {file_of(array): array for array in self.arrays.values()}
        self.watched = [
            Watched(array, one_file(file), REMEDY) for file, array in files.items() if file
        ]
        nbytes = sum(array.nbytes for array in self.arrays.values())
        large = nbytes > 0 and nbytes > min(memory_limits().values(), default=nbytes)
        tables = [array for array in self.arrays.values() if len(array) == columns and large]
        tables.sort(key=lambda array: -array.nbytes)
        self.paged = [PagedArray(array) for array in tables]

    def fetch(self, block: HostBlock) -> None:
        """Ask for the rows of the tables that a sparse block reads."""
        fetch_rows(self.paged, block.indices[: block.nnz])
