"""Read ids and seen items for commands on a model of users and items, or of words."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.datasources import (
    DataError,
    DataSource,
    Holdout,
    Ids,
    MatrixSource,
    Reading,
    entries_of,
    row_names,
)
from blocklearn.datasources.parsing.lines import read_lines
from blocklearn.datasources.ratings import read_pairs

from ..engines.crew import Crew
from ..learner import Learner
from ..recommendation.factors import Side, factors_of, unknown
from ..recommendation.parts import run_of
from ..recommendation.ranking_evaluation import RankingEvaluation, ranking_of
from ..terminal import say
from .inputs import open_data
from .model_inputs import check_rated, config_of, ratings_in, ratings_of

HINT = "--seen FILE names ratings whose items are left out, --include-seen leaves out none"


def read_ids(path: Path) -> Ids:
    """Read ids of users or items, one per line; empty lines are skipped.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the file has no ids, or is not UTF-8.
    """
    try:
        found = [line for _, line in read_lines(path) if line]
    except FileNotFoundError:
        text = "No such file. Write the ids into a file, one per line"
        raise FileNotFoundError(errno.ENOENT, text, str(path)) from None
    if not found:
        raise DataError(f"{path}: has no ids. Write one id per line.")
    return Ids(found)


def known_ids(learner: Learner, path: Path, side: Side, *, skip_unknown: bool) -> Ids:
    """Read ids of users, items or words that the model knows, one per line.

    skip_unknown: unknown ids are left out with a note on stderr, unless that leaves none. Raises as
    `read_ids`, and `DataError` naming unknown ids.
    """
    ids = read_ids(path)
    places = factors_of(learner, side).names(side).numbers(ids)
    if (places < 0).any():
        refuse_unknown(path, f"{side}s", ids, places, skip_unknown=skip_unknown)
    return ids.take(np.flatnonzero(places >= 0))


def known_numbers(
    crew: Crew, learner: Learner, path: Path | None, side: Side, *, skip_unknown: bool
) -> NDArray[np.int64] | None:
    """Return the numbers of the users or items of `known_ids` on all workers, which all call this.

    Worker 0 reads the file. path: None: there is none, and no numbers.
    """
    if path is None:
        return None
    numbers = np.empty(0, np.int64)
    if crew.leads:
        ids = known_ids(learner, path, side, skip_unknown=skip_unknown)
        numbers = factors_of(learner, side).names(side).numbers(ids)
    return crew.pooled(numbers)[0].copy()


def new_users(learner: Learner, run: Path, path: Path, *, skip_unknown: bool) -> MatrixSource:
    """Read ratings of the model's items by users who may be unknown to the model.

    skip_unknown: ratings of unknown items are left out with a note on stderr.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the file cannot be read, or has unknown items; the message names them.
    """
    known = factors_of(learner).names("item")
    kind = ratings_in(path, run)
    ratings = kind.open()
    check_rated(learner, ratings, kind)
    items = ratings.items.take(np.unique(ratings.matrix.indices))
    found = known.numbers(items)
    if (found < 0).any():
        refuse_unknown(path, "items", items, found, skip_unknown=skip_unknown)
    places = known.numbers(ratings.items)
    matrix = ratings.only(places[ratings.matrix.indices] >= 0).matrix
    parts = (matrix.data, places[matrix.indices].astype(np.int32), matrix.indptr)
    rows = sp.csr_array(parts, shape=(len(ratings.users), len(known)))
    rows.sort_indices()
    return MatrixSource(rows, row_names=ratings.users, keep_bytes=0)


def part_of_users(rated: DataSource, part: tuple[int, int]) -> tuple[Ids, sp.csr_array]:
    """Return the ids of part i of n users, and their ratings [users x items].

    part: (i, n). Raises ConfigError if there are fewer users than parts.
    """
    own = np.arange(*run_of(rated.shape.total_rows, part))
    names = row_names(rated)
    assert names is not None
    return Ids(names).take(own), entries_of(rated, own)


def pairs_in(run: Path, path: Path, separator: str | None) -> tuple[Ids, Ids]:
    """Read the users and items of a file, whose columns are called as in the training data.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the file cannot be read.
    """
    kind = ratings_in(path, run, separator)
    names = {name: getattr(kind, name) for name in ("user", "item", "separator")}
    return read_pairs(path, **names)


def refuse_unknown(
    path: Path, what: str, given: Ids, places: NDArray[np.int64], *, skip_unknown: bool
) -> None:
    """Raise `DataError` naming the unknown ids, those of `given` whose place is -1.

    skip_unknown: name them on stderr instead, unless all ids are unknown.
    """
    message = f"{path}: {unknown(what, given, places)}"
    if not skip_unknown:
        raise DataError(f"{message}; --skip-unknown leaves them out.")
    if (places < 0).all():
        raise DataError(f"{message}; there are no others.")
    say(f"{message}; they are left out")


def seen_by_users(learner: Learner, run: Path, ratings: Path | None) -> DataSource:
    """Return the items that the model's users have seen, as `recommend` takes them.

    ratings: a file; None: the training data of the run, opened again.

    Raises:
        FileNotFoundError: the file or the training data do not exist.
        DataError: they cannot be read, or have other users and items than the model.
    """
    factors_of(learner)  # raises unless the model has users
    if ratings is not None:
        return ratings_of(learner, run, ratings, seen=True).samples().source(Reading())
    try:
        return training_data(learner, run)
    except FileNotFoundError as error:
        text = f"the training data, which say what users have seen, are gone; {HINT}"
        raise FileNotFoundError(errno.ENOENT, text, error.filename) from error
    except DataError as error:
        raise DataError(f"{error} To recommend without them: {HINT}.") from error


def training_data(learner: Learner, run: Path) -> DataSource:
    """Open the training data of `run` again.

    Raises:
        FileNotFoundError: the data do not exist any more.
        DataError: the data have other users or items than the model.
    """
    factors, config = factors_of(learner), config_of(run)
    if config is None:
        raise DataError(f"{run}: no configuration says what the model was trained on.")
    data = config.data
    if not isinstance(data.eval, Holdout):
        data = data.model_copy(update={"eval": None})
    train, _ = open_data(config.model_copy(update={"data": data}))
    shape = (len(factors.users), len(factors.items))
    same = (train.shape.total_rows, train.shape.columns) == shape
    for ours, theirs in ((factors.user_ids, row_names(train)), (factors.item_ids, train.names)):
        same = same and (ours is None or theirs is None or ours == Ids(theirs))
    if not same:
        raise DataError(
            f"{run}: the training data have other users or items than when the model was trained."
        )
    return train


def ranking_scores_of(learner: Learner, run: Path, held_out: DataSource) -> dict[str, float]:
    """Score how the model of `run` ranks held-out items, as in its training.

    Returns no scores if training ranked nothing, or if the training data cannot be opened; a note
    on stderr says the latter.
    """
    config = config_of(run)
    if config is None:
        return {}
    ranking = ranking_of(config.model_copy(update={"model": learner.model}))
    if ranking is None:
        return {}
    try:
        seen = training_data(learner, run)
    except (FileNotFoundError, DataError) as error:
        say(f"ranking is not scored, as the training data cannot be read: {error}")
        return {}
    hook = RankingEvaluation(**ranking.model_dump())
    users, relevant = hook.sample(held_out, config.learner.seed)
    return hook.scores(learner, users, entries_of(seen, users), relevant)
