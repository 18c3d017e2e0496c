"""Open new data of any convertible format as a source for a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.formats import Known, find_files

from ..conversion.convert import Conversion, convert
from ..conversion.display import Watch
from ..learner import Learner

Told = tuple[str | None, Mapping[str, Any]]
"""A format, None where the name of the data tells it, and its options; see `learn convert`."""


def converted(
    learner: Learner,
    path: str,
    targets: Path | None,
    block_rows: int,
    folder: Path,
    *,
    labelled: bool,
    told: Told | None = None,
) -> tuple[BlockSource, Sequence[str]]:
    """Return the rows at `path` over the model's columns, and notes for the user.

    The rows are converted into a dataset. It takes as much disk space as the data, and no more
    memory than a conversion.

    Args:
        learner: the model whose columns the rows get.
        path: the data.
        targets: a file with the targets of the rows; None: there is none.
        block_rows: rows per block.
        folder: an empty one for the dataset, which the caller removes.
        labelled: whether targets and weights are read. Columns of a table with the names of the
            model's targets are targets.
        told: format and options; None: the name of the data tells them.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the data cannot be read.
    """
    format, given = (None, {}) if told is None else told
    kind, _ = find_files([path], format)
    options = dict(given)
    if kind in ("csv", "parquet") and labelled and targets is None and learner.target_names:
        options["targets"] = list(learner.target_names)
    job = Conversion(
        [path],
        [folder],
        block_rows=block_rows,
        codec="raw",
        format=format,
        options=options,
        sparse=learner.model.takes_counts,
        target_files=[] if targets is None else [str(targets)],
        known=known(learner, labelled),
        labelled=labelled,
    )
    done = convert(job, Watch())
    return BlockSource(job.folders), done.notes


def known(learner: Learner, labelled: bool) -> Known:
    """Return the model's columns, and its targets.

    Targets are only for labelled data of a model with several.
    """
    targets = learner.target_names or ()
    names = learner.names
    return Known(columns_of(learner), names, targets if labelled and len(targets) > 1 else None)


def columns_of(learner: Learner) -> int:
    """Return the number of columns that data for a loaded model must have."""
    if learner.names is not None:
        return len(learner.names)
    if learner.data.columns is not None:
        return learner.data.columns
    for name, side in learner.model.row_states.items():
        if side == 1:
            return len(learner.row_state(name))
    return max(mat.shape[0] for mat in learner.model.parameters.values())
