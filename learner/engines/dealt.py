"""Numbers of rows, dealt to the workers that own them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import row_loops
from .row_loops import Bounds, Ids


class Dealt(NamedTuple):
    """Numbers of rows, ascending, and by owner.

    ids: ascending. by_owner: those of one owner after the other. places: of each of ids there.
    bounds: [workers + 1], of the owners.
    """

    ids: Ids
    by_owner: Ids
    places: Ids
    bounds: Bounds

    @staticmethod
    def to(workers: int, ids: Ids) -> Dealt:
        """Deal ascending numbers of rows to their owners."""
        bounds = np.empty(workers + 1, np.int64)
        found = Dealt(ids, np.empty_like(ids), np.empty_like(ids), bounds)
        row_loops.deal(ids, workers, bounds, found.by_owner, found.places)
        return found


def bounds_of(counts: Sequence[int] | Bounds) -> Bounds:
    """Return where parts of so many items begin, and the end."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def split(array: NDArray[Any], bounds: Bounds) -> list[NDArray[Any]]:
    """Return the parts of an array."""
    return [array[a:b] for a, b in pairwise(bounds.tolist())]
