"""The base class of optimizers, which apply a model's updates block after block.

The learner calls `attach` once. For every block it calls `begin`, before the model reads its
parameters, and `step`. It calls `settle` before other readers, and `end_pass` after the last block
of a pass. Between two blocks a run can stop (`pause`) and continue (`resume`).

Longer than 300 lines: the updates that models hand over belong to the same contract.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blocklearn.fields import Fields, set_by
from blocklearn.matcache import Column, Mat, MatCache, Merge, Number, Row, Rows, Table, equal, full

Weights = float | list[float]
Meaning = Literal["gradients", "estimates"]
"""What the updates of a model are."""
Update: TypeAlias = Any
"""A model's update: an expression, a `Gradient`, a `LinearLoss` or a `SparseEstimate`."""


@dataclass(frozen=True)
class Groups:
    """A mask that is 1 where a row and a column of a table have the same number, else 0.

    of_rows: [rows x 1]. of_columns: [1 x columns].
    """

    of_rows: Column
    of_columns: Row

    def times(self, table: Table) -> Table:
        """Return `table` times the mask."""
        return table * equal(self.of_rows, self.of_columns)

    def numpy(self) -> NDArray[np.float32]:
        """Return the mask, of matrices, in NumPy."""
        found: NDArray[np.bool_] = np.equal(self.of_rows.numpy(), self.of_columns.numpy())
        return found.astype(np.float32)


def masked(g: Rows, mask: Any) -> Rows:
    """Return g times a mask of a `Gradient`."""
    if mask is None:
        return g
    return mask.times(g) if isinstance(mask, Groups) else g * mask


@dataclass(frozen=True)
class Gradient:
    """The gradient `X.T @ R`, or `X.T @ R + (X * X).T @ D * W`, of a mean loss, not yet computed.

    If the losses are functions of X W, use a `LinearLoss` instead: every optimizer takes it.
    The product reads R in full, also where X reads tables rounded.

    X: [rows x features], the block's data. If it is sparse, a step reads and changes only the rows
        of W whose features occur in the block.
    R: [rows x targets], derivative of the loss by X @ W.
    mask: [features x targets], 0 where W must stay 0, else 1; None: 1 everywhere; or `Groups`.
    D: [rows x targets] or [rows x 1], twice the derivative of the loss by (X * X) @ (W * W), for
        losses of pairs of features; None: they have no such part.
    """

    X: Any
    R: Any
    mask: Any = None
    D: Any = None

    def __post_init__(self) -> None:
        """Make X read in full."""
        if self.sparse:
            object.__setattr__(self, "X", self.X.mat().reading("float32"))

    @property
    def sparse(self) -> bool:
        """Whether X is sparse."""
        return self.X.pattern is not None

    @property
    def product(self) -> Table:
        """`X.T @ R`, without the mask."""
        return self.X.T @ self.R

    def at(self, W: Mat) -> Table:
        """Return the gradient at W, without the mask."""
        if self.D is None:
            return self.product
        return self.product + ((self.X * self.X).mat().T @ self.D) * W


@dataclass(frozen=True)
class SparseEstimate:
    """The estimate `rest + scale * W * (X.T @ R)` of a parameter that rests, not yet computed.

    Without R it is `rest + scale * W`.

    Only rows whose features occur in X are computed. For `rest`, see `Optimizer.let_rest`.

    X: [rows x features], sparse, maybe of `local`.
    R: [rows x columns]; None: W is all.
    W: [features x columns], needed at the features that occur in X only; a table for `local` X.
        Without R, its other rows are 0.
    scale: a number.
    """

    X: Any
    R: Any
    W: Any
    scale: Any

    def __post_init__(self) -> None:
        """Make X read in full."""
        object.__setattr__(self, "X", self.X.mat().reading("float32"))


class Objective(NamedTuple):
    """The sums that a block adds to the objective, 1 x 1 each.

    An optimizer that `steps_by_pass` needs it with gradients, but not with a `LinearLoss`.

    loss: sum of the weighted losses.
    weight: sum of the weights.
    """

    loss: Number
    weight: Number


