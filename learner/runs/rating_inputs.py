"""What commands read for a model of users and items: ids, and what users have seen."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.datasources import DataError, DataSource, Ids, entries_of, row_names
from blocklearn.datasources.text.read_texts import read_lines

from ..learner import Learner
from ..recommendation.factors import factors_of, unknown
from ..recommendation.ranking_evaluation import RankingEvaluation, ranking_of
from ..terminal import say
from .inputs import check_rated, config_of, open_data, ratings_in, ratings_of, require

HINT = "--seen FILE names ratings whose items are left out, --include-seen leaves out none"


def read_ids(path: Path) -> Ids:
    """Ids of users or items, one a line; empty lines do not count.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: it has no ids, or bytes that are no UTF-8.
    """
    require(path)
    found = [line for _, text in read_lines(path) if (line := text.rstrip("\r\n"))]
    if not found:
        raise DataError(f"{path}: no ids in it; each stands in a line of its own.")
    return Ids(found)


def known_ids(
    learner: Learner, path: Path, side: Literal["user", "item"], *, skip_unknown: bool
) -> Ids:
    """Ids of users or items that the model knows, one a line.

    skip_unknown: others are left out, which is said on stderr, unless that leaves none. Raises as
    `read_ids`, and `DataError` naming unknown ones.
    """
    ids = read_ids(path)
    places = factors_of(learner).names(side).numbers(ids)
    if (places < 0).any():
        refuse_unknown(path, f"{side}s", ids, places, skip_unknown=skip_unknown)
    return ids.take(np.flatnonzero(places >= 0))


def new_users(
    learner: Learner, run: Path, path: Path, *, skip_unknown: bool
) -> tuple[Ids, sp.csr_array]:
    """Users that need not be among those of the model, from ratings in a file: their ids, and what
    they rated [users x items].

    skip_unknown: ratings of unknown items are left out, which is said on stderr. Raises
    `FileNotFoundError`, or `DataError` for what cannot be read and for unknown items, named.
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
    return ratings.users, rows


def refuse_unknown(
    path: Path, what: str, given: Ids, places: NDArray[np.int64], *, skip_unknown: bool
) -> None:
    """Raises `DataError` that names those of `given` whose place is -1; or says so on stderr, where
    they may be skipped, and there are others.
    """
    message = f"{path}: {unknown(what, given, places)}"
    if not skip_unknown:
        raise DataError(f"{message}; --skip-unknown leaves them out.")
    if (places < 0).all():
        raise DataError(f"{message}; there are no others.")
    say(f"{message}; they are left out")


def seen_by_users(learner: Learner, run: Path, ratings: Path | None) -> Any:
    """What the users of the model have seen, for `recommend`: the ratings in a file, as a SciPy
    matrix; without one the training data of the run, opened again.

    Raises:
        FileNotFoundError: the file or the training data are not where they were.
        DataError: they cannot be read, or are not of the users and items of the model.
    """
    factors_of(learner)  # or there are no users
    if ratings is not None:
        return ratings_of(learner, run, ratings, seen=True).matrix
    try:
        return training_data(learner, run)
    except FileNotFoundError as error:
        text = f"the training data, which say what users have seen, are gone; {HINT}"
        raise FileNotFoundError(errno.ENOENT, text, error.filename) from error
    except DataError as error:
        raise DataError(f"{error} To recommend without them: {HINT}.") from error


def training_data(learner: Learner, run: Path) -> DataSource:
    """What the model of `run` was trained on, opened again.

    Raises:
        FileNotFoundError: it is not there any more.
        DataError: it has other users or items than the model.
    """
    factors, config = factors_of(learner), config_of(run)
    if config is None:
        raise DataError(f"{run}: there is no configuration that says what it was trained on.")
    train, _ = open_data(config)
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
    """How the model of `run` ranks items that were held out, scored as its training did; nothing
    where that scored none, or where the training data are gone, which is said on stderr.
    """
    config = config_of(run)
    ranking = None if config is None else ranking_of(config)
    if config is None or ranking is None:
        return {}
    try:
        seen = training_data(learner, run)
    except (FileNotFoundError, DataError) as error:
        say(f"ranking is not scored, because of the training data: {error}")
        return {}
    hook = RankingEvaluation(**ranking.model_dump())
    users, relevant = hook.sample(held_out, config.learner.seed)
    return hook.scores(learner, users, entries_of(seen, users), relevant)
