"""New data for a model, of any format that can be converted, as a source."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.formats import Known, find_files

from ..conversion.convert import Conversion, convert
from ..conversion.display import Silent
from ..learner import Learner

Told = tuple[str | None, Mapping[str, Any]]
"""The format of data, None where the name says it, and options of it; see `learn convert`."""


def converted(
    learner: Learner,
    path: str,
    targets: Path | None,
    block_rows: int,
    *,
    labelled: bool,
    told: Told | None = None,
) -> tuple[BlockSource, Sequence[str]]:
    """The rows at `path` over the columns that `learner` was trained on, and what is to be said.

    They are converted into a temporary dataset, which goes when the source does: it takes as much
    room on disk as the data, and no more memory than a conversion. targets: a file with those of
    the rows. labelled: with targets and weights; columns of a table that are called like the
    model's targets are these. told: what was said of them; None: their names say it all.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read.
    """
    format, given = (None, {}) if told is None else told
    kind, _ = find_files([path], format)
    options = dict(given)
    if kind in ("csv", "parquet") and labelled and targets is None and learner.target_names:
        options["targets"] = list(learner.target_names)
    folder = Path(tempfile.mkdtemp(prefix="blocklearn-"))
    job = Conversion(
        [path],
        [folder / "data"],
        block_rows=block_rows,
        codec="raw",
        format=format,
        options=options,
        sparse=learner.model.takes_counts,
        target_files=[] if targets is None else [str(targets)],
        known=known(learner, labelled),
        labelled=labelled,
    )
    try:
        done = convert(job, Silent())
        source = BlockSource(job.folders)
    except BaseException:
        shutil.rmtree(folder)
        raise
    weakref.finalize(source, shutil.rmtree, folder)
    return source, done.notes


def known(learner: Learner, labelled: bool) -> Known:
    """The columns of a model, and for data with labels its classes, if its targets are several."""
    targets = learner.target_names or ()
    names = learner.names
    return Known(columns_of(learner), names, targets if labelled and len(targets) > 1 else None)


def columns_of(learner: Learner) -> int:
    """How many columns data have that a loaded model can take."""
    if learner.names is not None:
        return len(learner.names)
    for name, side in learner.model.row_states.items():
        if side == 1:
            return len(learner.row_state(name))
    return max(mat.shape[0] for mat in learner.model.parameters.values())
