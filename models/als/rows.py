"""Solve least squares for each row of one side of ALS, the other being fixed.

A row's entries have weights w and targets t, and its factors u solve

    (sum_j w_j v_j v_j' + G + ridge) u = sum_j t_j v_j,     v_j: the table's row of entry j.

Explicit ratings r (Zhou, Wilkinson, Schreiber, Pan 2008): w = 1, t = r - mean, no G. Implicit ones
(Hu, Koren, Volinsky 2008) have confidence c = 1 + alpha |r| and preference p = 1 where r > 0, else
0: w = c - 1, t = c p. G = V.T V adds the entries that are not stored, with c = 1 and p = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from blocklearn.matcache import (
    Column,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    colsum,
    copy,
    full,
    maximum,
    ones_like,
    repeat,
    rowdot,
    rownnz,
    rowsum,
    rowwise,
    sddmm,
    until,
    where,
)

TINY = 1e-30
EXACT = 1e-14  # of squares: what float32 cannot tell from zero, relative


@dataclass(frozen=True)
class Feedback:
    """How to read the entries R.

    mean: [1 x 1], the mean of all ratings.
    alpha: confidence that an entry of 1 adds; None for explicit ratings.
    """

    mean: Number
    alpha: float | None

    def weights(self, R: Sparse) -> Sparse | Number:
        """Return the weight w of each entry."""
        return 1.0 if self.alpha is None else self.alpha * abs(R)

    def targets(self, R: Sparse) -> Sparse:
        """Return the target t of each entry."""
        return R - self.mean if self.alpha is None else (1.0 + self.weights(R)) * (R > 0.0)


@dataclass(frozen=True)
class LeastSquares:
    """The equations (sum_j w_j v_j v_j' + G + ridge) u = sum_j t_j v_j of every row.

    R: the entries.
    V: the table.
    G: [K x K]; None for explicit ratings.
    free: [1 x K], 0 for columns that stay as they are; None: all are solved for.
    weighted: whether a row's ridge is reg times the number of its entries (at least one), not reg.
    """

    R: Sparse
    V: Table
    G: Table | None
    free: Row | None
    feedback: Feedback
    reg: float
    weighted: bool

    def times(self, u: Rows) -> Rows:
        """Return the left side at u."""
        left = (self.feedback.weights(self.R) * sddmm(u, self.V, self.R)) @ self.V + self.ridge * u
        return self.chosen(left if self.G is None else left + u @ self.G)

    def residual(self, u: Rows) -> Rows:
        """Return the right side minus the left side at u, with one sum over the entries."""
        rest = self.errors(u) @ self.V - self.ridge * u
        return self.chosen(rest if self.G is None else rest - u @ self.G)

    def errors(self, u: Rows) -> Sparse:
        """Return t - w u.v at the entries."""
        return pulls(self.R, u, self.V, self.feedback)

    def chosen(self, u: Rows) -> Rows:
        """Return u with zeros in the columns that are not solved for."""
        return u if self.free is None else self.free * u

    @cached_property
    def ridge(self) -> Column:
        """The ridge of each row."""
        return self.reg * maximum(rownnz(self.R), 1.0) if self.weighted else self.reg

    def end(self, u: Rows) -> Rows:
        """Return u with zeros in rows without entries, which is their exact solution."""
        without = full(u, 0.0) if self.free is None else where(self.free, 0.0, u)
        return where(rownnz(self.R), u, without)

    def diagonal(self, typical: Row, of_gram: Row | None) -> Rows:
        """Estimate the diagonal of the left side: each v_j^2 is replaced by `typical`."""
        alpha = self.feedback.alpha
        weights = rownnz(self.R) if alpha is None else rowsum(alpha * abs(self.R))
        found = weights * typical + self.ridge
        return found if of_gram is None else found + of_gram


def pulls(R: Sparse, u: Rows, V: Table, feedback: Feedback) -> Sparse:
    """Return t - w u.v at the entries: how far each pulls its table row along u."""
    weights = feedback.weights(R)
    return feedback.targets(R) - weights * sddmm(u, V, R)


@rowwise
def conjugate_gradients(
    equations: LeastSquares,
    u: Rows,
    typical: Row,
    of_gram: Row | None,
    steps: Number,
    tolerance: Number,
) -> None:
    """Improve u by at most `steps` of conjugate gradients.

    A row stops when its squared residual has fallen to `tolerance` times its first one. It also
    stops when u is as exact as float32 allows: further steps would add growing rounding errors.

    The preconditioner is an estimate of the diagonal of the row's matrix:

    typical: [1 x K], squares of a typical row of the table, used in place of every entry's row.
    of_gram: [1 x K], the diagonal of G, or None.

    The true diagonal (Jacobi) costs a fifth more time, and changed no figure. A preconditioner
    helps ALS only by scaling the columns of biases like the others, which saves one pass in five.
    """
    r = equations.residual(u)
    scale = maximum(equations.diagonal(typical, of_gram), TINY)  # 0 where there is no ridge
    z = r / scale
    p = copy(z)
    old = rowdot(r, z)
    goal = tolerance * old
    for _ in repeat(steps):
        Ap = equations.times(p)
        step = old / maximum(rowdot(p, Ap), TINY)
        u <<= u + step * p
        r <<= r - step * Ap
        z = r / scale
        new = rowdot(r, z)
        p <<= z + (new / maximum(old, TINY)) * p
        old <<= new
        until(new <= maximum(goal, EXACT * rowdot(scale * u, u)))
    u <<= equations.end(u)


@rowwise
def normal_equations(equations: LeastSquares, u: Rows) -> tuple[Sparse, Rows, Column]:
    """Return the weights of the entries, the right side [rows x K], and the ridge.

    In columns that are not free the right side is u.
    """
    R, feedback, free = equations.R, equations.feedback, equations.free
    right = feedback.targets(R) @ equations.V
    right = right if free is None else where(free, right, u)
    return full(R, feedback.weights(R)), right, full(rownnz(R), equations.ridge)


@rowwise
def parts(R: Sparse, feedback: Feedback) -> tuple[Sparse, Sparse, Sparse]:
    """Return the weight of each entry, its target, and 1."""
    return full(R, feedback.weights(R)), feedback.targets(R), ones_like(R)


weighted_errors = rowwise(pulls)


@rowwise
def losses(equations: LeastSquares, u: Rows, norms: Table) -> tuple[Column, ...]:
    """Return four sums of each row, [rows x 1] each.

    They are the squared errors times confidence, the absolute errors, the confidences, and the
    row's part of the objective. If the ridge is weighted, each entry carries its share of the
    penalties of both sides; otherwise the penalty of the table is left out.

    norms: [columns x 1], squared lengths of the table's rows, over their free columns.
    """
    R, feedback, reg = equations.R, equations.feedback, equations.reg
    predicted = sddmm(u, equations.V, R)
    count = rownnz(R)
    own = rowdot(u, equations.chosen(u))
    if feedback.alpha is None:
        error = R - feedback.mean - predicted
        confidence = count
        squared = rowsum(error * error)
        loss = squared
    else:
        weight = feedback.weights(R)
        error = (R > 0.0) - predicted
        confidence = count + rowsum(weight)
        squared = rowsum((1.0 + weight) * error * error)
        loss = squared + rowdot(u @ equations.G, u) - rowsum(predicted * predicted)
    weighted = equations.weighted
    penalty = reg * (count * own + ones_like(R) @ norms) if weighted else reg * own
    return squared, rowsum(abs(error)), confidence, loss + penalty


def norms_of(table: Table, free: Row | None) -> Column:
    """Return the squared lengths of the table's rows [m x 1], free columns only."""
    return rowsum(table * table if free is None else free * table * table)


def typical_squares(table: Table, free: Row | None) -> Row:
    """Return the mean squares [1 x K] of the table's rows that are not zero."""
    alive = norms_of(table, free) > 0.0
    return colsum(alive * (table * table)) / maximum(colsum(alive), 1.0)
