"""Predict for the rows of a source, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataSource, HostBlock

from ..engines.crew import bounds
from .replicas.replica import Replica
from .teams.reading import reader_of
from .teams.team import Team

Predicted = tuple[NDArray[np.int64], NDArray[Any]]
"""The numbers of some rows [r], and their results [r x k]."""


def predicted(
    team: Team, source: DataSource, side: int, part: tuple[int, int]
) -> Iterator[Predicted]:
    """Yield the results of each block: see `Learner.predictions`."""
    team.make_ready(source.shape, side)

    def predict(replica: Replica, host: HostBlock) -> Predicted:
        rows = replica.prediction_of(host, side)
        return host.row_ids[: host.rows].copy(), rows[: host.rows]

    number, parts = part
    start, stop = bounds(source.blocks, parts)[number : number + 2]
    with reader_of(team, source, "predict", side) as reader, team.exact():
        yield from team.in_turn(reader.blocks(0, start, stop=stop), predict)


def whole(rows: int, found: Iterable[Predicted]) -> NDArray[Any]:
    """Return the results of all `rows` rows, by their numbers."""
    result: NDArray[Any] | None = None
    for ids, values in found:
        if result is None:
            result = np.empty((rows, values.shape[1]), values.dtype)
        result[ids] = values
    assert result is not None  # a source has at least one row
    return result
