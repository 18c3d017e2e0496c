"""Predict rows in memory in the calling thread, without a source and a reader.

A source and a reader take as long as the prediction of several hundred rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataError, HostBlock
from blocklearn.datasources.arrays.copy_rows import count_up

from .model_in_use import ModelInUse
from .replicas.replica import Replica
from .teams.team import Team

MOST_BYTES = 2**26  # of the block, which stays in memory


def rows_at_hand(learner: ModelInUse, X: Any, side: int) -> RowsAtHand | None:
    """Return what predicts rows such as those of X, as `learner.predict` has done for X.

    None: the model reads other rows than those of X, or there are several replicas, tables in
    files, a device, or large blocks.
    """
    team = learner.team
    if team is None or len(team.replicas) > 1 or learner.placed_tables is not None:
        return None
    first = team.first
    if first.cache.backend.kind != "cpu" or first.intakes[side].shape.nbytes > MOST_BYTES:
        return None
    source = learner.data.source(X[:1], side=side)
    return RowsAtHand(team, side) if learner.data.prepared(source) is source else None


class RowsAtHand:
    """Predicts rows with the only replica of a team; `rows_at_hand` makes it."""

    def __init__(self, team: Team, side: int) -> None:
        """Allocate a block for the rows."""
        self._team, self._side = team, side
        self._block = self._new_block()

    def predict(self, X: Any) -> NDArray[Any] | None:
        """Return one result row per row of X.

        None: a source has to check or convert X, or there are more entries than before.

        X: float32 or other numbers [n x columns], or SciPy CSR.
        """
        if not self._takes(X):
            return None
        found: NDArray[Any] | None = None
        start = 0
        try:
            with self._team.exact():
                for part in self._team.in_turn(self._blocks(X), self._predict):
                    if found is None:
                        found = np.empty((X.shape[0], part.shape[1]), part.dtype)
                    found[start : start + len(part)] = part
                    start += len(part)
        except DataError:  # a source makes room, sorts entries or names the row at fault
            return None
        return found

    def _takes(self, X: Any) -> bool:
        """Return whether a block can be filled from X."""
        shape = self._team.first.intakes[self._side].shape
        if X.shape[1] != shape.columns or isinstance(X, np.ndarray) != shape.dense:
            return False
        if shape.nnz > self._block.shape.nnz:  # a source had more entries
            self._block = self._new_block()
        return shape.dense or (X.format == "csr" and X.indices.dtype == np.int32)

    def _new_block(self) -> HostBlock:
        first = self._team.first
        intake = first.intakes[self._side]
        shape = replace(intake.shape, targets=0, weighted=False)
        indexed = "predict" in intake.indexed_for
        return HostBlock(shape, indexed=indexed, zeros=first.cache.backend.zeros)

    def _blocks(self, X: Any) -> Iterator[HostBlock]:
        """Yield the rows of X in order, in the same block."""
        block, each = self._block, self._block.shape.rows
        for index, start in enumerate(range(0, X.shape[0], each)):
            rows = min(each, X.shape[0] - start)
            block.write()
            count_up(start, block.row_ids[:rows])
            if block.shape.dense:
                with np.errstate(over="ignore", invalid="ignore"):  # `finish` looks for them
                    block.dense[:rows] = X[start : start + rows]
            else:
                show(X, start, rows, block)
            block.finish(pass_=0, index=index, rows=rows)
            block.transpose()
            yield block

    def _predict(self, replica: Replica, host: HostBlock) -> NDArray[Any]:
        return replica.prediction_of(host, self._side)[: host.rows]


def show(X: Any, start: int, rows: int, into: HostBlock) -> None:
    """Use rows of a CSR matrix as the block, without a copy if compiled code can read them.

    Raises DataError if it has no room for so many entries.
    """
    offsets = X.indptr[start : start + rows + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    if entries.stop - entries.start > into.shape.nnz:
        raise DataError(f"more than {into.shape.nnz} entries")
    np.subtract(offsets, offsets[0], out=into.indptr[: rows + 1])
    with np.errstate(over="ignore"):
        values = readable(X.data[entries], np.float32)
    into.borrow(readable(X.indices[entries], np.int32), values)


def readable(numbers: Any, dtype: Any) -> NDArray[Any]:
    """Return numbers as compiled code takes them: contiguous, aligned and writable."""
    return np.require(numbers, dtype, ["C", "A", "W"])
