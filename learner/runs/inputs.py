"""The data that a command reads: those of a configuration, or a file for a model that exists."""

import errno
import os
import shlex
from dataclasses import replace
from pathlib import Path

from blocklearn.datasources import (
    DataError,
    DataKind,
    DataSource,
    FileData,
    Holdout,
    Ids,
    Ratings,
    RatingsData,
    RatingsKind,
    Reading,
    read_counts,
)
from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.blocks.kind import check_names
from blocklearn.datasources.blocks.manifest import FILE as MANIFEST
from blocklearn.datasources.formats.word_counts import (
    files_at,
    is_text_or_counts,
    matching,
    text_format,
)
from blocklearn.datasources.packed.streams import kind_of
from blocklearn.datasources.packed.unpacked_size import unpacked_bytes
from blocklearn.matcache.errors import MemoryPlanError
from blocklearn.models import ALS

from ..configuration.config import DataConfig, LearnerConfig, RunConfig, renamed
from ..configuration.references import KeptReferences, left_out
from ..configuration.yaml_config import resolve
from ..conversion.folder import states
from ..errors import ConfigError
from ..figures import size
from ..learner import Learner
from ..memory import memory_limits
from ..terminal import say
from ..training.team import one_each
from .new_data import Told, columns_of, converted
from .run_folder import RunFolder


def open_data(config: RunConfig) -> tuple[DataSource, DataSource | None]:
    """The sources to train on and, if there is one, to evaluate on; with the same columns.

    Raises:
        FileNotFoundError: a file that the configuration names does not exist.
        DataError: it cannot be read.
    """
    data, seed, passes = config.data, config.learner.seed, config.learner.passes
    require_files(data)
    check_fits(data)
    reading = Reading(data.block_rows, data.shuffle, seed, passes)
    held = replace(reading, shuffle=False, visits=config.evaluation.visits(passes))
    if isinstance(data.eval, Holdout):
        return data.train.hold_out(data.eval.share, reading, held, data.eval.by)
    train = data.train.open_source(reading)
    if data.eval is None:
        return train, None
    held = replace(held, block_rows=train.shape.rows)  # which a block dataset has of its own
    other = data.eval.open_source(held, like=train)
    check_alike(train, other)
    return train, other


def settled(config: RunConfig) -> RunConfig:
    """`config` with what its data and the devices here decide. Raises as `open_data`."""
    data = config.data
    require_files(data)
    train = data.train.settled()
    eval_ = data.eval.settled(train) if isinstance(data.eval, DataKind) else data.eval
    found = data.model_copy(update={"train": train, "eval": eval_})
    return config.model_copy(update={"data": found, "learner": counted(config.learner)})


def counted(learner: LearnerConfig) -> LearnerConfig:
    """`learner` with the number of its replicas and, where these are several, their devices."""
    if learner.replicas != "auto":
        return learner
    each = one_each(learner.devices or learner.device, "auto")
    devices = learner.devices or (each if len(each) > 1 else None)
    return learner.model_copy(update={"replicas": len(each), "devices": devices})


def require_files(data: DataConfig) -> None:
    """Raises `FileNotFoundError` for a file that the configuration names and that is not there, and
    `ConfigError` for a URL whose secret was left out when a run wrote the configuration.
    """
    lacking = [
        f"data.{key}={url}: must be the whole URL, but a secret was left out of it (***). Write "
        "${NAME} there and set this variable, or use the configuration that the run began with."
        for key, url in left_out(data.model_dump(mode="json"))
    ]
    if lacking:
        raise ConfigError(lacking)
    for part in (data.train, data.eval):
        if isinstance(part, DataKind):
            for path in part.files():
                require(path)


