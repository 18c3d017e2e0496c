"""Open new data for the model of a run: over its columns, in the format of its training data."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from blocklearn.datasources import (
    DataError,
    DataSource,
    FileData,
    Ids,
    Ratings,
    RatingsData,
    RatingsKind,
    Reading,
    read_counts,
)
from blocklearn.datasources.arrays.same_names import check_names
from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.blocks.manifest import FILE as MANIFEST
from blocklearn.datasources.formats.word_counts import (
    files_at,
    is_text_or_counts,
    matching,
    text_format,
)
from blocklearn.datasources.listing import require_data
from blocklearn.datasources.packed.streams import kind_of
from blocklearn.datasources.remote import PATIENCE, Place, place_of
from blocklearn.models import FactorModel

from ..configuration.config import DataConfig, RunConfig, renamed
from ..configuration.kinds import left_unread
from ..configuration.references import KeptReferences
from ..configuration.yaml_config import resolve
from ..learner import Learner
from ..terminal import say
from .new_data import Told, columns_of, converted
from .run_folder import RunFolder


def open_for(
    learner: Learner,
    run: Path,
    path: str,
    targets: Path | None,
    folder: Callable[[], Path],
    *,
    labelled: bool = False,
    text: str | None = None,
    separator: str | None = None,
) -> DataSource:
    """Open new data for the model of `run`, over the columns that it was trained on.

    A block dataset is read as it is. Other data are read as the training data were. If those were
    texts, counts or blocks, or are unknown, the ending of `path` decides: see `learn convert`.

    Args:
        learner: the model of `run`, loaded.
        run: the run folder.
        path: the data; of a block dataset its folders, separated by commas.
        targets: a file with the targets of the rows; None: there is none.
        folder: makes an empty folder for data that must be converted; see `read_once`.
        labelled: whether targets and weights in the data are read.
        text: the field of JSON lines, or the column of a table, that has the texts.
        separator: the character between fields of a table in text; None: as in the training data.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the data cannot be read, or share no word with the model.
    """
    data = data_of(run, separator)
    ranks = isinstance(learner.model, FactorModel)
    ratings = ranks or bool(data and isinstance(data.train, RatingsKind))
    if separator is not None and not has_fields(path, ratings):
        raise DataError(
            f"{path}: separator={separator!r}: must be left out, as this is no table in text."
        )
    between = data.train.separator if data and isinstance(data.train, FileData) else separator
    told: Told | None = None if text is None else text_format(path, text, between)
    if text is not None and (told is None or ratings):
        what = "ratings" if ratings else "neither JSON lines nor a table"
        raise DataError(f"{path}: {what}, so it has no text field {text!r}.")
    same_users = labelled and ranks
    rows = data.rows_of_block(learner.data.block_rows) if data else learner.data.block_rows
    folders = [place_of(name, PATIENCE) for name in path.split(",")]  # of a dataset in stripes
    if all((folder / MANIFEST).is_file() for folder in folders):
        return open_dataset(learner, folders, targets)
    if ratings:
        if targets is not None:
            raise DataError(f"{targets}: must be left out: ratings are their own targets.")
        found = ratings_of(learner, run, Path(path), new_users=not same_users, separator=separator)
        return found.samples().source(Reading(rows))
    kind = None
    if data is not None and told is None:
        kind = data.train.elsewhere(path, labelled=labelled)
        told = data.train.conversion(path)
    if kind is None:
        if told is None and is_text_or_counts(Path(path)) and learner.names is not None:
            return open_counts(learner, Path(path), targets)
        if told is None and separator is not None:
            told = None, {"separator": separator}
        source, notes = converted(
            learner, path, targets, rows, folder(), labelled=labelled, told=told
        )
        for note in notes:
            say(f"{path}: {note}")
        return source
    if targets is not None:
        raise DataError(f"{targets}: must be left out: data like {path} contain their own targets.")
    for file in kind.files():
        require_data(file)
    opened = kind.open_source(Reading(rows))
    check_columns(learner, opened, path)
    return opened


def has_fields(path: str, ratings: bool) -> bool:
    """Return whether `path` is, or as a folder contains, text with separators."""
    kinds = {".csv", ".tsv", ".txt"} if ratings else {".csv", ".tsv"}
    return any(kind_of(file) in kinds for file in files_at(path))


def data_of(run: Path, separator: str | None = None) -> DataConfig | None:
    """Return the data section of a run's configuration; None: it has none.

    separator: replaces that of the configuration, for data that have separators.
    """
    config = config_of(run)
    if config is None:
        return None
    data = config.data
    if separator is None or "separator" not in type(data.train).model_fields:
        return data
    train = data.train.model_copy(update={"separator": separator})
    return data.model_copy(update={"train": train})


def config_of(run: Path) -> RunConfig | None:
    """Return the configuration in a run folder; None: it has only a model.

    Classes of the user's own are not imported: see `left_unread`.
    """
    file = RunFolder(run).config
    if not file.exists():
        return None
    kept = KeptReferences(os.environ)  # unset variables do no harm: data may not be read again
    return resolve(RunConfig, [file], {}, upgrade=renamed, meanings=kept, extend=left_unread)


def ratings_of(
    learner: Learner,
    run: Path,
    path: Path,
    *,
    new_users: bool = False,
    seen: bool = False,
    separator: str | None = None,
) -> Ratings:
    """Read ratings of the model's users and items.

    The file has the format of the training data of `run`.

    Args:
        learner: the model of `run`, loaded.
        run: the run folder.
        path: the file of ratings.
        new_users: whether the users may be unknown to the model.
        seen: whether only the pairs count, not the values of the ratings.
        separator: the character between fields of text; None: as in the training data.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the file cannot be read, or has no rating that the model can use.
    """
    kind = ratings_in(path, run, separator)
    users, items = learner.row_names, learner.names
    if items is None:
        items = Ids.numbered(columns_of(learner))
    if users is None and not new_users:
        users = Ids.numbered(len(learner.row_state("users")))
    ratings = kind.open(None if new_users else users, items)
    if not seen:
        check_rated(learner, ratings, kind)
    if not ratings.matrix.nnz:
        raise DataError(f"{path}: none of its ratings is of users and items of the model.")
    return ratings


def check_rated(learner: Learner, ratings: Ratings, kind: RatingsData) -> None:
    """Raise `DataError` for a file without ratings, if the model predicts ratings."""
    explicit = isinstance(learner.model, FactorModel) and not learner.model.implicit
    if explicit and ratings.unrated and kind.rating is not None:
        raise DataError(
            f"{kind.path}: users and items alone, but the model was trained on how they rated; add "
            f"a column {kind.rating!r} with the ratings."
        )


def ratings_in(path: Path, run: Path, separator: str | None = None) -> RatingsData:
    """Describe a file of ratings by the format of the training data of `run`.

    The file is not read yet.

    separator: replaces that of the training data; None: keeps it. Raises `FileNotFoundError` if
    there is no such file.
    """
    require_data(path)
    data = data_of(run, separator)
    if data is not None and isinstance(data.train, RatingsData):
        return data.train.model_copy(update={"path": path})
    return RatingsData(path=path, separator=separator)


def open_dataset(learner: Learner, folders: list[Place], targets: Path | None) -> DataSource:
    """Open a block dataset, and check that it has the columns of the model."""
    if targets is not None:
        raise DataError(f"{targets}: the targets of a dataset are part of it; leave them out.")
    source = BlockSource(folders)
    check_columns(learner, source, str(folders[0]))
    check_names(str(folders[0]), source.names, learner.names)
    return source


def check_columns(learner: Learner, source: DataSource, name: str) -> None:
    """Raise `DataError` unless `source` has the model's number of columns."""
    columns = columns_of(learner)
    if source.shape.columns != columns:
        raise DataError(
            f"{name}: {source.shape.columns:,} columns, but the model has {columns:,}; give it "
            "data made in the same way as its training data."
        )


def open_counts(learner: Learner, path: Path, targets: Path | None) -> DataSource:
    """Open texts or counts over the words that the model knows."""
    for file in matching(path):
        require_data(file)
    if targets is not None:
        require_data(targets)
    counts = learner.model.takes_counts or learner.model.nonnegative
    signed = bool(learner.data.targets) or not counts
    corpus = read_counts(path, learner.names, targets=targets, signed=signed)
    known = float(corpus.counts.sum())
    if corpus.dropped and not corpus.counts.nnz:
        raise DataError(f"{path}: none of its {corpus.dropped:,} words is known to the model")
    if corpus.dropped:
        say(
            f"{path}: {corpus.dropped:,} of {corpus.dropped + known:,.0f} words are unknown to "
            "the model and left out"
        )
    rows = corpus.counts.shape[0]
    if empty := rows - np.count_nonzero(np.diff(corpus.counts.indptr)):
        say(f"{path}: {empty:,} of {rows:,} rows have no word that the model knows")
    return corpus.samples().source(Reading(learner.data.block_rows))
