"""The terms of an objective beside the loss, as optimizers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from blocklearn.matcache import Mat, full

Weights = float | list[float]


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