def check_fits(data: DataConfig) -> None:
    """Raises `MemoryPlanError` for data that will be read into memory, and have more bytes than are
    left of it: unpacked, where packed files say how many these are.
    """
    parts = [part for part in (data.train, data.eval) if isinstance(part, DataKind)]
    kinds = {file: part for part in parts for file in part.in_memory()}
    files = {file: unpacked(file) for file in kinds}
    left, limit = min(((n, what) for what, n in memory_limits().items()), default=(0, ""))
    if limit and sum(files.values()) > left:
        largest = max(files, key=files.__getitem__)
        raise MemoryPlanError(
            f"{largest}: {size(files[largest])} of data of a kind that is read into memory, of "
            f"which {size(left)} are {limit}. Make blocks of it, which are read one by one: "
            f"`learn convert {largest} DIR{conversion_options(kinds[largest], largest)}`, then "
            "{kind: blocks, paths: [DIR]}."
        )


def conversion_options(kind: DataKind, file: Path) -> str:
    """What `learn convert` must be told besides the name of a file to read it as such data."""
    format, options = kind.conversion(str(file)) or (None, {})
    given = {"format": format, **options}
    return "".join(
        f" --{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(value)}")
        for name, value in given.items()
        if value not in (None, False)
    )


def unpacked(name: Path) -> int:
    """Bytes of a file, or of all files in a folder, as far as they say what these unpack to."""
    return sum(unpacked_bytes(Path(file)) for file, _, _ in states(name))


def check_alike(train: DataSource, other: DataSource) -> None:
    """Raises `DataError` where a model that is trained on one cannot be scored on the other."""
    for what, here, there in [
        ("columns", train.shape.columns, other.shape.columns),
        ("targets", train.shape.targets, other.shape.targets),
    ]:
        if here != there:
            raise DataError(
                f"data.eval has {there:,} {what}, but data.train has {here:,}; give both the same "
                "settings."
            )


def open_for(
    learner: Learner,
    run: Path,
    path: str,
    targets: Path | None = None,
    *,
    labelled: bool = False,
    text: str | None = None,
    separator: str | None = None,
) -> DataSource:
    """New data for the model of `run`, over the columns that it was trained on.

    A block dataset (its folders, with commas between them) is read as it is. Other data are read as
    the training data were, from `path` instead; where these were texts, counts or blocks, or nobody
    knows, by the end of its name (see `learn convert`), and labelled with the targets of the file
    `targets`. labelled: what the data say of targets and weights is read, too. text: the field of
    JSON lines, or the column of a table, with texts; separator: between fields of a table in text;
    None: as in the training data.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read, or shares no word with the model.
    """
    data = data_of(run, separator)
    ratings = isinstance(learner.model, ALS) or bool(data and isinstance(data.train, RatingsKind))
    if separator is not None and not has_fields(path, ratings):
        raise DataError(f"{path}: no table in text, whose fields have {separator!r} between them.")
    between = data.train.separator if data and isinstance(data.train, FileData) else separator
    told: Told | None = None if text is None else text_format(path, text, between)
    if text is not None and (told is None or ratings):
        what = "ratings" if ratings else "neither JSON lines nor a table"
        raise DataError(f"{path}: {what}, so no field {text!r} of it has texts.")
    same_users = labelled and isinstance(learner.model, ALS)
    rows = data.block_rows if data else learner.block_rows
    folders = [Path(name) for name in path.split(",")]  # of a dataset in several stripes
    if all((folder / MANIFEST).is_file() for folder in folders):
        return open_dataset(learner, folders, targets)
    if ratings:
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
        source, notes = converted(learner, path, targets, rows, labelled=labelled, told=told)
        for note in notes:
            say(f"{path}: {note}")
        return source
    if targets is not None:
        raise DataError(f"{targets}: the targets of such data are part of {path}; leave it out.")
    for file in kind.files():
        require(file)
    opened = kind.open_source(Reading(rows))
    check_columns(learner, opened, path)
    return opened


def has_fields(path: str, ratings: bool) -> bool:
    """Whether there is text with separators at `path`, or in this folder."""
    kinds = {".csv", ".tsv", ".txt"} if ratings else {".csv", ".tsv"}
    return any(kind_of(file) in kinds for file in files_at(path))


