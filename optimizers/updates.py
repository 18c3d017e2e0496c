"""The updates that a model hands to its optimizer, which computes what its step needs.

A `LinearLoss` is one, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Column, Mat, Number, Row, Rows, Table, equal

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
