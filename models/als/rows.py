"""Solve least squares for each row of one side of ALS, the other being fixed.

A row's entries have weights w and targets t, and its factors u solve

    (sum_j w_j v_j v_j' + G + D) u = sum_j t_j v_j,     v_j: the table's row of entry j.

The diagonal D is the ridge: row + n entry for factors, with n the number of the row's entries. A
bias can have a weight of its own (Koren, *Factor in the neighbors*, TKDD 2010).

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
from blocklearn.matcache.notation.functions import TINY

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
class Ridge:
    """The weights of the squares of a row with n entries: row + n entry, biases apart.

    free: [1 x K], 0 for columns that are constant; None: all are solved for.
    row, entry: numbers.
    diagonal: None, or a pair of [1 x K]: 1 for columns of factors, else 0; the weight of the bias
        in its column, else 0.
    """

    free: Row | None
    row: float
    entry: float
    diagonal: tuple[Row, Row] | None

    def weights(self, count: Column) -> Column:
        """Return the weight of a row's factors, given the number of its entries."""
        return self.row + self.entry * count

    def of(self, weights: Column) -> Rows | Column:
        """Return the weight of each column, given that of factors."""
        if self.diagonal is None:
            return weights
        factors, biases = self.diagonal
        return weights * factors + biases

    def chosen(self, u: Rows) -> Rows:
        """Return u with zeros in the columns that are constant."""
        return u if self.free is None else self.free * u


@rowwise
def take_rows(RT: Sparse, near: Rows, table: Rows) -> None:
    """Copy the rows of a table that occur in R to one of the block, in their order."""
    near <<= table


@dataclass(frozen=True)
class LeastSquares:
    """The equations (sum_j w_j v_j v_j' + G + D) u = sum_j t_j v_j of every row.

    R: the entries.
    V: the table.
    G: [K x K]; None for explicit ratings.
    """

    R: Sparse
    V: Table
    G: Table | None
    ridge: Ridge
    feedback: Feedback

    def times(self, u: Rows) -> Rows:
        """Return the left side at u."""
        left = (self.feedback.weights(self.R) * sddmm(u, self.V, self.R)) @ self.V + self.D * u
        return self.ridge.chosen(left if self.G is None else left + u @ self.G)

    def residual(self, u: Rows) -> Rows:
        """Return the right side minus the left side at u, with one sum over the entries."""
        rest = self.errors(u) @ self.V - self.D * u
        return self.ridge.chosen(rest if self.G is None else rest - u @ self.G)

    def errors(self, u: Rows) -> Sparse:
        """Return t - w u.v at the entries."""
        return pulls(self.R, u, self.V, self.feedback)

    @cached_property
    def weights(self) -> Column:
        """The weight of each row's factors; a row without entries counts as one with one."""
        return self.ridge.weights(maximum(rownnz(self.R), 1.0))

    @cached_property
    def D(self) -> Rows | Column:
        """The ridge of each row."""
        return self.ridge.of(self.weights)

    def end(self, u: Rows) -> Rows:
        """Return u with zeros in rows without entries, which is their exact solution."""
        free = self.ridge.free
        without = full(u, 0.0) if free is None else where(free, 0.0, u)
        return where(rownnz(self.R), u, without)

    def diagonal(self, typical: Row, of_gram: Row | None) -> Rows:
        """Estimate the diagonal of the left side: each v_j^2 is replaced by `typical`."""
        alpha = self.feedback.alpha
        weights = rownnz(self.R) if alpha is None else rowsum(alpha * abs(self.R))
        found = weights * typical + self.D
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
    """Return the entries' weights, the right side [rows x K], and the weights of factors.

    In columns that are not free the right side is u.
    """
    R, feedback, free = equations.R, equations.feedback, equations.ridge.free
    right = feedback.targets(R) @ equations.V
    right = right if free is None else where(free, right, u)
    return full(R, feedback.weights(R)), right, full(rownnz(R), equations.weights)


@rowwise
def parts(R: Sparse, feedback: Feedback) -> tuple[Sparse, Sparse, Sparse]:
    """Return the weight of each entry, its target, and 1."""
    return full(R, feedback.weights(R)), feedback.targets(R), ones_like(R)


weighted_errors = rowwise(pulls)


@rowwise
def losses(equations: LeastSquares, u: Rows, norms: Table) -> tuple[Column, ...]:
    """Return four sums of each row, [rows x 1] each.

    They are the squared errors times confidence, the absolute errors, the confidences, and the
    row's part of the objective. Each entry carries its share of the table's penalty, as far as
    that grows with the number of entries; the rest of it is left out.

    norms: [columns x 1], squared lengths of the factors of the table's rows.
    """
    R, feedback, ridge = equations.R, equations.feedback, equations.ridge
    predicted = sddmm(u, equations.V, R)
    count = rownnz(R)
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
    own = rowdot(u, ridge.chosen(ridge.of(ridge.weights(count)) * u))
    penalty = own + ridge.entry * (ones_like(R) @ norms)
    return squared, rowsum(abs(error)), confidence, loss + penalty


def norms_of(table: Table, columns: Row | None) -> Column:
    """Return the squared lengths of the table's rows [m x 1], over `columns`; None: all."""
    return rowsum(table * table if columns is None else columns * table * table)


def typical_squares(table: Table, free: Row | None) -> Row:
    """Return the mean squares [1 x K] of the table's rows that are not zero."""
    alive = norms_of(table, free) > 0.0
    return colsum(alive * (table * table)) / maximum(colsum(alive), 1.0)
