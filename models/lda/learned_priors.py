"""Learn the priors of LDA by a fixed point, from the topics of tokens or from their means.

Minka, "Estimating a Dirichlet distribution" (2000), eq. 55:

    alpha_k <- alpha_k sum_d [psi(n_dk + alpha_k) - psi(alpha_k)]
               / sum_d [psi(n_d + sum alpha) - psi(sum alpha)]

With the means of vb for n_dk, it stays where Hoffman, Blei, Bach (2010), section 3.3, maximise
their bound. Each block gives such an estimate, which moves the prior as it moves lambda.

Where a topic of tokens is a sample, or cvb0's mean of one, n_dk is 0 in most documents, and
psi(n + alpha) - psi(alpha) jumps there: it is 0 for n = 0, and 1 / alpha for n = 1. So the mean
count must not stand for the count: for a mean of 0.05 and alpha = 0.05 it gives ten times the mean
of the term. `expected_gain` has the chance of n = 0 apart (Teh, Newman, Welling, NIPS 2006).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.matcache import (
    Mat,
    Number,
    Row,
    Rows,
    Sparse,
    Table,
    colsum,
    digamma,
    exp,
    maximum,
    rowsum,
    rowwise,
    total,
    where,
)

START = 0.05  # of a prior that is learned
LEAST = 1e-5  # so that a topic without tokens may get some
NONE = 1e-6  # added to both sums: without tokens, a prior stays as it is
RARE = 1e-7  # least chance of a token, so that no mean is divided by 0


def problem_of_auto(priors: Mapping[str, object], *, learns: bool, seeded: bool) -> str | None:
    """Return why priors cannot be "auto"; None: they can, or none is.

    priors: alpha and eta, by these names.
    learns: whether the inference has what they are learned from.
    seeded: whether words have priors of their own.
    """
    for name, prior in priors.items():
        if prior == "auto" and not learns:
            return (
                f"{name}=auto: must be numbers with assignments=fresh: topics that are drawn "
                "afresh in each pass do not settle. Set assignments: kept, or inference: cvb0."
            )
    if seeded and priors["eta"] == "auto":
        return "eta=auto: must be a number beside seeds, which are a prior of words"
    return None


def gain(n: Table, prior: Table) -> Table:
    """Return psi(n + prior) - psi(prior), for counts, or for the means of vb."""
    return where(n > 0.0, digamma(n + prior) - digamma(prior), 0.0)


def expected_gain(n: Table, prior: Table) -> Table:
    """Return the mean of `gain`, for counts of mean n: none with the chance exp(-n)."""
    some = maximum(1.0 - exp(-n), RARE)
    return some * (1.0 / prior + digamma(maximum(n / some, 1.0) + prior) - digamma(1.0 + prior))


@rowwise
def gains_of_vb(ratio: Sparse, theta: Rows, phi: Table, alpha: Row) -> Rows:
    """Return `gain` of each document's counts [rows x K]. ratio: as `infer_vb` returns it."""
    return gain(theta * (ratio @ phi), alpha)


@rowwise
def gains_of_cvb0(ratio: Sparse, theta: Rows, phi: Table, alpha: Row) -> Rows:
    """Return `expected_gain` of each document's counts [rows x K]."""
    return expected_gain(theta * (ratio @ phi), alpha)


def alpha_of_block(alpha: Row, gains: Rows, X: Sparse) -> Row:
    """Return the estimate of alpha [1 x K] that a block gives.

    gains: [rows x K], of its documents.
    """
    whole = total(alpha)
    return moved(alpha, colsum(gains), total(gain(rowsum(X), whole)))


def eta_of_topics(eta: Number, lam: Table, *, collapsed: bool) -> Number:
    """Return the estimate of eta [1 x 1] by present topics.

    lam: [V x K], eta and the means of counts.
    collapsed: whether they are means of cvb0.
    """
    n = maximum(lam - eta, 0.0)
    return _eta(eta, (expected_gain if collapsed else gain)(n, eta), colsum(n), lam.shape[0])


def eta_of_counts(eta: Number, counts: Table, totals: Row) -> Number:
    """Return the next eta [1 x 1], for counts [V x K], and totals [1 x K] of topics."""
    return _eta(eta, gain(counts, eta), totals, counts.shape[0])


def _eta(eta: Number, gains: Table, sizes: Row, words: int) -> Number:
    return moved(eta, total(gains), words * total(gain(sizes, words * eta)))


def moved(prior: Row, gained: Row, spent: Number) -> Row:
    """Return a prior after a step of the fixed point."""
    return maximum(prior * (gained + NONE) / (spent + NONE), LEAST)


def terms_of_alpha(
    alpha: Mat, offsets: npt.NDArray[np.int64], topics: npt.NDArray[np.number]
) -> npt.NDArray[np.float64]:
    """Return sums over documents for a step of alpha [1 x K]: what each topic gained, and spent.

    offsets: each document's first token.
    topics: of the tokens. K or more: the token has none, and does not count.
    """
    now = alpha.numpy().astype(np.float64)[0]
    sums, counts = np.zeros(now.size + 1), np.zeros(now.size, np.int64)
    sums[-1] = sum_terms(offsets, topics, now, sums[:-1], counts)
    return sums


def learn_alpha(alpha: Mat, sums: npt.NDArray[np.float64]) -> None:
    """Take a step of alpha [1 x K]. sums: `terms_of_alpha` of all documents."""
    old = alpha.numpy().astype(np.float64)[0]
    new = np.maximum(old * (sums[:-1] + NONE) / (sums[-1] + NONE), LEAST)
    alpha.set(new[None].astype(np.float32))


@kernel
def sum_terms(
    offsets: npt.NDArray[np.int64],
    topics: npt.NDArray[np.number],
    alpha: npt.NDArray[np.float64],
    gained: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
) -> float:
    """Add psi(n_dk + alpha_k) - psi(alpha_k) over all documents to gained [K].

    For whole numbers that is the sum of 1 / (alpha_k + j) over j < n_dk: a term for each token.

    offsets: each document's first token.
    counts: scratch [K], zeros.

    Returns the sum of psi(n_d + sum alpha) - psi(sum alpha).
    """
    whole, spent = alpha.sum(), 0.0
    for d in range(offsets.size - 1):
        size = 0
        for p in range(offsets[d], offsets[d + 1]):
            k = topics[p]
            if k < alpha.size:
                gained[k] += 1.0 / (alpha[k] + counts[k])
                counts[k] += 1
                spent += 1.0 / (whole + size)
                size += 1
        for p in range(offsets[d], offsets[d + 1]):
            if topics[p] < alpha.size:
                counts[topics[p]] = 0
    return spent
