"""Compute the scores of pairs of features, row by row.

The sum of x_a x_b (V_a . V_b) over all pairs a < b is (S.S - sum_a x_a^2 V_a.V_a) / 2, S = x V.
"""

from __future__ import annotations

from blocklearn.matcache import Column, Matrix, Rows, Sparse, Table, rowsum, rowwise


def added_up(values: Rows, sums: Table | None) -> Rows:
    """Add up the factors of each output: [n x factors * outputs] -> [n x outputs].

    sums: [factors * outputs x outputs], 1 at the factors of an output; None: there is one output.
    """
    return rowsum(values) if sums is None else values @ sums


def pair_scores(
    X: Matrix, W: Table, V: Table, squares: Table, sums: Table | None
) -> tuple[Rows, Rows]:
    """Return the scores without constants [rows x outputs], and X V.

    squares: [features x outputs], V_a . V_a of each feature that occurs in X.
    """
    S = X @ V
    return X @ W + 0.5 * (added_up(S * S, sums) - (X * X) @ squares), S


sparse_pair_scores = rowwise(pair_scores)


@rowwise
def square_factors(XT: Sparse, V: Rows, squares: Column | Rows, sums: Table | None) -> None:
    """Set `squares` of the features that occur in a block X. XT: X.T."""
    squares <<= added_up(V * V, sums)
