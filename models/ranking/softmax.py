"""The sampled softmax of rows of positive entries and negatives.

A row has positives P, stored values above 0, and negatives N, whose stored value is minus their
weight w. With scores s = x . y, the loss of the row is

    sum over i in P of  -log(e^s_i / (e^s_i + Z)),     Z = sum over j in N of w_j e^s_j.

Z estimates the sum over all items that are not in P, if the weights are those of a
`NegativeSource` (Bengio, Senécal, *Adaptive importance sampling to accelerate training of a neural
probabilistic language model*, 2008). With one negative of weight 1 the loss is that of Bayesian
personalised ranking (Rendle, Freudenthaler, Gantner, Schmidt-Thieme, UAI 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

from blocklearn.matcache import (
    Column,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    exp,
    log,
    maximum,
    minimum,
    repeat,
    rowdot,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
    sqrt,
)
from blocklearn.matcache.notation.functions import TINY

LARGEST = 60.0  # scores above it count as this: e^60 times any weight fits into float32


def odds(X: Sparse, scores: Sparse) -> tuple[Sparse, Column]:
    """Return w_j e^s_j of each negative, 0 for positives, and their sum Z [rows x 1]."""
    each = maximum(-1.0 * X, 0.0) * exp(minimum(scores, LARGEST))
    return each, rowsum(each)


def slopes(X: Sparse, scores: Sparse) -> Sparse:
    """Return the derivative of a row's loss by the score of each entry."""
    each, Z = odds(X, scores)
    missed = (X > 0.0) * sigmoid(log(maximum(Z, TINY)) - scores)  # 1 - p of each positive
    return each * (rowsum(missed) / maximum(Z, TINY)) - missed


@dataclass(frozen=True)
class Descent:
    """How the factors of users are learned.

    free: [1 x K], 0 for columns that are constant, else 1.
    rate: length of the first step.
    reg: weight of half the squares of the factors, for each positive.
    """

    free: Row
    rate: float
    reg: float


@rowwise
def descend(
    X: Sparse, x: Rows, squares: Column, Y: Table, descent: Descent, steps: Number
) -> Sparse:
    """Step x [rows x K] `steps` times by AdaGrad, and return the slopes at its end, a sparse X.

    squares: [rows x 1], sums of the squared lengths of each row's gradients so far.
    Y: [items x K].
    """
    weight = descent.reg * rowsum(X > 0.0)
    for _ in repeat(steps):
        g = descent.free * (slopes(X, sddmm(x, Y, X)) @ Y + weight * x)
        squares <<= squares + rowdot(g, g)
        x <<= x - (descent.rate / sqrt(maximum(squares, TINY))) * g
    return slopes(X, sddmm(x, Y, X))


@rowwise
def standing(X: Sparse, x: Rows, Y: Table) -> tuple[Column, Column]:
    """Return the share of each row's negatives that score below the mean of its positives.

    The second result is 1 for rows that have both, else 0, and then the share is 0. Both are
    [rows x 1].
    """
    scores = sddmm(x, Y, X)
    positive, negative = X > 0.0, X < 0.0
    positives, negatives = rowsum(positive), rowsum(negative)
    mean = rowsum(positive * scores) / maximum(positives, 1.0)
    both = minimum(positives, 1.0) * minimum(negatives, 1.0)
    return both * rowsum(negative * (scores < mean)) / maximum(negatives, 1.0), both
