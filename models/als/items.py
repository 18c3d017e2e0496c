"""Learn the items of ALS where the data come as blocks of users only.

`ItemEquations` is exact: it sums the equations of all items over a pass, and solves them at its
end. If they do not fit into memory, `ItemGradients` makes a gradient of each block for an
optimizer, as in BIDMach's SFA.
"""

from __future__ import annotations

from blocklearn.matcache import (
    Mat,
    Sparse,
    Table,
    add_outer,
    gram,
    maximum,
    ones_like,
    packed_columns,
    rownnz,
    solve_sums,
    where,
)
from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.optimizers import Gradient

from ..base import Model
from ..inputs import one_or_more
from .rows import Feedback, Ridge, parts, weighted_errors


def equations_bytes(items: int, columns: int) -> int:
    """Count the bytes that `ItemEquations` takes."""
    return 4 * items * (packed_columns(columns) + columns + 1)


def why_not_equations(items: int, columns: int, budget: int) -> str | None:
    """Say why the items' equations cannot be summed in `budget` bytes, or None."""
    if columns > MOST:
        return f"their equations have {columns} unknowns each, more than {MOST}"
    needed = equations_bytes(items, columns)
    if needed > budget:
        return f"the sums of their equations would take {mib(needed)} of {mib(budget)} at most"
    return None


def mib(count: int) -> str:
    """Format bytes as MiB.

    >>> mib(3 * 2**20 // 2)
    '1.5 MiB'
    """
    return f"{count / 2**20:,.1f} MiB"


class ItemEquations:
    """Sums the items' equations over a pass, and solves them at its end.

    The sums are parameters of the model, so a checkpoint keeps them.

    items: [m x K].
    """

    def __init__(self, model: Model, items: Mat, ridge: Ridge, feedback: Feedback) -> None:
        """Create the sums, all zero."""
        (m, K), self.items, self.ridge, self.feedback = items.shape, items, ridge, feedback
        self.left = model.parameter(
            "items: left sides", m, packed_columns(K), merge="sum", saved=False
        )
        self.right = model.parameter("items: right sides", m, K, merge="sum", saved=False)
        self.counts = model.parameter("items: entries", m, 1, merge="sum", saved=False)
        self.gram: Mat | None = None
        if feedback.alpha is not None:
            self.gram = model.parameter("items: users.T users", K, K, merge="sum", saved=False)

    def add(self, X: Sparse, u: Mat) -> None:
        """Add the equations of a block's rows X, whose factors are u [rows x K]."""
        weights, targets, present = parts(X, self.feedback)
        add_outer(self.left, weights, u)
        self.right <<= self.right + targets.T @ u
        self.counts <<= self.counts + present.T @ ones_like(rownnz(X))
        if self.gram is not None:
            self.gram <<= self.gram + gram(u)

    def solve(self) -> None:
        """Assign the items that solve the summed equations, and reset the sums."""
        free, diagonal = self.ridge.free, self.ridge.diagonal
        weights = self.ridge.weights(maximum(self.counts, 1.0))
        right = self.right if free is None else where(free, self.right, self.items)
        self.items <<= solve_sums(
            self.left, weights, right, gram=self.gram, free=free, diagonal=diagonal
        )
        for sums in (self.left, self.right, self.counts, self.gram):
            if sums is not None:
                sums <<= 0.0


class ItemGradients:
    """Makes the gradient of a block's mean loss by the items. See `ItemEquations`."""

    def __init__(self, model: Model, items: Mat, ridge: Ridge, feedback: Feedback) -> None:
        """Create the scale of the gradient."""
        self.items, self.free, self.feedback = items, ridge.free, feedback
        self.scale = model.number("2 per row of the block")

    def of(self, X: Sparse, u: Mat, rows: int) -> Gradient | Table:
        """Return the gradient, given the rows' factors u [rows x K].

        With explicit ratings it covers only the items that occur in X.
        """
        errors = weighted_errors(X, u, self.items, self.feedback)
        self.scale.set(2.0 / one_or_more(rows))
        free = 1.0 if self.free is None else self.free
        if self.feedback.alpha is None:
            return Gradient(errors, (-1.0 * self.scale * free * u).mat())
        return self.scale * free * (self.items @ gram(u) - errors.T @ u)
