"""What a model is: one replica's mathematics, with its configuration as pydantic fields.

A new model is a subclass with `allocate`, `update`, `score` and `predict`; docs/custom-model.md
builds one in 20 lines. The learner owns the loop, the threads, the files.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from blocklearn.fields import Fields
from blocklearn.matcache import (
    Mat,
    MatCache,
    Matrix,
    Merge,
    Number,
    Rows,
    Scalar,
    ShapeError,
    SparseMat,
    Table,
    named,
    random,
    scalar,
)
from blocklearn.matcache.errors import source_line
from blocklearn.optimizers import Meaning, Objective, Optimizer, Term, Update

from .row_state import Init, RowState
from .score import Score, Total

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class LabelCounts(NamedTuple):
    """Of all training rows: the sum of their weights; weighted sums of their targets [targets]."""

    weight: float
    sums: Sequence[float]


class ValueSums(NamedTuple):
    """Of all stored values of the training rows: their sum and their number."""

    total: float
    number: int


@dataclass(frozen=True)
class Shapes:
    """What `allocate` is told. rows: of a block; columns: features; total_rows: of one pass;
    passes: that are planned in all. sides: 2 where a pass visits the rows and then the columns of
    the data, 1 where only rows come, though the model would take both.

    targets: columns of block.Y, 0 where the data have none. names, target_names: of the columns of
    X and of Y, None where nobody knows them. counts, value_sums: where the model `needs_counts` or
    `needs_value_sums`, and there are training data. dense: whether X is. of_rows: of the whole that
    a pass is a part of, where data come part by part; see `whole_rows`.
    """

    rows: int
    columns: int
    total_rows: int
    targets: int = 0
    names: Sequence[str] | None = None
    target_names: Sequence[str] | None = None
    passes: int = 1
    counts: LabelCounts | None = None
    sides: int = 1
    value_sums: ValueSums | None = None
    dense: bool = False
    of_rows: int | None = None

    @property
    def whole_rows(self) -> int:
        """Rows of everything that a model learns from: of one pass, or of what it is a part of."""
        return self.of_rows or self.total_rows


@dataclass(frozen=True)
class Block:
    """The rows that `update`, `score` and `predict` are given.

    X: [shapes.rows x columns], SparseMat or Mat; rows beyond the true `rows` are empty (zero).
    row_ids: int64 [shapes.rows x 1], numbers of the rows in their source, -1 for padding.
    key: int64 [1 x 3], (seed, pass, block): the key for random numbers.
    Y: [shapes.rows x shapes.targets], what the rows are labelled with, padding rows 0; None where
    the data have no targets (`predict` never needs them).
    weights: [shapes.rows x 1], weights of the rows: 1 where none are given, 0 for padding rows.
    weight: their sum, a number that changes from block to block. pass_: number of the pass, from 0.
    side: 0; or 1 where the rows are columns of the data (see `Model.row_states`).
    """

    X: Matrix
    rows: int
    row_ids: Mat
    key: Mat
    Y: Rows
    weights: Mat
    pass_: int = 0
    weight: float = 0.0
    side: int = 0


class Randomness:
    """Random tables for `allocate`; each call draws from a stream of its own."""

    def __init__(self, cache: MatCache, seed: int) -> None:
        """cache: where the tables will live."""
        self._cache = cache
        self._key = named(cache, "key of initial values", (1, 3), np.int64)
        self._key.set(np.array([[seed, 2**31 - 1, 0]]))  # a pass that no training reaches
        self._stream = 0

    def uniform(self, rows: int, columns: int) -> Table:
        """Uniform numbers in (0, 1): an expression [rows x columns], never stored by itself."""
        self._stream += 1
        return random(self._cache, (rows, columns), self._key, self._stream)


class Model(Fields):
    """Base of all models. Fields are the configuration; Mats are made in `allocate`.

    `parameters` are what is saved, merged and resumed. `updates`, filled by `update`, are what the
    optimizer takes: an expression by name of parameter, its meaning agreed between the two.
    `needs_targets`: `update` and `score` read `block.Y`, so the learner asks for data that have it.
    `takes_counts`: X must be sparse and not negative; the learner converts dense arrays and checks.
    `nonnegative`: X, sparse or dense, must not be negative; the learner checks every block.
    `meaning`: of the updates, "gradients" or "estimates"; None where any optimizer will do.
    `row_states`: names of the states of rows, and whose: 0, the rows of the data, 1, its columns.
    Where there is a 1, a pass visits all blocks of rows (`block.side` 0), then all blocks of the
    transposed data (1), if the source has them; `shapes.sides` says so.
    `scores_new_rows`: `score` is given rows that were not trained on, whose state is not known;
    otherwise a model with a state of rows is scored by further entries of these rows.
    """

    needs_targets: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False
    scores_new_rows: ClassVar[bool] = False
    meaning: ClassVar[Meaning | None] = None
    row_states: ClassVar[Mapping[str, int]] = {}
    model_config = ConfigDict(
        arbitrary_types_allowed=True, validate_assignment=True, validate_default=True
    )

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        """Raises TypeError for an `__init__` of its own: a model that is loaded, or copied for a
        replica, is made of its fields.
        """
        own: object = cls.__init__
        if own is not BaseModel.__init__:
            raise TypeError(
                f"{cls.__name__}: a model has no __init__ of its own. Its settings are fields "
                "(`clusters: int = 8` in the class); matrices are made in allocate()."
            )
        super().__init_subclass__(**options)

    def __setattr__(self, name: str, value: object) -> None:
        """Fields stay validated; every other attribute is state of the replica."""
        if name in type(self).model_fields:
            super().__setattr__(name, value)
            return
        if self.__dict__.get("allocated"):
            self._check_bound(name, value)
        object.__setattr__(self, name, value)

    def _check_bound(self, name: str, value: object) -> None:
        """Raises ShapeError where an attribute that is a named matrix would become something else:
        then the matrix, a parameter maybe, never changes.
        """
        now = self.__dict__.get(name)
        if not isinstance(now, Mat) or not now.slot.named or now.cache is not self.cache:
            return
        if isinstance(value, Mat) and value.slot.named:
            return
        raise ShapeError(
            f"{type(self).__name__}.{name} = ... at {source_line()}: must be an assignment into "
            f"the matrix {now.label!r}. Write self.{name} <<= ... (= would bind the name to "
            "something else, and leave the matrix as it is.)"
        )

    # ------------------------------------------------------------- what a model defines

    @abstractmethod
    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create parameters with `self.parameter`, scratch with `self.scratch`."""

    @abstractmethod
    def update(self, block: Block) -> None:
        """Learn from one block: assign parameters, or fill `self.updates` for the optimizer."""

    @abstractmethod
    def score(self, block: Block) -> Score:
        """Sums that say how well the rows are explained: {"mean_distance": Sum(total, count)}."""

    @abstractmethod
    def predict(self, block: Block) -> Mat:
        """One result row per row of the block."""

    @property
    def needs_scale(self) -> str | None:
        """Why the sums of a parameter's columns matter, in words, with what to use in place of an
        optimizer that makes them 1; None: they do not.
        """
        return None

    @property
    def needs_counts(self) -> bool:
        """Whether `allocate` wants the targets counted: a pass over the data before training."""
        return False

    @property
    def needs_value_sums(self) -> bool:
        """Whether `allocate` wants the stored values summed: a pass over the data before."""
        return False

    def check_targets(self, Y: NDArray[np.floating]) -> None:
        """Raises where `update` and `score` cannot use the targets Y of a block's rows (NumPy)."""

    def score_totals(self, rows: int | None) -> Mapping[str, Total]:
        """What scores add up in, by name, where these are more than a few numbers.

        rows: of the data that are scored; None: one block at a time. Called after `allocate`.
        """
        return {}

    def end_pass(self) -> None:
        """All blocks of a pass have been through `update`."""

    def phases(self) -> Sequence[int]:
        """Passes from which on `update` does something else; memory is planned for each of them.

        The optimizer hears of each new phase: step sizes that count blocks start again.
        """
        return (0,)

    def parts_at(self, told: int, passes: int) -> int | None:
        """The first pass that runs of so many passes do not have in common; None: there is none."""
        return None

    def default_optimizer(self) -> Optimizer | None:
        """The optimizer that is used when none is given; None if `update` assigns by itself."""
        return None

    def optimizer_for(self, shapes: Shapes, terms: Sequence[Term]) -> Optimizer | None:
        """The same for data of these shapes (without sums) and terms of the objective beside the
        model's own, where the choice depends on them.
        """
        return self.default_optimizer()

    # ------------------------------------------------------------- what it is given

    def attach(self, cache: MatCache) -> None:
        """Declare what a replica of the model has beside its fields. The learner calls it before
        `allocate`.
        """
        self.allocated = False  # once `allocate` has returned, its matrices stay bound
        if getattr(self, "cache", None) is not cache:
            self.states: dict[str, RowState] = {}  # by name; `row_state` makes them
        self.cache = cache  # where this replica's Mats live

        # Made by `parameter`:
        self.parameters: dict[str, Mat] = {}  # what is saved, merged and resumed
        self.merge_rules: dict[str, Merge] = {}  # how replicas combine each parameter
        self.unsaved: set[str] = set()  # parameters for further training alone

        # `allocate` may fill:
        self.penalised: list[str] = []  # parameters that mixins act on: weights, not intercepts
        self.terms: dict[str, list[Term]] = {}  # penalties of the model's own, by parameter
        self.rates: dict[str, Mat] = {}  # factors of the rate [1 x columns], by parameter
        self.notes: list[str] = []  # what the model chose and why; shown when training starts
        self.needs_optimizer = True  # False: `update` assigns the parameters after all

        # `update` may fill:
        self.updates: dict[str, Update] = {}  # what the optimizer takes, by parameter
        self.objective: Objective | None = None  # the block's loss and weight, for full passes

    def parameter(
        self,
        name: str,
        rows: int,
        columns: int,
        init: Table | Number | NDArray[np.floating] = 0.0,
        *,
        merge: Merge = "mean",
        saved: bool = True,
    ) -> Mat:
        """A parameter [rows x columns], float32, set to `init`: a number, an expression, or
        a NumPy array [rows x columns].

        merge: how replicas are combined: "mean" of weights, "sum" of statistics. saved: whether it
        is part of the trained model; otherwise it is for further training, in checkpoints alone.
        """
        if name in self.parameters:
            raise ShapeError(f"{type(self).__name__}: there are two parameters called {name!r}.")
        mat = named(self.cache, name, (rows, columns))
        if isinstance(init, np.ndarray):
            mat.set(init)
        else:
            mat <<= init
        self.parameters[name] = mat
        self.merge_rules[name] = merge
        if not saved:
            self.unsaved.add(name)
        return mat

    def row_state(self, name: str, shapes: Shapes, columns: int, init: Init = 0.0) -> RowState:
        """The state `name`, one of `row_states`: `columns` float32 numbers for each row of its
        side.

        init: their first value; ("normal", scale) or ("uniform", scale): drawn for each row, from
        the standard normal distribution or from [0, 1), times scale; ("normal", scale, centre):
        plus centre. Values, scales, centres: one number, or an array of one for each column.
        """
        if name not in self.states:
            side = self.row_states[name]
            rows = shapes.columns if side else shapes.total_rows
            self.states[name] = RowState(self.cache, name, side, (rows, columns), shapes.rows, init)
        return self.states[name]

    def scratch(self, name: str, rows: int, columns: int) -> Mat:
        """A float32 Mat that is neither saved nor merged: its contents are made anew per block."""
        return named(self.cache, f"{name} (scratch)", (rows, columns))

    def number(self, name: str, value: float = 0.0) -> Scalar:
        """A number that changes from block to block: set it with `.set(value)`."""
        return scalar(self.cache, value, f"{name} (number)")


__all__ = ["Block", "Merge", "Model", "Randomness", "Shapes", "SparseMat", "ValueSums"]
