"""The data that a command reads: those of a configuration, or a file for a model that exists."""

import errno
import os
import sys
from pathlib import Path

from ..datasources import Corpus, DataError, FileData, Holdout, MatrixSource, read_counts
from .config import RunConfig
from .learner import Learner


def open_data(config: RunConfig) -> tuple[MatrixSource, MatrixSource | None]:
    """The sources to train on and, if there is one, to evaluate on; with the same columns.

    Raises:
        FileNotFoundError: a file that the configuration names does not exist.
        DataError: it cannot be read.
    """
    data, seed = config.data, config.learner.seed
    for part in (data.train, data.eval):
        if isinstance(part, FileData):
            require(part.path)
    corpus, held_out = data.train.open(), None
    if isinstance(data.eval, Holdout):
        corpus, held_out = data.eval.split(corpus, seed)
    elif data.eval is not None:
        held_out = data.eval.open(corpus.vocabulary)

    def source(part: Corpus, shuffle: bool) -> MatrixSource:
        return MatrixSource(
            part.counts,
            block_rows=data.block_rows,
            shuffle=shuffle,
            seed=seed,
            names=part.vocabulary,
        )

    return source(corpus, data.shuffle), source(held_out, False) if held_out else None


def open_for(learner: Learner, path: Path) -> Corpus:
    """The rows of the file `path` over the columns that `learner` was trained on.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read, or shares no word with the model.
    """
    require(path)
    corpus = read_counts(path, learner.names)
    known = float(corpus.counts.sum())
    if corpus.dropped and not known:
        raise DataError(f"{path}: none of its {corpus.dropped:,} words is known to the model")
    if corpus.dropped:
        print(
            f"{path}: {corpus.dropped:,} of {corpus.dropped + known:,.0f} words are unknown to "
            "the model and left out",
            file=sys.stderr,
        )
    return corpus


def require(path: Path) -> None:
    """Raises `FileNotFoundError` if there is nothing at `path`: a missing input, not a bad one."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