class Term(Protocol):
    """A term of the objective, from a mixin or a model, as an optimizer sees it.

    The objective is (mean loss) + (terms). A term has one or more of:

    l1, l2: weights of ||W||_1 and of ||W||^2 / 2, numbers or one per column. Those of all terms are
        added up and applied as one.
    flow: if `flows`, moves a row w [1 x columns] along the term's own descent for some time, in a
        row-wise program. `projects`: the time does not matter. `by_row`: all entries of a row need
        the same time.
    gradient: if `smooth`, an expression of W's shape that needs the whole table.
    """

    @property
    def kind(self) -> str:
        """The name for messages."""

    @property
    def l1(self) -> Weights:
        """The weight of the sum of absolute values."""

    @property
    def l2(self) -> Weights:
        """The weight of half the sum of squares."""

    @property
    def flows(self) -> bool:
        """Whether `flow` does anything."""

    @property
    def projects(self) -> bool:
        """Whether `flow` is a projection."""

    @property
    def by_row(self) -> bool:
        """Whether `flow` needs the same time for all entries of a row."""

    @property
    def smooth(self) -> bool:
        """Whether to add `gradient` to that of the loss."""

    def flow(self, w: Any, time: Any) -> Any:
        """Return the row w after `time` along the term's descent."""

    def gradient(self, W: Mat) -> Any:
        """Return the derivative of the term by the whole table W."""


@dataclass(frozen=True)
class Penalty:
    """A model's own term `l1 ||W||_1 + l2 / 2 ||W||^2`.

    l1, l2: numbers, or one per column.
    """

    l1: Weights = 0.0
    l2: Weights = 0.0
    kind: ClassVar[str] = "the model's own penalty"
    flows: ClassVar[bool] = False
    projects: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    smooth: ClassVar[bool] = False

    def flow(self, w: Any, time: Any) -> Any:
        """Return w: the term consists of l1 and l2 only."""
        return w

    def gradient(self, W: Mat) -> Any:
        """Return zeros: the term consists of l1 and l2 only."""
        return full(W, 0.0)


class OwnRows(Protocol):
    """Numbers that an optimizer keeps for each row of the data."""

    @property
    def rows(self) -> Mat:
        """Those of the present block [block rows x columns], to be read and assigned."""


class AtRest(Protocol):
    """A parameter whose rows rest, so that copies of them can be brought up to date elsewhere."""

    def settle_elsewhere(self, ids: NDArray[np.int32], rows: NDArray[Any], now: float) -> None:
        """Bring copies of rows up to date, as `settle` does at this time.

        ids: their numbers. rows: [ids x columns].
        """

    def wake_elsewhere(self, ids: NDArray[np.int32], rows: NDArray[Any], now: float) -> None:
        """Do the same with rows that no block has read since the last `settle`."""


