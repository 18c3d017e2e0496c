"""The base class of optimizers, which apply a model's updates block after block.

The learner calls `attach` once. For every block it calls `begin`, before the model reads its
parameters, and `step`. It calls `settle` before other readers, and `end_pass` after the last block
of a pass. Between two blocks a run can stop (`pause`) and continue (`resume`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from blocklearn.fields import Fields, set_by
from blocklearn.matcache import Mat, MatCache, Merge

from .terms import Term
from .updates import Meaning, Objective

FORMS = {
    "form": ("begin", "step"),
    "end_form": ("settle", "end_pass"),
    "moves_rows_alone": ("begin", "step"),
}
"""Which methods each attribute of an optimizer describes."""


class OwnRows(Protocol):
    """Numbers that an optimizer keeps for each row of the data."""

    @property
    def rows(self) -> Mat:
        """Those of the present block [block rows x columns], to be read and assigned."""


class AtRest:
    """A parameter whose rows rest, so that copies of them can be brought up to date elsewhere.

    As it stands here, no row is ever behind: blocks change only what they read.

    sums: [1 x columns], the column sums of `terms`, which follow from all rows.
    known: whether `sums` are right. They are not where the rows lie elsewhere, until they are set.
    """

    sums: Mat
    known: bool

    @property
    def clock(self) -> NDArray[np.float64]:
        """What tells how far rows are behind that no block has read since the last `settle`.

        Empty: no row is ever behind.
        """
        return np.empty(0)

    def settle_elsewhere(
        self, at: NDArray[np.int32], rows: NDArray[Any], clock: NDArray[np.float64]
    ) -> None:
        """Bring copies of rows up to date, as `settle` does at this clock.

        at: their numbers in the table. rows: [at x columns].
        """

    def wake_elsewhere(
        self,
        ids: NDArray[np.int32],
        rows: NDArray[Any],
        clock: NDArray[np.float64],
        seen: NDArray[np.float64] | None = None,
    ) -> None:
        """Do the same with rows that no block has read since the last `settle`.

        seen: [ids x 1], the state `.seen` of these rows, where they come from a saved state.
        """

    def terms(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return what `sums` adds up, of copies of rows: these themselves, by default."""
        return rows


class Optimizer(Fields):
    """Base of all optimizers. Fields are the configuration.

    The state consists of the Mats in `state` and of the result of `pause`. The docstring of each
    optimizer says whether it takes gradients or estimates.
    """

    meaning: ClassVar[Meaning] = "gradients"  # of the updates
    normalises: ClassVar[bool] = False  # whether columns of parameters are made to sum to 1
    steps_by_pass: ClassVar[bool] = False  # whether parameters change in `end_pass` only
    keeps_rows: ClassVar[bool] = False  # whether it keeps numbers for each row of the data
    starts_at_zero: ClassVar[bool] = False  # whether parameters start at 0, whatever the model sets
    moves_rows_alone: ClassVar[bool] = False  # whether updates of single rows move no other rows

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        """Let a class inherit the attributes in `FORMS` only with the methods they describe."""
        for form, methods in FORMS.items():
            owner = next(base for base in cls.__mro__ if form in vars(base))
            if any(getattr(cls, name) is not getattr(owner, name) for name in methods):
                setattr(cls, form, vars(Optimizer)[form])
        super().__init_subclass__(**options)

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
        `steps`. A subclass with a `begin` or `step` of its own does not inherit this.
        """
        return None

    @property
    def end_form(self) -> Hashable | None:
        """What `end_pass` launches depends on; None: unknown. See `form`.

        A subclass with an `end_pass` or `settle` of its own does not inherit this.
        """
        return None

    @property
    def begins_with_all(self) -> bool:
        """Whether the next `begin` changes all rows of parameters and state, on sparse data too."""
        return False

    def let_rest(self, values: Mapping[str, Mat], *, elsewhere: bool = False) -> dict[str, Mat]:
        """Let rows of parameters rest while their features do not occur, if the optimizer can.

        Their updates are then a `SparseEstimate` each. Called after `attach`. Returns the column
        sums of the parameters that rest, by name, which the optimizer keeps up to date.

        values: the estimate of a row that does not occur [features x 1 or columns], by parameter.
        elsewhere: whether rows lie elsewhere, but for those of a few blocks: see `AtRest.known`.
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

    def settled_elsewhere(self, ids: NDArray[np.int32]) -> None:
        """Note that all rows of `at_rest` were brought up to date, as by `settle`.

        ids: the rows that blocks have read since the last `settle`, each once.
        """

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
