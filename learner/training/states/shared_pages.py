"""Send rows of tables that lie apart from a state of the leader to the other workers, in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines.crew import Crew
from ..replicas.paged_tables import Pages


def send_pages(pages: Pages, crew: Crew) -> None:
    """Send all parts, while the other workers read `ComingPages`. Called by the leader."""
    for columns, tables in pages.parts():
        crew.told([len(columns), {name: rows.dtype.str for name, rows in tables.items()}])
        for array in (columns, *tables.values()):
            crew.spread(np.ascontiguousarray(array))
    crew.told([0, {}])


@dataclass(frozen=True)
class ComingPages:
    """The `Pages` that the leader sends. They are read once, at the same time by all others."""

    crew: Crew
    shapes: Mapping[str, tuple[int, ...]]

    @staticmethod
    def of(shapes: Mapping[str, Sequence[int]], crew: Crew) -> ComingPages:
        """Expect parts of tables of these shapes, which were values for JSON."""
        return ComingPages(crew, {name: tuple(shape) for name, shape in shapes.items()})

    def parts(self) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]]:
        """Receive columns of the data, and their rows of each table: see `Pages`."""
        while True:
            count, dtypes = self.crew.told()
            if not dtypes:
                return
            columns = np.empty(count, np.int64)
            tables = {
                name: np.empty((count, *self.shapes[name][1:]), dtype)
                for name, dtype in dtypes.items()
            }
            for array in (columns, *tables.values()):
                self.crew.spread(array)
            yield columns, tables
