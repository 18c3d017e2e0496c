"""New data for a model, of any format that can be converted, as a source."""

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..datasources.blocks import BlockSource
from ..datasources.formats import Known, find_files
from .conversion_display import Silent
from .convert import Conversion, convert
from .learner import Learner


def converted(
    learner: Learner, path: str, targets: Path | None, block_rows: int, *, labelled: bool
) -> tuple[BlockSource, Sequence[str]]:
    """The rows at `path` over the columns that `learner` was trained on, and what is to be said.

    They are converted into a temporary dataset, which goes when the source does: it takes as much
    room on disk as the data, and no more memory than a conversion. targets: a file with those of
    the rows. labelled: columns of a table that are called like the model's targets are these.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read.
    """
    kind, _ = find_files([path])
    options: dict[str, Any] = {}
    if kind in ("csv", "parquet") and labelled and targets is None and learner.target_names:
        options["targets"] = list(learner.target_names)
    folder = Path(tempfile.mkdtemp(prefix="blocklearn-"))
    job = Conversion(
        [path],
        [folder / "data"],
        block_rows,
        codec="raw",
        options=options,
        sparse=learner.model.takes_counts,
        target_files=[] if targets is None else [str(targets)],
        known=known(learner),
    )
    try:
        done = convert(job, Silent())
        source = BlockSource(job.folders)
    except BaseException:
        shutil.rmtree(folder)
        raise
    weakref.finalize(source, shutil.rmtree, folder)
    return source, done.notes


def known(learner: Learner) -> Known:
    """The columns of a model, and its classes if its targets are several."""
    tables = (mat.shape[0] for mat in learner.model.parameters.values())
    columns = max(tables) if learner.names is None else len(learner.names)
    several = learner.target_names is not None and len(learner.target_names) > 1
    return Known(columns, learner.names, learner.target_names if several else None)
