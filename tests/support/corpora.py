"""Small corpora with known topics, and plain float64 LDA for comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma


def planted(
    documents: int = 600, words: int = 60, topics: int = 6, length: int = 60, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray[Any, Any]]:
    """Documents of topics that share no words: counts [documents x words], beta [topics x V]."""
    rng = np.random.default_rng(seed)
    beta = np.zeros((topics, words))
    per = words // topics
    for k in range(topics):
        beta[k, k * per : (k + 1) * per] = rng.dirichlet(np.full(per, 2.0))
    theta = rng.dirichlet(np.full(topics, 0.1), documents)
    counts = np.array([rng.multinomial(length, t @ beta) for t in theta])
    return sp.csr_array(counts.astype(np.float32)), beta


def e_step(
    X: np.ndarray[Any, Any], phi: np.ndarray[Any, Any], alpha: Any, iterations: int
) -> np.ndarray[Any, Any]:
    """gamma [documents x K] of online VB (Hoffman et al. 2010, algorithm 1), dense float64.

    Starts from exp E[log theta] = 1, as blocklearn does. phi [K x V] = exp E[log beta].
    """
    e_theta = np.ones((X.shape[0], phi.shape[0]))
    gamma = e_theta
    for _ in range(iterations):
        gamma = alpha + e_theta * ((X / (e_theta @ phi)) @ phi.T)
        e_theta = np.exp(digamma(gamma))
    return gamma


def exp_e_log(lam: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp E[log beta] of Dirichlet rows [K x V]."""
    return np.exp(digamma(lam) - digamma(lam.sum(axis=1, keepdims=True)))


def completion_perplexity(
    beta: np.ndarray[Any, Any], X: sp.csr_array, alpha: float, seed: int = 1
) -> float:
    """Held-out perplexity of topics [K x V] by document completion, with a random half observed."""
    rng = np.random.default_rng(seed)
    beta = beta / beta.sum(axis=1, keepdims=True)
    likelihood = tokens = 0.0
    for row in X.toarray().astype(int):
        words = np.repeat(np.arange(len(row)), row)
        rng.shuffle(words)
        seen, scored = np.array_split(words, 2)
        theta = np.full(beta.shape[0], 1.0 / beta.shape[0])
        for _ in range(50):
            p = theta[:, None] * beta[:, seen]
            theta = alpha + (p / p.sum(axis=0)).sum(axis=1)
            theta /= theta.sum()
        likelihood += np.log(theta @ beta[:, scored]).sum()
        tokens += len(scored)
    return float(np.exp(-likelihood / tokens))
