"""Where rows of tables lie, if not in the order of their numbers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .row_loops import Ids


class Places(Protocol):
    """Where rows of tables lie, if not in the order of their numbers; see `PlacedTables`."""

    def places_of(self, columns: Ids) -> Ids:
        """Return the places of these rows. Any thread may ask."""

    def changing(self, rows: Ids) -> AbstractContextManager[None]:
        """Change the rows in these places in a `with` statement, in the thread that trains."""


class Scratch(Places, Protocol):
    """Places in which rows lie only until the next merge: what they have is lost then."""

    @property
    def placed(self) -> Ids:
        """The columns that have places."""

    def begin_anew(self) -> None:
        """Take all places away."""

    def complete(self) -> None:
        """Note that all rows have places that differ from their first values."""

    def first_rows(self, columns: Ids) -> NDArray[np.float32]:
        """Return the first values of these rows, of all tables, side by side."""
