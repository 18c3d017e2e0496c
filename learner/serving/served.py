"""A loaded model that answers requests, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataError, DataKind, MatrixSource
from blocklearn.datasources.arrays.hashed_names import HashedWords
from blocklearn.models import LDA, NMF, FactorModel, Model

from ..recommendation import recommend as recommending
from ..recommendation.factors import Factors, factors_of
from ..recommendation.pairs import pair_values
from ..reports.lines import topic_names, topics_list
from ..results.persistence import kind_of, load
from ..results.predictions import prediction_names
from ..results.topic_shares import largest_topics, topic_records, topic_shares
from ..runs.model_inputs import config_of
from ..runs.new_data import columns_of
from ..runs.rating_inputs import training_data
from .questions import FindTopics, PredictRatings, PredictRows, Recommend, RequestError, Similar
from .rows import Columns, RowReader, unknown_names

FEW_COLUMNS = 4096  # a model without a configuration takes dense rows of at most so many columns

MOST_NUMBERS = 1 << 20  # of an answer
Answer = dict[str, Any]


class Served:
    """A model with its tables of names, made once.

    All methods are called in one thread.

    kind: of the model, as in configurations.
    seen_error: why the training data, which say what users have seen, cannot be opened; None: they
        are open, or not needed.
    """

    def __init__(
        self,
        run: Path,
        *,
        threads: int | None = None,
        device: str = "cpu",
        model: type[Model] | None = None,
    ) -> None:
        """Load the model of a run, or of a model folder.

        Raises:
            ModelMissingError: the folder has no model.
            ModelFolderError: it is damaged.
        """
        self.run = run
        self.learner = load(run, model, threads=threads, device=device)
        self.kind = kind_of(type(self.learner.model))
        config = config_of(run)
        self.data: DataKind | None = None if config is None else config.data.train
        if config is not None:  # blocks as `learn predict` has them
            self.learner.data.block_rows = config.data.rows_of_block(self.learner.data.block_rows)
        self.columns = Columns(self.learner.names, columns_of(self.learner))
        self.reader = RowReader(
            self.columns,
            self.data,
            dense=self._dense,
            counts=self.learner.model.takes_counts,
            texts=not isinstance(self.learner.model, FactorModel)
            and self.learner.names is not None,
        )
        self.seen: Any = None
        self.seen_error: str | None = None
        if isinstance(self.learner.model, FactorModel):
            try:
                self.seen = training_data(self.learner, run)
            except (OSError, DataError) as error:
                self.seen_error = str(error)

    @property
    def _dense(self) -> bool:
        learner = self.learner
        if learner.model.takes_counts or isinstance(learner.model, FactorModel):
            return False
        if self.data is not None:
            return self.data.dense
        hashed = isinstance(learner.names, HashedWords)
        return not hashed and columns_of(learner) <= FEW_COLUMNS

    @property
    def has_topics(self) -> bool:
        """Whether the model has topics, or parts."""
        return isinstance(self.learner.model, LDA | NMF)

    @property
    def has_factors(self) -> bool:
        """Whether the model has users and items."""
        return isinstance(self.learner.model, FactorModel)

    @cached_property
    def factors(self) -> Factors:
        """The factors of users and items."""
        return factors_of(self.learner)

    @cached_property
    def users(self) -> Columns:
        """Finds users by name."""
        return Columns(self.factors.user_ids, len(self.factors.users))

    # ------------------------------------------------------------- answers

    def predict(self, question: PredictRows) -> Answer:
        """Apply the model to rows."""
        values, unknown = self._predicted(question.rows, skip_unknown=question.skip_unknown)
        return {
            "names": self._output_names,
            "predictions": plain(values),
            "unknown": unknown,
        }

    def rate(self, question: PredictRatings) -> Answer:
        """Predict the ratings of pairs, or make factors of rows of ratings."""
        if question.pairs is None:
            assert question.rows is not None
            rows = PredictRows(rows=question.rows, skip_unknown=question.skip_unknown)
            return self.predict(rows)
        users, items = (list(names) for names in zip(*question.pairs, strict=True))
        found, listed = self.users.numbers(users), self.columns.numbers(items)
        values = pair_values(self.learner, self.factors, found, listed)
        return {
            "predictions": plain(values),
            "user_known": (found >= 0).tolist(),
            "item_known": (listed >= 0).tolist(),
        }

    def find_topics(self, question: FindTopics) -> Answer:
        """Return the largest topics of documents, or the largest parts of rows."""
        values, unknown = self._predicted(question.rows, skip_unknown=question.skip_unknown)
        shares, names = topic_shares(self.learner, values), self._topic_names
        largest = largest_topics(shares, question.least, question.top)
        topics = [
            topic_records(row, chosen, names) for row, chosen in zip(shares, largest, strict=True)
        ]
        return {"topics": topics, "unknown": unknown}

    def topics(self, top: int, relevance: float) -> Answer:
        """Return the words of all topics."""
        return {"topics": topics_list(self.learner, top, relevance)}

    def recommend(self, question: Recommend) -> Answer:
        """List the best items for users of the training data, or for new users."""
        items = question.items
        chosen = None
        if items is not None:
            chosen = self._known("items", self.columns, items, skip=question.skip_unknown)
        options: dict[str, Any] = {"exclude_seen": not question.include_seen, "items": chosen}
        if question.rows is not None:
            X, _ = self.reader.read(question.rows, skip_unknown=question.skip_unknown)
            lists = recommending.recommend(self.learner, X, question.top, **options)
            return {"lists": list(lists.records())}
        if not question.include_seen and self.seen is None:
            raise DataError(
                f"include_seen: must be true, as what users have seen is unknown: {self.seen_error}"
            )
        users = self._known("users", self.users, question.users or [], skip=question.skip_unknown)
        if not users.size:
            return {"lists": []}
        wanted, places = np.unique(users, return_inverse=True)  # a source has each row once
        options["seen"] = None if question.include_seen else self.seen
        lists = recommending.recommend(self.learner, wanted, question.top, **options)
        by_user = {record["user"]: record for record in lists.records()}
        names = self.factors.names("user").take(wanted)
        return {"lists": [by_user[names[int(place)]] for place in places]}

    def similar(self, question: Similar) -> Answer:
        """List the items most like each item, or the users most like each user."""
        side: Literal["item", "user"] = "item" if question.users is None else "user"
        columns = self.columns if side == "item" else self.users
        given = question.items if question.users is None else question.users
        which = self._known(f"{side}s", columns, given or [], skip=question.skip_unknown)
        lists = recommending.similar(self.learner, side, which, question.top)
        return {"lists": list(lists.records()) if which.size else []}

    # ------------------------------------------------------------- helpers

    @cached_property
    def _topic_names(self) -> list[str]:
        return topic_names(self.learner)

    @cached_property
    def _output_names(self) -> list[str] | None:
        return self._topic_names if self.has_topics else prediction_names(self.learner)

    def _predicted(self, rows: Sequence[Any], *, skip_unknown: bool) -> tuple[Any, list[int]]:
        """Return the predictions [rows x k], and the number of unknown names of each row."""
        X, unknown = self.reader.read(rows, skip_unknown=skip_unknown)
        return self.learner.predict(
            MatrixSource(X, block_rows=self.learner.data.block_rows)
        ), unknown

    def _known(
        self, what: str, columns: Columns, names: list[str], *, skip: bool
    ) -> NDArray[np.int64]:
        """Return the numbers of names. Raises `DataError` for unknown ones, unless `skip`."""
        found = columns.numbers(names)
        if (found < 0).any() and not skip:
            unknown = [n for n, number in zip(names, found, strict=True) if number < 0]
            raise DataError(unknown_names(what, unknown, len(names)))
        return found[found >= 0]


def plain(values: NDArray[Any]) -> Any:
    """Return numbers as lists for JSON; null for those that are not finite.

    Raises `RequestError` for more than `MOST_NUMBERS`.
    """
    if values.size > MOST_NUMBERS:
        raise RequestError(
            413, f"an answer of {values.size:,} numbers: must be at most {MOST_NUMBERS:,}. "
            "Ask for fewer rows."
        )  # fmt: skip
    if np.isfinite(values).all():
        return values.tolist()
    listed: NDArray[Any] = values.astype(object)
    listed[~np.isfinite(values)] = None
    return listed.tolist()