class Optimizer(Fields):
    """Base of all optimizers. Fields are the configuration.

    The state consists of the Mats in `state` and of the result of `pause`. The docstring of each
    optimizer says whether it takes gradients or estimates.
    """

    meaning: ClassVar[Meaning] = "gradients"  # of the updates
    normalises: ClassVar[bool] = False  # whether columns of parameters are made to sum to 1
    steps_by_pass: ClassVar[bool] = False  # whether parameters change in `end_pass` only
    keeps_rows: ClassVar[bool] = False  # whether it keeps numbers for each row of the data

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, which is validated, or an attribute of the replica."""
        if name in type(self).__pydantic_fields__:
            super().__setattr__(name, value)
            if hasattr(self, "cache"):
                self.cache.edit(f"sets {type(self).__name__}.{name}")
        else:
            object.__setattr__(self, name, value)

    def attach(
        self,
        cache: MatCache,
        parameters: dict[str, Mat],
        *,
        terms: Mapping[str, Sequence[Term]] | None = None,
        rates: Mapping[str, Mat] | None = None,
    ) -> None:
        """Make the state for these parameters. Called once, after the model's `allocate`.

        Raises CombinationError for terms that the optimizer does not support.

        terms: of the objective, by name of the parameter that they act on.
        rates: Mats [1 x columns] that multiply the optimizer's rate, by parameter.
        """
        self.cache = cache
        self.parameters = parameters
        self.terms = {name: list(found) for name, found in (terms or {}).items() if found}
        self.rates = dict(rates or {})
        self.steps = 0
        self.phase = 0
        self.converged = False
        self.state: dict[str, Mat] = {}

    @property
    def takes_rows(self) -> bool:
        """Whether the optimizer steps row after row, which needs a `LinearLoss`."""
        return False

    @property
    def form(self) -> Hashable | None:
        """What `begin` and `step` launch depends on, beside the updates; None: unknown.

        While it stays the same, the learner may repeat their launches without calling them. Numbers
        that change from step to step are then set by `self.cache.each_block` only, and so is
        `steps`.
        """
        return None

    @property
    def begins_with_all(self) -> bool:
        """Whether the next `begin` changes all rows of parameters and state, on sparse data too."""
        return False

    def let_rest(self, values: Mapping[str, Mat]) -> dict[str, Mat]:
        """Let rows of parameters rest while their features do not occur, if the optimizer can.

        Their updates are then a `SparseEstimate` each. Called after `attach`. Returns the column
        sums of the parameters that rest, by name, which the optimizer keeps up to date.

        values: the estimate of a row that does not occur [features x 1 or columns], by parameter.
        """
        return {}

    def row_columns(self) -> Mapping[str, int]:
        """Return how many numbers the optimizer keeps for each row, by name, if it `keeps_rows`.

        Called after `attach`. They are zeros at first, and part of checkpoints.
        """
        return {}

    def keep_rows(self, kept: Mapping[str, OwnRows], rows: int, weight: float) -> None:
        """Take the numbers of `row_columns`, by name.

        rows: of the data. weight: sum of their weights.
        """

    def enter(self, phase: int) -> None:
        """Enter a phase: from now on the model's `update` computes something else."""
        self.phase = phase

    def begin(self, X: Any) -> None:
        """Make the parameters exact that training on a block X will read."""

    @abstractmethod
    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Apply one block's updates to the parameters in place, and count the step.

        updates: by name of the parameter.
        objective: of the block; None where the model does not set it.
        """

    def merge_rule(self, name: str) -> Merge:
        """Return how replicas combine the state `name`."""
        return "mean"

    def settle(self) -> None:
        """Make the whole of the parameters exact for readers other than training."""

    @property
    def rests(self) -> bool:
        """Whether `settle` may change rows of columns that do not occur in a block."""
        return False

    @property
    def at_rest(self) -> Mapping[str, AtRest]:
        """Parameters whose rows `settle` changes in closed form, each row by itself; by name."""
        return {}

    def settled_elsewhere(self) -> None:
        """Note that all rows of `at_rest` were brought up to date, as by `settle`."""

    @property
    def derives(self) -> bool:
        """Whether `settle` computes rows anew that training computes, too, before it reads them."""
        return False

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the Mats to restore after a `settle` that training must not see.

        ever: True: those that may need it after any number of steps, not only now.
        """
        return []

    def end_pass(self) -> None:
        """Finish a pass. Sets `converged` when further passes would gain nothing."""
        self.settle()

    def pause(self) -> dict[str, Any]:
        """Return what `resume` needs beside parameters and `state`, in values for JSON.

        Calling it does not change later results.
        """
        return {"steps": self.steps, "phase": self.phase}

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue from a `pause`; parameters and `state` are set already.

        If `paused` holds only `steps` and `phase`, the pause was at the end of a pass.
        """
        self.steps, self.phase = int(paused["steps"]), int(paused["phase"])


Optimizer.reserved = set_by(Optimizer.attach, None, {})
