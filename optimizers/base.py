"""What an optimizer is: how a model's updates change its parameters, block after block.

Its life: `attach` once, then for every block `begin` (before the model reads its parameters) and
`step`; `settle` before anybody else reads them; `end_pass` after the last block of a pass. Between
two blocks a run may be stopped (`pause`) and gone on with (`resume`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from blocklearn.fields import Fields
from blocklearn.matcache import Mat, MatCache, Merge, Number, full

Weights = float | list[float]
Meaning = Literal["gradients", "estimates"]
Update: TypeAlias = Any
"""What `update` fills in for a parameter: an expression, a `Gradient` or a `LinearLoss`."""


@dataclass(frozen=True)
class Gradient:
    """The gradient `X.T @ R` of a block's mean loss, not yet computed.

    Of losses that are functions of X W, hand over a `LinearLoss` instead: every optimizer takes it.

    X: the block's data [rows x features], R: derivative of the loss by X @ W [rows x targets]. Of a
    sparse X only the rows of W whose features occur in the block are computed and touched. mask:
    0 where W is to stay 0 [features x targets], else 1; None: nowhere.
    """

    X: Any
    R: Any
    mask: Any = None

    @property
    def sparse(self) -> bool:
        """Whether X is sparse."""
        return self.X.pattern is not None


class Objective(NamedTuple):
    """What a block adds to the objective: the sums of its weighted losses and of the weights, 1 x 1
    each. An optimizer that `steps_by_pass` needs it beside gradients, and not with a `LinearLoss`.
    """

    loss: Number
    weight: Number


class Term(Protocol):
    """What an optimizer asks of a term of the objective: of a mixin, or of a model's own penalty.

    The objective is (mean loss) + (terms). l1, l2: weights of ||W||_1 and of ||W||^2 / 2, numbers
    or one per column; all terms' are added up and applied as one. `flows`: `flow` is the movement
    of a row w [1 x columns] along the term's own descent for some time, in a row-wise program.
    `projects`: it is a projection, whatever the time. `by_row`: it needs one time for a whole row.
    `smooth`: `gradient` is an expression of W's shape that needs the whole table.
    """

    @property
    def kind(self) -> str:
        """Name for messages."""

    @property
    def l1(self) -> Weights:
        """Weight of the sum of absolute values."""

    @property
    def l2(self) -> Weights:
        """Weight of half the sum of squares."""

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
        """Whether `gradient` is to be added to the loss's."""

    def flow(self, w: Any, time: Any) -> Any:
        """The row w after `time` along the term's descent."""

    def gradient(self, W: Mat) -> Any:
        """Derivative of the term by the whole table W."""


@dataclass(frozen=True)
class Penalty:
    """A model's own term `l1 ||W||_1 + l2 / 2 ||W||^2`; weights are numbers or one per column."""

    l1: Weights = 0.0
    l2: Weights = 0.0
    kind: ClassVar[str] = "the model's own penalty"
    flows: ClassVar[bool] = False
    projects: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    smooth: ClassVar[bool] = False

    def flow(self, w: Any, time: Any) -> Any:
        """Nothing beside l1 and l2."""
        return w

    def gradient(self, W: Mat) -> Any:
        """Nothing beside l1 and l2."""
        return full(W, 0.0)


class Optimizer(Fields):
    """Base of all optimizers. Fields are the configuration; state is what `pause` returns and the
    Mats in `state`.

    updates: by name of parameter, an expression, a `Gradient` or a `LinearLoss`, whose meaning the
    optimizer's docstring states.
    """

    meaning: ClassVar[Meaning] = "gradients"  # what updates are taken for
    normalises: ClassVar[bool] = False  # whether columns of parameters are made to sum to 1
    steps_by_pass: ClassVar[bool] = False  # parameters change in `end_pass` alone

    def __setattr__(self, name: str, value: Any) -> None:
        """Fields stay validated; every other attribute is state of the replica."""
        if name in type(self).model_fields:
            super().__setattr__(name, value)
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

        terms: of the objective, by name of the parameter that they act on. rates: Mats
        [1 x columns] that multiply the optimizer's rate. Raises CombinationError for terms that the
        optimizer cannot take into account.
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
        """Whether it steps row after row, which needs a `LinearLoss`."""
        return False

    def enter(self, phase: int) -> None:
        """The model's update begins to do something else: its phase number `phase`."""
        self.phase = phase

    def begin(self, X: Any) -> None:
        """Make the parameters ready for training on a block X: what it reads is exact."""

    @abstractmethod
    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Apply one block's updates to the parameters, in place, and count the step."""

    def merge_rule(self, name: str) -> Merge:
        """How replicas combine the state `name`."""
        return "mean"

    def settle(self) -> None:
        """Make the parameters exact for whoever reads them as a whole."""

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """What `settle` would change, and training would notice if it was not put back.

        ever: now, or after any number of steps.
        """
        return []

    def end_pass(self) -> None:
        """A pass is complete. Sets `converged` when there is nothing left to gain."""
        self.settle()

    def pause(self) -> dict[str, Any]:
        """What `resume` needs beside parameters and `state`: values that JSON can hold.

        Whatever is computed later is the same as if nobody had asked.
        """
        return {"steps": self.steps, "phase": self.phase}

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Go on from there: parameters and `state` are those of a `pause` that returned `paused`.

        With no more than `steps` and `phase`, they are those of the end of a pass.
        """
        self.steps, self.phase = int(paused["steps"]), int(paused["phase"])
