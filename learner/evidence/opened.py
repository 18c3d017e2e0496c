"""Open the data of a run again, and read the first rows of them with predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from blocklearn.datasources import DataKind, DataSource, HostBlock, Ids, Reader
from blocklearn.matcache.errors import BlocklearnError

from ..learner import Learner
from ..runs.inputs import open_data
from ..runs.model_inputs import config_of
from ..runs.new_data import columns_of

ROWS = 20_000  # rows of each source that a report reads


@dataclass(frozen=True)
class RunData:
    """The data of a run for a report.

    train, held_out: the sources; None: there are none, or `missing` says why.
    kind: the configured training data, which know texts and dates; None: unknown.
    rows: the most rows that are read of each source.
    missing: why the data cannot be read; empty: they can.
    """

    train: DataSource | None = None
    held_out: DataSource | None = None
    kind: DataKind | None = None
    rows: int = ROWS
    missing: str = ""


Sources = tuple[DataSource, DataSource | None]
"""Training data and held-out data."""


def open_run_data(
    run: Path, learner: Learner, rows: int = ROWS, sources: Sources | None = None
) -> RunData:
    """Open the data that `learner`, the model of `run`, was trained on.

    Data that are gone, damaged or others than in training are a sentence in `missing`.

    rows: the most rows to read of each source; 0 opens nothing.
    sources: the data, if they are open already.
    """
    if not rows:
        return RunData(rows=0)
    try:
        config = config_of(run)
        if config is None:
            return RunData(missing="No configuration says what the model was trained on.")
        train, held_out = open_data(config) if sources is None else sources
    except FileNotFoundError as error:
        where = "Names of files are as seen from the folder in which the run began."
        return RunData(missing=f"{error.filename}: no such file. {where}")
    except (BlocklearnError, OSError) as error:
        return RunData(missing=str(error))
    if not fits(learner, train):
        return RunData(missing="The training data are not those that the model was trained on.")
    return RunData(train, held_out, config.data.train, rows)


def fits(learner: Learner, source: DataSource) -> bool:
    """Return whether a source has the columns, targets and rows that the model knows."""
    shape = source.shape
    if shape.columns != columns_of(learner) or shape.targets != (
        learner.data.targets or shape.targets
    ):
        return False
    if 0 in learner.model.row_states.values() and not learner.model.scores_new_rows:
        states = [name for name, side in learner.model.row_states.items() if side == 0]
        if any(shape.total_rows != len(learner.row_state(state)) for state in states):
            return False
    return same_names(learner.names, source.names)


def same_names(ours: Sequence[str] | None, theirs: Sequence[str] | None) -> bool:
    """Return whether two lists of names are equal; unknown and hashed ones are not compared."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return ours == theirs
    if not isinstance(ours, list | Ids) or not isinstance(theirs, list | Ids):
        return True
    return Ids(ours) == Ids(theirs)


def predicted_blocks(
    learner: Learner, source: DataSource, most: int
) -> Iterator[tuple[HostBlock, NDArray[Any]]]:
    """Yield blocks with the predictions of their rows, until `most` rows are done or more.

    A block is valid until the next one. Predictions are [rows x k], without padding.
    """
    done = 0
    with Reader(source, indexed=False) as reader:
        for block, (_, values) in zip(reader.blocks(0), learner.predictions(source), strict=False):
            yield block, values
            done += block.rows
            if done >= most:
                return
