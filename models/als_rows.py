"""Row by row least squares on a table: what one side of ALS does while the other stays as it is.

A row's entries have weights w and targets t, and its factors u solve

    (sum_j w_j v_j v_j' + G + ridge) u = sum_j t_j v_j,     v_j: the table's row of entry j.

Explicit ratings r (Zhou, Wilkinson, Schreiber, Pan 2008): w = 1, t = r - mean, no G. Implicit ones
(Hu, Koren, Volinsky 2008) have confidence c = 1 + alpha |r| and preference p = 1 where r > 0, else
0: w = c - 1, t = c p, and G = V.T V brings in all that is not stored, with c = 1 and p = 0.
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
    """How entries R are read. mean: of all ratings [1 x 1]. alpha: None for explicit ratings."""

    mean: Number
    alpha: float | None

    def weights(self, R: Sparse) -> Sparse | Number:
        """w of each entry."""
        return 1.0 if self.alpha is None else self.alpha * abs(R)

    def targets(self, R: Sparse) -> Sparse:
        """t of each entry."""
        return R - self.mean if self.alpha is None else (1.0 + self.weights(R)) * (R > 0.0)


@dataclass(frozen=True)
class LeastSquares:
    """(sum_j w_j v_j v_j' + G + ridge) u = sum_j t_j v_j, the equations of every row.

    R: the entries. V: the table. G: [K x K], None for explicit ratings. free: [1 x K], 0 for
    numbers of a row that stay as they are; None: all are solved for. weighted: the ridge of a row
    is reg times the number of its entries (at least one), otherwise reg.
    """

    R: Sparse
    V: Table
    G: Table | None
    free: Row | None
    feedback: Feedback
    reg: float
    weighted: bool

    def times(self, u: Rows) -> Rows:
        """The left side at u."""
        left = (self.feedback.weights(self.R) * sddmm(u, self.V, self.R)) @ self.V + self.ridge * u
        return self.chosen(left if self.G is None else left + u @ self.G)

    def residual(self, u: Rows) -> Rows:
        """The right side minus the left side at u, whose sums over entries are made as one."""
        rest = self.errors(u) @ self.V - self.ridge * u
        return self.chosen(rest if self.G is None else rest - u @ self.G)

    def errors(self, u: Rows) -> Sparse:
        """t - w u.v at the entries."""
        return pulls(self.R, u, self.V, self.feedback)

    def chosen(self, u: Rows) -> Rows:
        """Only what is solved for."""
        return u if self.free is None else self.free * u

    @cached_property
    def ridge(self) -> Column:
        """Of each row."""
        return self.reg * maximum(rownnz(self.R), 1.0) if self.weighted else self.reg

    def end(self, u: Rows) -> Rows:
        """u, but zero in rows without entries: their equations say nothing else."""
        without = full(u, 0.0) if self.free is None else where(self.free, 0.0, u)
        return where(rownnz(self.R), u, without)

    def diagonal(self, typical: Row, of_gram: Row | None) -> Rows:
        """The diagonal of the left side if all entries met a row of squares `typical`."""
        alpha = self.feedback.alpha
        weights = rownnz(self.R) if alpha is None else rowsum(alpha * abs(self.R))
        found = weights * typical + self.ridge
        return found if of_gram is None else found + of_gram


def pulls(R: Sparse, u: Rows, V: Table, feedback: Feedback) -> Sparse:
    """t - w u.v at the entries: what a row of the table is pulled by, along u."""
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
    """Conjugate gradients from the present u, at most `steps`.

    A row stops when its squared residual has fallen to `tolerance` times its first one, or when u
    is as exact as float32 can be: further steps are made of rounding errors, which may grow.

    Preconditioned by the diagonal that the row's matrix would have if all its entries met a
    `typical` row of the table (squares, [1 x K]); of_gram: that of G. The true diagonal (Jacobi)
    costs a fifth more time, and made no difference in any figure: what a preconditioner can do for
    ALS is to bring the columns of biases to the scale of the others, which saves one pass in five.
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
    """The weights of the entries, the right side [rows x K] (what of u is not free), the ridge."""
    R, feedback, free = equations.R, equations.feedback, equations.free
    right = feedback.targets(R) @ equations.V
    right = right if free is None else where(free, right, u)
    return full(R, feedback.weights(R)), right, full(rownnz(R), equations.ridge)


@rowwise
def parts(R: Sparse, feedback: Feedback) -> tuple[Sparse, Sparse, Sparse]:
    """Of each entry its weight, its target, and 1."""
    return full(R, feedback.weights(R)), feedback.targets(R), ones_like(R)


weighted_errors = rowwise(pulls)


@rowwise
def losses(equations: LeastSquares, u: Rows, norms: Table) -> tuple[Column, ...]:
    """Of each row [rows x 1]: squared errors of the entries times their confidence; absolute ones;
    the sum of confidences; and its part of the objective.

    norms: squared lengths of the table's rows, without what is not free there [columns x 1].
    Weighted, each entry carries its share of the penalties of both sides; otherwise the penalty of
    the table is left out.
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
    """Squared lengths of the table's rows [m x 1], without what is not free."""
    return rowsum(table * table if free is None else free * table * table)


def typical_squares(table: Table, free: Row | None) -> Row:
    """The mean of the squares of the table's rows [1 x K], those that are zero left out."""
    alive = norms_of(table, free) > 0.0
    return colsum(alive * (table * table)) / maximum(colsum(alive), 1.0)
