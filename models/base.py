"""The base class of models.

A model holds the mathematics of one replica; its pydantic fields are the configuration. A new model
is a subclass with `allocate`, `update`, `score` and `predict`; docs/custom-model.md builds one in
20 lines. The learner owns the loop, the threads and the files.

Longer than 300 lines: what a model may define and what it gets is described in one place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Self, Unpack, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import ConfigDict

from blocklearn.datasources import DataSource
from blocklearn.fields import Fields, set_by
from blocklearn.matcache import (
    Mat,
    MatCache,
    Merge,
    Number,
    Scalar,
    ShapeError,
    Table,
    named,
    scalar,
)
from blocklearn.matcache.errors import source_line
from blocklearn.matcache.finite import is_finite
from blocklearn.optimizers import Meaning, Objective, Optimizer, Term, Update

from .block_size import BlockSize
from .earlier import earlier_needs, take_earlier
from .inputs import Block, Drawn, Needs, Randomness, Shapes
from .score import DataScore, Score, Total
from .split_terms import SplitTerm, slopes_of
from .states.row_state import RowState
from .states.row_store import Init
from .states.token_state import TokenState
from .undecided import Undecided

OWN = {"allocated", "updates", "objective"}
"""Attributes of a model that change from block to block, or with its life."""

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class Model(Fields):
    """Base of all models. Fields are the configuration; `allocate` makes the Mats.

    Class attributes:

    needs_targets: `update` and `score` read `block.Y`; the learner refuses data without targets.
    takes_counts: X must be sparse and not negative; the learner converts dense arrays and checks.
    nonnegative: X, sparse or dense, must not be negative; the learner checks every block. Without
        this and `takes_counts`, files of `{kind: file}` may have negative numbers.
    scores_new_rows: `score` receives new rows, whose state is unknown. Otherwise a model with a
        state of rows is scored by further entries of the training rows.
    meaning: of the updates, "gradients" or "estimates"; None where any optimizer will do.
    row_states: sides of the states of rows, by name: 0 for rows of the data, 1 for its columns.
        If one is 1, a pass visits all blocks of rows (`block.side` 0), then all blocks of the
        transposed data (1), if the source has them; `shapes.sides` is then 2.
    takes_terms: names of non-negative parameters whose new values `update` or `end_pass` makes with
        the terms of mixins in them: see `slopes`.
    prediction_columns: names of the columns of predictions, for tables; None: they are numbered.
    steps_by_pass: `update` only adds up, and `end_pass` learns, so rows are not shuffled.
    rows_in_order: rows are not shuffled, for a row belongs to those before and after it.
    block_size: what `block_rows: auto` aims at; see `rows_of_block`.
    recorded: after the first blocks, launches of `update` are repeated without calling it; False:
        it is called for every block.
    reads_occurring: where a parameter has a row for each column, `update` and scores of training
        read only the rows whose columns occur in the block. A worker may then let its other rows
        become old. Subclasses do not inherit this: each sets it for itself.

    Attributes of a replica, see `attach`: `parameters` are saved, merged and resumed. `update` may
    fill `updates`, expressions by parameter, for the optimizer.
    """

    needs_targets: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False
    scores_new_rows: ClassVar[bool] = False
    meaning: ClassVar[Meaning | None] = None
    row_states: ClassVar[Mapping[str, int]] = {}
    takes_terms: ClassVar[Sequence[str]] = ()
    prediction_columns: ClassVar[Sequence[str] | None] = None
    steps_by_pass: ClassVar[bool] = False
    rows_in_order: ClassVar[bool] = False
    block_size: ClassVar[BlockSize] = BlockSize()
    steps_of_pass: ClassVar[int]  # of earlier versions, as are the next two: see `block_size`
    least_block: ClassVar[int]
    largest_block: ClassVar[int]
    recorded: ClassVar[bool] = True
    reads_occurring: ClassVar[bool] = False
    model_config = ConfigDict(
        arbitrary_types_allowed=True,
        validate_assignment=True,
        validate_default=True,
        ignored_types=(Needs,),
    )

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        """Raise TypeError for an `__init__` of its own, and for values that the class cannot have.

        Loading a model, and copying it for a replica, makes it from its fields alone.
        """
        own: object = cls.__init__
        if own is not Fields.__init__:
            raise TypeError(
                f"{cls.__name__}: a model has no __init__ of its own. Its settings are fields "
                "(`clusters: int = 8` in the class); matrices are made in allocate()."
            )
        states: object = cls.row_states
        if not isinstance(states, Mapping) or any(side not in (0, 1) for side in states.values()):
            raise TypeError(
                f"{cls.__name__}: row_states={states!r}: must be a dictionary of sides by name, "
                'such as {"users": 0, "items": 1}: 0 for a state of the rows of the data, 1 for '
                "one of its columns."
            )
        if isinstance(cls.meaning, str) and cls.meaning not in get_args(Meaning):
            raise TypeError(
                f"{cls.__name__}: meaning={cls.meaning!r}: must be "
                f"{' or '.join(map(repr, get_args(Meaning)))}, or None."
            )
        take_earlier(cls)
        super().__init_subclass__(**options)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field, which is validated, or an attribute of the replica."""
        allocated = self.__dict__.get("allocated")
        if allocated and name not in OWN and value is not self.__dict__.get(name):
            self.cache.edit(f"sets {type(self).__name__}.{name}")
        if name in type(self).__pydantic_fields__:
            super().__setattr__(name, value)
            return
        if allocated:
            self._check_bound(name, value)
        if isinstance(value, Mat) and (name in self.reserved or hasattr(type(self), name)):
            raise ShapeError(
                f"{type(self).__name__}.{name} = ... at {source_line()}: is a name that all models "
                "have for something else. Give the matrix another one."
            )
        object.__setattr__(self, name, value)

    def __repr_args__(self) -> Sequence[tuple[str | None, object]]:
        """Yield the fields and, of a trained model, the shapes of its parameters."""
        shapes = self.__dict__.get("learned_shapes")
        return [*super().__repr_args__(), *([("parameters", shapes)] if shapes else [])]

    def show_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Show these shapes of parameters, by name, in `repr`."""
        self.learned_shapes = dict(shapes)

    def _check_bound(self, name: str, value: object) -> None:
        """Raise ShapeError if `value` would replace an attribute's named matrix.

        The matrix, maybe a parameter, would then keep its old values.
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
        """Learn from a block: assign parameters, or fill `self.updates`."""

    @abstractmethod
    def score(self, block: Block) -> Score:
        """Return sums of scores by name: {"mean_distance": Sum(total, count)}."""

    @abstractmethod
    def predict(self, block: Block) -> Mat:
        """Return one result row for each row of the block."""

    @property
    def needs_scale(self) -> str | None:
        """Why an optimizer must not scale columns to sum to 1; None: it may.

        The text is the end of an error message, and names what to use instead.
        """
        return None

    @property
    def needs(self) -> Needs:
        """What `allocate` needs to know of the training data: `needs = Needs(sample=100)`."""
        return Needs(**earlier_needs(self))

    def check_targets(self, Y: NDArray[np.floating]) -> None:
        """Raise an error if `update` and `score` cannot use Y, NumPy [rows x targets]."""

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` as the model reads it: a model may add entries to its blocks.

        seed: of the run.
        train: whether it is trained on; otherwise it is scored, or predictions are made for it.
        """
        return source

    def remember(self, name: str, numbers: NDArray[np.float32]) -> None:
        """Keep numbers of the training data that `prepared` has found.

        `allocate` makes a parameter of this name of them, so that saved models have them, too.
        """
        self.of_data: dict[str, NDArray[np.float32]] = {**self.__dict__.get("of_data", {})}
        self.of_data[name] = numbers

    def recalled(self, name: str) -> NDArray[np.float32] | None:
        """Return what `remember` was given, or the parameter of a loaded model; None: neither."""
        kept: NDArray[np.float32] | None = self.__dict__.get("of_data", {}).get(name)
        if kept is None and name in self.__dict__.get("parameters", {}):
            kept = self.parameters[name].numpy().copy()
            self.remember(name, kept)
        return kept

    def untrained(self) -> Self:
        """Return a copy without parameters and numbers of data.

        The fields are kept, and `recorded`, which `bl.check_model` sets on a copy.
        """
        copy = self.model_copy()
        for name in copy.__dict__.keys() - type(self).model_fields.keys() - {"recorded"}:
            del copy.__dict__[name]
        return copy

    @property
    def undecided(self) -> Undecided | None:
        """The setting that is chosen by trials before training, such as "reg=auto"; None: none.

        `allocate` refuses to work while there is one: see `not_chosen`.
        """
        return None

    def score_totals(self, rows: int | None) -> Mapping[str, Total]:
        """Return totals for the scores that do not add up as a few numbers, by name.

        Called after `allocate`.

        rows: of the data that are scored; None: one block at a time.
        """
        return {}

    def data_scores(self) -> Sequence[DataScore]:
        """Return scores of the parameters that read the blocks of an evaluation on the host.

        Called after `allocate`.
        """
        return ()

    def end_pass(self) -> None:
        """Finish a pass: `update` has seen all its blocks."""

    def settle(self) -> None:
        """Make parameters exact whose rows rest, for readers other than training.

        The learner calls it before such readers, and after `end_pass`.
        """

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the Mats to restore after a `settle` that training must not see.

        ever: True: those that may need it after any number of blocks, not only now.
        """
        return []

    def resumed(self) -> None:
        """Make what follows from parameters that were set, or merged, from elsewhere."""

    @property
    def converged(self) -> bool:
        """Whether further passes would gain nothing: training ends. Asked between passes."""
        return False

    def phases(self) -> Sequence[int]:
        """Return the first pass of each phase.

        In each phase `update` computes something else: what `block.phase` asks for.

        Memory is planned for each phase. Step sizes that count blocks start again with each phase.
        """
        return (0,)

    def parts_at(self, told: int, passes: int) -> int | None:
        """Return the first pass in which runs of `told` and `passes` passes differ.

        None: they agree in all passes that both have.
        """
        return None

    def default_optimizer(self) -> Optimizer | None:
        """Return the default optimizer; None if `update` assigns parameters."""
        return None

    def rows_of_block(self, rows: int | None) -> int:
        """Return the rows of a block that `block_rows: auto` stands for.

        Override it if the choice depends on fields; else set `block_size`.

        rows: of the training data; None: they are not in memory.
        """
        return self.block_size.of(rows)

    def optimizer_for(self, shapes: Shapes, terms: Sequence[Term]) -> Optimizer | None:
        """Return the default optimizer for given data.

        Override it if the choice depends on them.

        shapes: of the data, without `counts` and `value_sums`.
        terms: of the objective, from mixins.
        """
        return self.default_optimizer()

    # ------------------------------------------------------------- what the base provides

    def attach(self, cache: MatCache) -> None:
        """Declare the attributes of a replica. The learner calls this before `allocate`."""
        self.allocated = False  # once `allocate` has returned, its matrices stay bound
        if getattr(self, "cache", None) is not cache:
            self.states: dict[str, RowState | TokenState] = {}  # by name
        self.cache = cache  # where this replica's Mats live

        # Made by `parameter`:
        self.parameters: dict[str, Mat] = {}  # saved, merged and resumed
        self.merge_rules: dict[str, Merge] = {}  # how replicas combine each parameter
        self.unsaved: set[str] = set()  # parameters that only further training needs
        self.drawn: dict[str, Drawn] = {}  # initial values that are drawn, by parameter

        # `allocate` may fill:
        self.penalised: list[str] = []  # parameters that mixins act on: weights, not intercepts
        self.terms: dict[str, list[Term]] = {}  # penalties of the model's own, by parameter
        self.rates: dict[str, Mat] = {}  # factors of the rate [1 x columns], by parameter
        self.notes: list[str] = []  # what the model chose and why; shown when training starts
        self.rests: dict[str, Mat] = {}  # estimates of rows that do not occur, by parameter
        self.needs_optimizer = True  # False: `update` assigns the parameters after all
        self.changes_occurring = False  # True: blocks then assign rows of columns that occur only

        # The learner fills:
        self.split_terms: dict[str, list[SplitTerm]] = {}  # of mixins, by name in `takes_terms`
        self.column_sums: dict[str, Mat] = {}  # column sums of parameters whose rows rest
        self.few_occur = False  # whether most columns of the data occur in no single block
        self.lent: Collection[str] = ()  # parameters that lie in the file of a saved model
        self.trains = True  # False: `update` is never called
        self.rows_in_files: int | None = None  # tables of so many rows lie in files

        # `update` may fill:
        self.updates: dict[str, Update] = {}  # for the optimizer, by parameter
        self.objective: Objective | None = None  # the block's loss and weight, for full passes

    def parameter(
        self,
        name: str,
        rows: int,
        columns: int,
        init: Table | Number | Drawn | NDArray[np.floating] = 0.0,
        *,
        merge: Merge = "mean",
        saved: bool = True,
    ) -> Mat:
        """Create a parameter, float32 [rows x columns].

        init: first value: a number, an expression, a NumPy array [rows x columns], or
            `rng.drawn(...)`, with which a table may lie in a file.
        merge: how replicas are combined: "mean" for weights, "sum" for statistics.
        saved: whether the trained model includes it; otherwise only checkpoints do.
        """
        mat = self._learned(name, named(self.cache, name, (rows, columns)), merge)
        idle = not (saved or self.trains)  # its zeros take no memory until they are written to
        if name in self.lent or (idle and isinstance(init, int | float) and not init):
            pass
        elif isinstance(init, np.ndarray):
            with np.errstate(over="ignore"):
                finite = is_finite(init.astype(np.float32, copy=False))
            if not finite:
                raise ShapeError(
                    f"{type(self).__name__}: parameter {name!r}: init has numbers that are not "
                    "finite in float32."
                )
            mat.set(init)
        elif isinstance(init, Drawn):
            self.drawn[name] = init
            if rows == self.rows_in_files:
                pass
            elif isinstance(init.table, np.ndarray):
                mat.set(init.table)
            else:
                mat <<= init.table
        else:
            mat <<= init
        if not saved:
            self.unsaved.add(name)
        return mat

    def statistic(self, name: str, rows: int, columns: int, dtype: DTypeLike = np.float32) -> Mat:
        """Create sums over the data that only training needs: a parameter of zeros.

        Replicas add up by how much their sums have grown. Only checkpoints hold them.

        dtype: float32, or float64.
        """
        self.unsaved.add(name)
        return self._learned(name, named(self.cache, name, (rows, columns), dtype), "sum")

    def _learned(self, name: str, mat: Mat, merge: Merge) -> Mat:
        """Enter `mat` as the parameter `name`."""
        if self.allocated:
            raise ShapeError(
                f"{type(self).__name__}: parameter {name!r} at {source_line()}: must be made in "
                "allocate(). Make it there, and assign to it here: self.NAME <<= value."
            )
        if name in self.parameters:
            raise ShapeError(f"{type(self).__name__}: there are two parameters called {name!r}.")
        if merge not in get_args(Merge):
            rules = ", ".join(map(repr, get_args(Merge)))
            raise ShapeError(
                f"{type(self).__name__}: parameter {name!r}: merge={merge!r}: must be one of "
                f"{rules}."
            )
        self.parameters[name], self.merge_rules[name] = mat, merge
        self._check_apart(name)
        return mat

    def _check_apart(self, name: str) -> None:
        """Raise ShapeError for a name of a parameter that states of rows have, too."""
        if name in self.parameters and name in self.states:
            raise ShapeError(
                f"{type(self).__name__}: a parameter and a state of rows are both called {name!r}: "
                "saved models and checkpoints could hold one of them only. Rename one."
            )

    def row_state(self, name: str, shapes: Shapes, columns: int, init: Init = 0.0) -> RowState:
        """Return the state `name`, of `row_states`: float32 [rows of its side x columns].

        init: the first values. `(kind, scale)` or `(kind, scale, centre)` draws
            `centre + scale * noise`, where kind "normal" is the standard normal distribution, and
            "uniform" is [0, 1). Values, scales, centres: a number, or an array [columns].

        Raises ShapeError if `row_states` lacks the name.
        """
        if name not in self.row_states:
            raise ShapeError(
                f"{type(self).__name__}.row_state({name!r}): row_states={dict(self.row_states)}: "
                f'must have {name!r}. Write row_states = {{"{name}": 0}} in the class: 0 for a '
                "state of the rows of the data, 1 for one of its columns."
            )
        if name not in self.states:
            side = self.row_states[name]
            rows = shapes.columns if side else shapes.total_rows
            self.states[name] = RowState(self.cache, name, side, (rows, columns), shapes.rows, init)
            self._check_apart(name)
        state = self.states[name]
        assert isinstance(state, RowState)
        if state.shape[1] != columns:
            raise ShapeError(
                f"{type(self).__name__}.row_state({name!r}): {columns} columns, but the state has "
                f"{state.shape[1]} already."
            )
        return state

    def token_state(
        self, name: str, shapes: Shapes, dtype: type[np.uint16 | np.uint32]
    ) -> TokenState:
        """Return the state `name` of tokens: a number for each of `shapes.tokens`.

        Only checkpoints hold it. Training on other rows begins without it.

        dtype: of the numbers. At first, every token has the largest.
        """
        if name not in self.states:
            assert shapes.tokens is not None
            self.states[name] = TokenState(self.cache, name, shapes.tokens, shapes.rows, dtype)
        state = self.states[name]
        assert isinstance(state, TokenState)
        return state

    def slopes(self, name: str) -> tuple[Table, Table] | None:
        """Return the two parts of the gradient of the mixins on a parameter of `takes_terms`.

        They are (rising, falling), expressions of its shape, never negative; None without mixins.
        Mixins are weighed against the mean loss of the rows. docs/how-to/mixin.md has an example.
        """
        return slopes_of(self.split_terms.get(name, ()), self.parameters[name])

    @property
    def resting(self) -> dict[str, Mat]:
        """The `rests` of parameters that no mixin moves: for `Optimizer.let_rest`."""
        return {name: mat for name, mat in self.rests.items() if name not in self.split_terms}

    @property
    def has_resting_rows(self) -> bool:
        """Whether rows of parameters rest: `Block.resting` tells `score` when they are behind."""
        return bool(self.column_sums)

    def scratch(self, name: str, rows: int, columns: int) -> Mat:
        """Create a float32 Mat to fill anew for each block, neither saved nor merged."""
        return named(self.cache, f"{name} (scratch)", (rows, columns))

    def number(self, name: str, value: float = 0.0) -> Scalar:
        """Create a number that changes from block to block: set it with `.set(value)`."""
        return scalar(self.cache, value, f"{name} (number)")


Model.reserved = set_by(Model.attach, object())


__all__ = ["Merge", "Model"]
