"""The data of a run, and what a model learns from them: names, and numbers of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from blocklearn.datasources import (
    BlockShape,
    DataSource,
    Reading,
    Sizing,
    TwoSidedSource,
    row_names,
    target_names,
)
from blocklearn.datasources.arrays.same_names import check_names
from blocklearn.datasources.given import Known
from blocklearn.datasources.source import dealt, first_rows
from blocklearn.matcache import ShapeError
from blocklearn.models import Model
from blocklearn.models.states.row_share import RowShare

from ..settings.checks import check_rows
from .data import check_labelled, open_parts, open_source, share_of


class RunData:
    """Data of training and of scores, as a model reads them.

    - train: the training data; None: there are none.
    - across: the same, transposed, if the model visits columns too.
    - eval: the data of scores.
    - given: both, before the model weighs them or adds entries.
    - names, target_names, row_names: of columns, targets and rows; None: unknown.
    - targets, columns: their numbers in the training data; None: unknown.
    - of_rows: rows of the whole data, if `train` is one part of them; None: `train` is all.
    - block_rows: rows of a block.
    - model: that reads them.
    """

    def __init__(
        self,
        model: Model,
        *,
        seed: int,
        replicas: int,
        block_rows: int | Sizing,
        of_rows: int | None,
    ) -> None:
        """replicas: of all workers; a row with a state stays with its replica.

        block_rows: or how to choose it from the data.
        """
        self.train: DataSource | None = None
        self.across: DataSource | None = None
        self.eval: DataSource | None = None
        self.given: tuple[DataSource | None, DataSource | None] = (None, None)
        self.names: Sequence[str] | None = None
        self.target_names: Sequence[str] | None = None
        self.row_names: Sequence[str] | None = None
        self.targets: int | None = None
        self.columns: int | None = None
        self.of_rows = of_rows
        self.block_rows = Reading(block_rows).rows_of_block()  # until there are training data
        self.model = model
        self._seed, self._replicas, self._sizing = seed, replicas, block_rows

    def open(self, train: Any, eval: Any, *, shuffle: bool, passes: int, scored: int) -> None:
        """Open the data of a learner: see `Learner`.

        shuffle: whether every pass takes the rows in another order.
        passes, scored: how often the data of training and of scores are read.
        """
        model = self.model
        visits = passes if model.steps_by_pass else 1  # blocks are the same in all
        reading = Reading(self._sizing, shuffle, self._seed, visits)
        source, other, share = None, None, share_of(eval)
        if share is not None:
            if train is None:
                raise ValueError(f"Learner: eval={eval}: must come with data. Pass train=X, too.")
            held = replace(reading, shuffle=False, visits=scored)
            source, other = open_parts(train, share, reading, held, model)
            check_labelled(model, other, "eval")
        elif train is not None:
            source = open_source(train, reading, model)
        if source is not None:
            check_labelled(model, source, "train")
            self.train_on(source)
        if eval is not None and other is None:
            other = self.source(eval, "eval", visits=scored)
        if source is not None and other is not None:
            check_rows(model, source.shape.total_rows, self.row_names, other, "eval")
        if other is not None:
            self.score_on(other)

    def decide(self, source: DataSource | None, passes: int) -> Model:
        """Return the model with the settings that its first data of training decide.

        passes: of the run. Parts of the whole data decide nothing, since others may come.
        """
        if source is not None and self.of_rows is None:
            stayed = self._rows_stay
            self.model = self.model.for_data(source, passes)
            if self._rows_stay != stayed and source is self.given[0]:
                self.train_on(source)  # its rows now stay with their replicas
        return self.model

    def source(
        self,
        data: Any,
        name: str | None = None,
        *,
        side: int = 0,
        visits: int = 1,
        shuffle: bool = False,
    ) -> DataSource:
        """Open `data` as a source.

        name: the use that needs its targets, if any.
        side: 1 if its rows are columns of the training data.
        """
        reading = Reading(self.block_rows, shuffle, self._seed, visits)
        columns = None if self.train is None else self.train.shape.columns
        rows = self.row_names if name in ("eval", "evaluate") else None
        known = Known() if side else Known(self.names, columns, self.target_names, rows)
        source = open_source(data, reading, self.model, known, side=side)
        if source is data and not side:
            check_names("Learner: the data", source.names, self.names)
        if name is not None:
            check_labelled(self.model, source, name)
        return source

    def prepared(self, source: DataSource) -> DataSource:
        """Return `source` as the model scores it, or makes predictions for it."""
        return self.model.prepared(source, self._seed, train=False)

    def train_on(self, source: DataSource) -> None:
        """Take the data of training, and those of its names that are not known yet."""
        model = self.model
        two_sided = 1 in model.row_states.values()
        self.given = source, self.given[1]
        if self._rows_stay:
            source = dealt(source, self._replicas)
        source = model.prepared(source, self._seed, train=True)
        self.train, self.block_rows = source, source.shape.rows  # a source has its own block size
        self.across = None
        if two_sided and isinstance(source, TwoSidedSource):
            self.across = dealt(source.transposed(), self._replicas)
        self.names = self.names if self.names is not None else source.names
        self.target_names = self.target_names or target_names(source)
        self.row_names, self.targets = row_names(source), source.shape.targets
        self.columns = source.shape.columns

    def score_on(self, source: DataSource) -> None:
        """Take the data of scores."""
        self.given = self.given[0], source
        self.eval = self.prepared(source)

    def turn_to(self, source: DataSource, eval: Any, before: int) -> None:
        """Take other data of training, over the same columns.

        eval: data to score in place of the earlier ones; None: those stay.
        before: rows that were trained on so far.
        """
        self.train_on(source)
        if eval is not None:
            self.score_on(self.source(eval, "eval"))
        if self.of_rows is None and before:
            self.of_rows = before + source.shape.total_rows

    def let_go(self) -> None:
        """Keep what is known of the training data, but not their rows."""
        self.train, self.across, self.given = None, None, (None, self.given[1])

    @property
    def _rows_stay(self) -> bool:
        """Whether a row stays with its replica, which has its state."""
        return bool(self.model.row_states or self.model.needs.tokens)

    @property
    def sides(self) -> list[DataSource]:
        """The training data, in each orientation that a pass visits."""
        return [source for source in (self.train, self.across) if source is not None]

    @property
    def training(self) -> DataSource:
        """The training data. Raises ValueError if there are none."""
        if self.train is None:
            raise ValueError("Learner: there is nothing to train on; pass train=X.")
        return self.train

    def shares(self, rank: int, workers: int) -> list[RowShare]:
        """Return the rows of one of several workers, of each side; none if rows have no states."""
        if not self._rows_stay:
            return []
        return [RowShare(first_rows(source), rank, workers) for source in self.sides]

    def check_columns(self, shape: BlockShape) -> None:
        """Raise ShapeError if data of this shape have other columns than the names tell."""
        if self.names is not None and len(self.names) != shape.columns:
            raise ShapeError(
                f"data of {shape.columns:,} columns, but the model knows {len(self.names):,} names "
                "of columns. Rows are samples, columns features: check the orientation."
            )

    def sizes(self) -> dict[str, int | None]:
        """Return the sizes of the data, which must be the same on all workers."""
        shape = self.training.shape
        return {
            "rows": shape.total_rows,
            "columns": shape.columns,
            "targets": shape.targets,
            "block_rows": shape.rows,
            "of_rows": self.of_rows,
            "eval rows": None if self.eval is None else self.eval.shape.total_rows,
        }
