"""The data that a command reads: those of a configuration, or a file for a model that exists."""

import errno
import os
import sys
from pathlib import Path

from ..datasources import (
    Corpus,
    DataError,
    FileData,
    Holdout,
    MatrixSource,
    Shuffle,
    read_counts,
)
from ..datasources.matrix import KEEP_BYTES
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
            if part.targets is not None:
                require(part.targets)
    corpus, held_out = data.train.open(), None
    if isinstance(data.eval, Holdout):
        corpus, held_out = data.eval.split(corpus, seed)
    elif data.eval is not None:
        held_out = data.eval.open(corpus.vocabulary)

    def source(part: Corpus, shuffle: Shuffle, visits: int) -> MatrixSource:
        return MatrixSource(
            part.counts,
            targets=part.targets,
            block_rows=data.block_rows,
            shuffle=shuffle,
            seed=seed,
            names=part.vocabulary,
            target_names=part.target_names,
            keep_bytes=KEEP_BYTES if visits > 1 else 0,
        )

    passes = config.learner.passes
    train = source(corpus, data.shuffle, passes)
    if held_out is None:
        return train, None
    return train, source(held_out, False, passes // config.learner.eval_every)


def open_for(learner: Learner, path: Path, targets: Path | None = None) -> Corpus:
    """The rows of the file `path` over the columns that `learner` was trained on, labelled with
    those of the file `targets`.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read, or shares no word with the model.
    """
    require(path)
    if targets is not None:
        require(targets)
    corpus = read_counts(path, learner.names, targets=targets, signed=bool(learner.targets))
    known = float(corpus.counts.sum())
    if corpus.dropped and not corpus.counts.nnz:
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
