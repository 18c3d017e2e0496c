"""Compute the scores of pairs of features, row by row.

The sum of x_a x_b (V_a . V_b) over all pairs a < b is (S.S - sum_a x_a^2 V_a.V_a) / 2, S = x V.
"""

from __future__ import annotations

from blocklearn.matcache import Column, Matrix, Row, Rows, Sparse, Table, rowsum, rowwise


def added_up(values: Rows, sums: Table | None) -> Rows:
    """Add up the factors of each output: [n x factors * outputs] -> [n x outputs].

    sums: [factors * outputs x outputs], 1 at the factors of an output; None: there is one output.
    """
    return rowsum(values) if sums is None else values @ sums


def pair_scores(
    X: Matrix, W: Table, V: Table, alone: Rows, sums: Table | None
) -> tuple[Rows, Rows]:
    """Return the scores without constants [rows x outputs], and X V.

    alone: of `features_alone`.
    """
    S = X @ V
    return scores_of(X, W, (S, S), alone, sums), S


def scores_of(
    X: Matrix, W: Table, meeting: tuple[Rows, Rows], alone: Rows, sums: Table | None
) -> Rows:
    """Return the scores without constants. meeting: X V, and the sums that its columns meet."""
    S, partners = meeting
    return X @ W + 0.5 * (added_up(S * partners, sums) - alone)


def features_alone(X: Matrix, squares: Table) -> Rows:
    """Return the sum of x_a^2 V_a . V_a of each row: its pairs of a feature and itself.

    squares: [features x outputs], V_a . V_a of each feature that occurs in X.
    """
    return (X * X) @ squares


sparse_pair_scores, sparse_scores_of = rowwise(pair_scores), rowwise(scores_of)
sparse_features_alone = rowwise(features_alone)


@rowwise
def square_factors(
    XT: Sparse, V: Rows, squares: Column | Rows, sums: Table | None, own: Row | None
) -> None:
    """Set `squares` of the features that occur in a block X.

    XT: X.T. own: [1 x columns of V], 1 at those that meet themselves; None: all do.
    """
    squares <<= added_up(V * V if own is None else V * V * own, sums)
