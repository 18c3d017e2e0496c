"""What LDA infers of documents, given topics: rows of theta, ratios, bounds.

theta: [rows x K], proportions of documents. phi: [V x K], topics. alpha: [1 x K], the prior of
theta. iters: iterations for each document.
"""

from __future__ import annotations

from blocklearn.matcache import (
    Column,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    digamma,
    exppsi,
    lgamma,
    log,
    maximum,
    repeat,
    rowsum,
    rowwise,
    sddmm,
)

FLOOR = 1e-15  # of exp E[log beta]: times 1e-20, the floor of exppsi, it is still a normal number


def expected_counts(X: Sparse, theta: Rows, phi: Table) -> Rows:
    """Return sum_w n_dw p(z = k | w, d) [rows x K]: tokens in each topic."""
    return theta * (ratios(X, theta, phi) @ phi)


def ratios(X: Sparse, theta: Rows, phi: Table) -> Sparse:
    """Return X / (theta . phi) at the non-zeros of X.

    It is the common factor of the responsibilities.
    """
    return X / sddmm(theta, phi, X)


@rowwise
def infer_vb(X: Sparse, theta: Rows, phi: Table, alpha: Row, iters: Number) -> Sparse:
    """Run the variational E-step, and return the ratios.

    theta: [rows x K], becomes exp(psi(gamma)). The factor exp(-psi(sum gamma)) of exp E[log theta]
        cancels in the ratio and is left out.
    phi: [V x K], exp E[log beta].
    """
    for _ in repeat(iters):
        theta <<= exppsi(expected_counts(X, theta, phi) + alpha)
    return ratios(X, theta, phi)


@rowwise
def infer_cvb0(X: Sparse, theta: Rows, phi: Table, alpha: Row, iters: Number) -> Sparse:
    """Run the collapsed E-step, which needs no exppsi, and return the ratios.

    theta: [rows x K], becomes N_dk + alpha.
    phi: [V x K], E[beta].
    """
    for _ in repeat(iters):
        theta <<= expected_counts(X, theta, phi) + alpha
    return ratios(X, theta, phi)


@rowwise
def geometric_topics_of(XT: Sparse, phi: Rows, lam: Rows, one: Row) -> None:
    """Make phi = exp E[log beta] for words that occur. one: [1 x K], exppsi of a topic's sum."""
    phi <<= maximum(exppsi(lam) / one, FLOOR)


@rowwise
def mean_topics_of(XT: Sparse, phi: Rows, lam: Rows, one: Row) -> None:
    """Make phi = E[beta] for words that occur. one: [1 x K], the sum of a topic."""
    phi <<= maximum(lam / one, FLOOR)


@rowwise(any_width=True)
def bound(
    X: Sparse, theta: Rows, phi: Table, alpha: Row, alpha_sum: Number, iters: Number
) -> Column:
    """Return the ELBO of each document, given beta.

    It is E_q[log p(words, z, theta)] - E_q[log q(z, theta)]: Hoffman, Blei, Bach (2010), eq. 4,
    with the sums over z done.

    alpha: [1 x K].
    """
    for _ in repeat(iters):
        theta <<= exppsi(expected_counts(X, theta, phi) + alpha)
    gamma = expected_counts(X, theta, phi) + alpha
    theta <<= exppsi(gamma)
    gamma_sum = rowsum(gamma)
    e_log = digamma(gamma) - digamma(gamma_sum)
    words = rowsum(X * log(sddmm(theta, phi, X))) - rowsum(X) * digamma(gamma_sum)
    prior = lgamma(alpha_sum) - lgamma(gamma_sum)
    return words + prior + rowsum((alpha - gamma) * e_log + lgamma(gamma) - lgamma(alpha))


@rowwise(any_width=True)
def completion(
    seen: Sparse, scored: Sparse, theta: Rows, beta: Table, alpha: Row, iters: Number
) -> Column:
    """Return log p of the scored tokens, with theta inferred from the seen ones.

    beta: [V x K], E[beta].
    """
    for _ in repeat(iters):
        theta <<= expected_counts(seen, theta, beta) + alpha
    return rowsum(scored * log(sddmm(theta, beta, scored) / rowsum(theta)))


@rowwise
def proportions(X: Sparse, theta: Rows, beta: Table, alpha: Row, iters: Number) -> Rows:
    """Return the topic proportions of each document [rows x K]; rows sum to 1."""
    for _ in repeat(iters):
        theta <<= expected_counts(X, theta, beta) + alpha
    return theta / rowsum(theta)
