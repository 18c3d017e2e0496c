"""The matrices of one replica of a model, and how model code makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
from blocklearn.optimizers import Objective, Term, Update

from . import states
from .inputs import Drawn, Setting, Shapes
from .split_terms import SplitTerm, slopes_of
from .states.row_state import RowState
from .states.row_store import Init

if TYPE_CHECKING:
    from .states.token_state import TokenState

OWN = {"allocated", "updates", "objective", "learned_shapes"}
"""Attributes of a model that change from block to block, or with its life."""

ALONE = Setting()  # a replica that no learner has placed

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class Rule(NamedTuple):
    """How a parameter is treated.

    merge: how replicas combine it.
    saved: whether trained models have it; otherwise only checkpoints do.
    drawn: its first values, if its rows may be drawn one by one.
    """

    merge: Merge
    saved: bool = True
    drawn: Drawn | None = None


class Matrices(Fields):
    """What a model gets for its matrices: parameters, states of rows, scratch, numbers.

    `row_states` is described in `Model`.
    """

    row_states: ClassVar[Mapping[str, int]] = {}

    def attach(self, cache: MatCache, setting: Setting = ALONE) -> None:
        """Declare the attributes of a replica. The learner calls this before `allocate`."""
        self.allocated = False  # once `allocate` has returned, its matrices stay bound
        if getattr(self, "cache", None) is not cache:
            self.states: dict[str, RowState | TokenState] = {}  # by name
        self.cache = cache  # where this replica's Mats live
        self.setting = setting
        self.few_occur = setting.few_occur

        # Made by `parameter`:
        self.parameters: dict[str, Mat] = {}  # saved, merged and resumed
        self.rules: dict[str, Rule] = {}  # how each parameter is merged, saved and drawn

        # `allocate` may fill:
        self.penalised: list[str] = []  # parameters that mixins act on: weights, not intercepts
        self.terms: dict[str, list[Term]] = {}  # penalties of the model's own, by parameter
        self.rates: dict[str, Mat] = {}  # factors of the rate [1 x columns], by parameter
        self.notes: list[str] = []  # what the model chose and why; shown when training starts
        self.rests: dict[str, Mat] = {}  # estimates of rows that do not occur, by parameter
        self.rests_alike = True  # whether these estimates are the same for all rows
        self.rests_until: int | None = None  # the phase from which `update` fills no `updates`
        self.always_finite: set[str] = set()  # parameters that need no check: they cannot diverge
        self.needs_optimizer = True  # False: `update` assigns the parameters after all
        self.changes_occurring = False  # True: blocks then assign rows of columns that occur only
        self.ends_with_all = False  # True: `end_pass` reads or changes all rows of tables
        self.reads_in_order = False  # True: `update` takes a block's columns in the data's order

        # The learner fills, after `allocate`:
        self.split_terms: dict[str, list[SplitTerm]] = {}  # of mixins, by name in `takes_terms`
        self.column_sums: dict[str, Mat] = {}  # column sums of parameters whose rows rest;
        # without an optimizer, `allocate` fills it

        # `update` may fill:
        self.updates: dict[str, Update] = {}  # for the optimizer, by parameter
        self.objective: Objective | None = None  # the block's loss and weight, for full passes

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
        drawn = init if isinstance(init, Drawn) else None
        rule = Rule(merge, saved, drawn)
        mat = self._learned(name, named(self.cache, name, (rows, columns)), rule)
        setting = self.setting
        idle = not (saved or setting.trains)  # its zeros take no memory until they are written to
        if name in setting.lent or (idle and isinstance(init, int | float) and not init):
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
            if rows == setting.rows_in_files:
                pass
            elif isinstance(init.table, np.ndarray):
                mat.set(init.table)
            else:
                mat <<= init.table
        else:
            mat <<= init
        return mat

    def statistic(self, name: str, rows: int, columns: int, dtype: DTypeLike = np.float32) -> Mat:
        """Create sums over the data that only training needs: a parameter of zeros.

        Replicas add up by how much their sums have grown. Only checkpoints hold them.

        dtype: float32, or float64.
        """
        mat = named(self.cache, name, (rows, columns), dtype)
        return self._learned(name, mat, Rule("sum", saved=False))

    def _learned(self, name: str, mat: Mat, rule: Rule) -> Mat:
        """Enter `mat` as the parameter `name`."""
        if self.allocated:
            raise ShapeError(
                f"{type(self).__name__}: parameter {name!r} at {source_line()}: must be made in "
                "allocate(). Make it there, and assign to it here: self.NAME <<= value."
            )
        if name in self.parameters:
            raise ShapeError(f"{type(self).__name__}: there are two parameters called {name!r}.")
        if rule.merge not in get_args(Merge):
            rules = ", ".join(map(repr, get_args(Merge)))
            raise ShapeError(
                f"{type(self).__name__}: parameter {name!r}: merge={rule.merge!r}: must be one "
                f"of {rules}."
            )
        self.parameters[name], self.rules[name] = mat, rule
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
            made = states.TokenState(self.cache, name, shapes.tokens, shapes.rows, dtype)
            self.states[name] = made
        state = self.states[name]
        assert isinstance(state, states.TokenState)
        return state

    def slopes(self, name: str) -> tuple[Table, Table] | None:
        """Return the two parts of the gradient of the mixins on a parameter of `takes_terms`.

        They are (rising, falling), expressions of its shape, never negative; None without mixins.
        Mixins are weighed against the mean loss of the rows. docs/how-to/mixin.md has an example.
        """
        return slopes_of(self.split_terms.get(name, ()), self.parameters[name])

    def scratch(self, name: str, rows: int, columns: int) -> Mat:
        """Create a float32 Mat to fill anew for each block, neither saved nor merged."""
        return named(self.cache, f"{name} (scratch)", (rows, columns))

    def number(self, name: str, value: float = 0.0) -> Scalar:
        """Create a number that changes from block to block: set it with `.set(value)`."""
        return scalar(self.cache, value, f"{name} (number)")

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

    @property
    def unsaved(self) -> set[str]:
        """The parameters that only further training needs."""
        return {name for name, rule in self.rules.items() if not rule.saved}


Matrices.reserved = set_by(Matrices.attach, object())
