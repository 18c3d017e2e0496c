"""The base class of models.

A model holds the mathematics of one replica; its pydantic fields are the configuration. A new model
is a subclass with `allocate`, `update`, `score` and `predict`; docs/custom-model.md builds one in
20 lines. What a model gets for its matrices is in `matrices.py`. The learner owns the loop, the
threads and the files.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, Unpack, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from blocklearn.fields import Fields
from blocklearn.matcache import Mat, Merge
from blocklearn.optimizers import AtRest, Meaning, Optimizer, Term

from .block_size import BlockSize
from .earlier import earlier_needs, take_earlier
from .inputs import Block, Needs, Randomness, Shapes
from .matrices import Matrices
from .score import DataScore, Score, Total
from .undecided import Undecided

if TYPE_CHECKING:
    from blocklearn.datasources import DataSource

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class Model(Matrices):
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
    takes_terms: names of parameters, not negative, that are made with terms of mixins: `slopes`.
    prediction_columns: names of the columns of predictions, for tables; None: they are numbered.
    steps_by_pass: `update` only adds up, and `end_pass` learns, so rows are not shuffled.
    rows_in_order: rows are not shuffled, for a row belongs to those before and after it.
    block_size: what `block_rows: auto` aims at; see `rows_of_block`.
    recorded: after the first blocks, launches of `update`, `score` and `predict` are repeated
        without calling them; False: they are called for every block.
    reads_occurring: where a parameter has a row for each column, `update` and scores of training
        read only the rows whose columns occur in the block. A worker may then let its other rows
        become old. Subclasses do not inherit this: each sets it for itself.
    stays_at_zero: whether gradients of some parameters are 0 where all parameters are.
    held_whole: arrays with a number a column that memory holds beside tables in files, by label.

    Attributes of a replica, see `attach`: `parameters` are saved, merged and resumed. `update` may
    fill `updates`, expressions by parameter, for the optimizer.
    """

    needs_targets: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False
    scores_new_rows: ClassVar[bool] = False
    meaning: ClassVar[Meaning | None] = None
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
    stays_at_zero: ClassVar[bool] = False
    held_whole: ClassVar[Sequence[str]] = ()
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

    def __repr_args__(self) -> Sequence[tuple[str | None, object]]:
        """Yield the fields and, of a trained model, the shapes of its parameters."""
        shapes = self.__dict__.get("learned_shapes")
        return [*super().__repr_args__(), *([("parameters", shapes)] if shapes else [])]

    def show_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Show these shapes of parameters, by name, in `repr`."""
        self.learned_shapes = dict(shapes)

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
        return earlier_needs(self)

    def check_targets(self, Y: NDArray[np.floating]) -> None:
        """Raise an error if `update` and `score` cannot use Y, NumPy [rows x targets]."""

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` as the model reads it: a model may add entries to its blocks.

        seed: of the run.
        train: whether it is trained on; otherwise it is scored, or predictions are made for it.
        """
        return source

    def untrained(self) -> Self:
        """Return a copy without parameters and numbers of data.

        The fields are kept, and `recorded`, which `bl.check_model` sets on a copy.
        """
        copy = self.model_copy()
        for name in copy.__dict__.keys() - type(self).model_fields.keys() - {"recorded"}:
            del copy.__dict__[name]
        return copy

    def for_run(self, passes: int, begun: Mapping[str, object] | None = None) -> Self:
        """Return the model with the settings that the length of a run decides.

        passes: of the run.
        begun: the fields that a run which resumes began with: what they decided stays.
        """
        return self

    def for_data(self, source: DataSource, passes: int) -> Self:
        """Return the model with the settings that its training data and passes decide."""
        return self

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

    @property
    def at_rest(self) -> Mapping[str, AtRest]:
        """Parameters whose rows `settle` changes in closed form, each row by itself; by name."""
        return {}

    @property
    def derived(self) -> Sequence[str]:
        """Parameters that follow from others by `derive`, where rows are `at_rest`."""
        return ()

    def derive(self) -> None:
        """Make the parameters that are `derived`, when all rows of the others are exact."""

    def settled_elsewhere(self) -> None:
        """Note that all rows of `at_rest` were brought up to date, as by `settle`."""

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

    @property
    def has_resting_rows(self) -> bool:
        """Whether rows of parameters rest: `Block.resting` tells `score` when they are behind."""
        return bool(self.column_sums)


__all__ = ["Merge", "Model"]
