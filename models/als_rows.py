"""Row by row least squares on a table: what one side of ALS does while the other stays as it is.

A row's entries have weights w and targets t, and its factors u solve

    (sum_j w_j v_j v_j' + G + ridge) u = sum_j t_j v_j,     v_j: the table's row of entry j.

Explicit ratings r (Zhou, Wilkinson, Schreiber, Pan 2008): w = 1, t = r - mean, no G. Implicit ones
(Hu, Koren, Volinsky 2008) have confidence c = 1 + alpha |r| and preference p = 1 where r > 0, else
0: w = c - 1, t = c p, and G = V.T V brings in all that is not stored, with c = 1 and p = 0.

Parts that are None do not take part. gram: G [K x K]. free: [1 x K], 0 for numbers of a row that
stay as they are. alpha: None for explicit ratings. weighted: the ridge of a row is reg times the
number of its entries (one at least), otherwise reg.
"""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import (
    colsum,
    copy,
    maximum,
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


def entries(R: Any, mean: Any, alpha: Any) -> tuple[Any, Any]:
    """Weights and targets of the entries."""
    if alpha is None:
        return 1.0, R - mean
    weight = alpha * abs(R)
    return weight, (1.0 + weight) * (R > 0.0)


def ridge_of(R: Any, reg: Any, weighted: Any) -> Any:
    """The ridge of each row."""
    return reg * maximum(rownnz(R), 1.0) if weighted else reg


def residual(
    R: Any, u: Any, table: Any, gram: Any, free: Any, mean: Any, alpha: Any, ridge: Any
) -> Any:
    """Right side minus left side of the rows' equations, at u."""
    weight, target = entries(R, mean, alpha)
    r = (target - weight * sddmm(u, table, R)) @ table - ridge * u
    r = r if gram is None else r - u @ gram
    return r if free is None else free * r


@rowwise
def descend(
    R: Any, u: Any, table: Any, gram: Any, typical: Any, diagonal: Any, free: Any, mean: Any,
    alpha: Any, reg: Any, weighted: Any, steps: Any, tolerance: Any,
) -> None:  # fmt: skip
    """Conjugate gradients from the u that is there, at most `steps`; a row stops when its squared
    residual has fallen to `tolerance` times what it was, or u is as exact as float32 can be:
    further steps are made of rounding errors, which may grow.

    Preconditioned by the diagonal that the row's matrix would have if all its entries met a
    `typical` row of the table (squares, [1 x K]); diagonal: that of G. The true diagonal (Jacobi)
    costs a fifth more time, and made no difference in any figure: what a preconditioner can do for
    ALS is to bring the columns of biases to the scale of the others, which saves one pass in five.
    """
    ridge = ridge_of(R, reg, weighted)
    without = 0.0 * u if free is None else where(free, 0.0, u)
    u <<= where(
        rownnz(R), u, without
    )  # a row without entries is zero at once, as if solved exactly
    r = residual(R, u, table, gram, free, mean, alpha, ridge)
    weights = rownnz(R) if alpha is None else rowsum(alpha * abs(R))
    scale = weights * typical + ridge
    scale = maximum(scale if gram is None else scale + diagonal, TINY)  # 0 where there is no ridge
    z = r / scale
    p = copy(z)
    old = rowdot(r, z)
    goal = tolerance * old
    for _ in repeat(steps):
        weight, _ = entries(R, mean, alpha)
        Ap = (weight * sddmm(p, table, R)) @ table + ridge * p
        Ap = Ap if gram is None else Ap + p @ gram
        Ap = Ap if free is None else free * Ap
        step = old / maximum(rowdot(p, Ap), TINY)
        u <<= u + step * p
        r <<= r - step * Ap
        z = r / scale
        new = rowdot(r, z)
        p <<= z + (new / maximum(old, TINY)) * p
        old <<= new
        until(new <= maximum(goal, EXACT * rowdot(scale * u, u)))


@rowwise
def equations(
    R: Any, u: Any, table: Any, free: Any, mean: Any, alpha: Any, reg: Any, weighted: Any
) -> Any:
    """The weights of the entries, the right side [rows x K] (what of u is not free), the ridge."""
    weight, target = entries(R, mean, alpha)
    right = target @ table
    right = right if free is None else where(free, right, u)
    return 0.0 * R + weight, right, ridge_of(R, reg, weighted) + 0.0 * rownnz(R)


@rowwise
def parts(R: Any, mean: Any, alpha: Any) -> Any:
    """Of each entry its weight, its target, and 1."""
    weight, target = entries(R, mean, alpha)
    return 0.0 * R + weight, target, 0.0 * R + 1.0


@rowwise
def weighted_errors(R: Any, u: Any, table: Any, mean: Any, alpha: Any) -> Any:
    """t - w prediction at the entries: what a row of the table is pulled by, along u."""
    weight, target = entries(R, mean, alpha)
    return target - weight * sddmm(u, table, R)


@rowwise
def losses(
    R: Any, u: Any, table: Any, gram: Any, norms: Any, free: Any, mean: Any, alpha: Any, reg: Any,
    weighted: Any,
) -> Any:  # fmt: skip
    """Of each row [rows x 1]: squared errors of the entries times their confidence; absolute ones;
    the sum of confidences; and its part of the objective.

    norms: squared lengths of the table's rows, without what is not free there [columns x 1].
    Weighted, each entry carries its share of the penalties of both sides; otherwise the penalty of
    the table is left out.
    """
    predicted = sddmm(u, table, R)
    count = rownnz(R)
    own = rowdot(u, u if free is None else free * u)
    if alpha is None:
        error = R - mean - predicted
        confidence = count
        squared = rowsum(error * error)
        loss = squared
    else:
        weight, _ = entries(R, mean, alpha)
        error = (R > 0.0) - predicted
        confidence = count + rowsum(weight)
        squared = rowsum((1.0 + weight) * error * error)
        loss = squared + rowdot(u @ gram, u) - rowsum(predicted * predicted)
    penalty = reg * (count * own + (0.0 * R + 1.0) @ norms) if weighted else reg * own
    return squared, rowsum(abs(error)), confidence, loss + penalty


def norms_of(table: Any, free: Any) -> Any:
    """Squared lengths of the table's rows [m x 1], without what is not free."""
    return rowsum(table * table if free is None else free * table * table)


def typical_squares(table: Any, free: Any) -> Any:
    """The mean of the squares of the table's rows [1 x K], those that are zero left out."""
    alive = norms_of(table, free) > 0.0
    return colsum(alive * (table * table)) / maximum(colsum(alive), 1.0)