def data_of(run: Path, separator: str | None = None) -> DataConfig | None:
    """What the configuration in a run folder says about data; None where there is none. separator:
    instead of its own, of data that may have one.
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
    """The configuration in a run folder; None where there is none, because the folder has only a
    model.
    """
    file = RunFolder(run).config
    if not file.exists():
        return None
    kept = KeptReferences(os.environ)  # of data that need not be read again
    return resolve(RunConfig, [file], {}, upgrade=renamed, meanings=kept)


def ratings_of(
    learner: Learner,
    run: Path,
    path: Path,
    *,
    new_users: bool = False,
    seen: bool = False,
    separator: str | None = None,
) -> Ratings:
    """Ratings in a file, written as those that the model of `run` was trained on, of its users and
    items. new_users: of users of their own, whom it need not know. seen: it does not matter what
    the ratings are. separator: between fields of text; None: as in the training data.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it cannot be read, or has nothing that the model knows.
    """
    kind = ratings_in(path, run, separator)
    users, items = learner.row_names, learner.names
    if items is None:
        items = Ids.numbered(len(learner.row_state("items")))
    if users is None and not new_users:
        users = Ids.numbered(len(learner.row_state("users")))
    ratings = kind.open(None if new_users else users, items)
    if not seen:
        check_rated(learner, ratings, kind)
    if not ratings.matrix.nnz:
        raise DataError(f"{path}: none of its ratings is of users and items of the model.")
    return ratings


def check_rated(learner: Learner, ratings: Ratings, kind: RatingsData) -> None:
    """Raises `DataError` for a file of users and items alone, if the model predicts ratings."""
    explicit = isinstance(learner.model, ALS) and learner.model.loss == "explicit"
    if explicit and ratings.unrated and kind.rating is not None:
        raise DataError(
            f"{kind.path}: users and items alone, but the model was trained on how they rated; add "
            f"a column {kind.rating!r} with the ratings."
        )


def ratings_in(path: Path, run: Path, separator: str | None = None) -> RatingsData:
    """The ratings in a file, as yet unread, written as those that the model of `run` was trained
    on, but for `separator`. Raises `FileNotFoundError` if there is no such file.
    """
    require(path)
    data = data_of(run, separator)
    if data is not None and isinstance(data.train, RatingsData):
        return data.train.model_copy(update={"path": path})
    return RatingsData(path=path, separator=separator)


def open_dataset(learner: Learner, folders: list[Path], targets: Path | None) -> DataSource:
    """A block dataset with the columns of a model."""
    if targets is not None:
        raise DataError(f"{targets}: the targets of a dataset are part of it; leave them out.")
    source = BlockSource(folders)
    check_columns(learner, source, str(folders[0]))
    check_names(folders[0], source.names, learner.names)
    return source


def check_columns(learner: Learner, source: DataSource, name: str) -> None:
    """Raises `DataError` unless `source`, called `name`, has as many columns as a model knows."""
    columns = columns_of(learner)
    if source.shape.columns != columns:
        raise DataError(
            f"{name}: {source.shape.columns:,} columns, but the model has {columns:,}; give it "
            "data that were made as those it was trained on."
        )


def open_counts(learner: Learner, path: Path, targets: Path | None) -> DataSource:
    """Texts or counts over the words that a model knows."""
    for file in matching(path):
        require(file)
    if targets is not None:
        require(targets)
    corpus = read_counts(path, learner.names, targets=targets, signed=bool(learner.targets))
    known = float(corpus.counts.sum())
    if corpus.dropped and not corpus.counts.nnz:
        raise DataError(f"{path}: none of its {corpus.dropped:,} words is known to the model")
    if corpus.dropped:
        say(
            f"{path}: {corpus.dropped:,} of {corpus.dropped + known:,.0f} words are unknown to "
            "the model and left out"
        )
    return corpus.samples().source(Reading(learner.block_rows))


def require(path: Path) -> None:
    """Raises `FileNotFoundError` if there is nothing at `path`: a missing input, not a bad one."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
