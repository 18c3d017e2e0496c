"""Held-out perplexity from topics alone, by document completion.

Half of a document's tokens infer its topics, with the topic-word matrix fixed. The perplexity is
that of the other half (Wallach, Murray, Salakhutdinov, Mimno, ICML 2009, section 5.1). This is
plain float64 NumPy, independent of blocklearn, and the same for every system.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Tokens = list[tuple[Any, Any]]  # for each document the words that occur, and how often


def halves(X: Any) -> tuple[Tokens, Tokens]:
    """Shuffle each row's tokens with a fixed seed and return the observed and scored halves."""
    rng = np.random.RandomState(1)
    parts: tuple[Tokens, Tokens] = ([], [])
    for d in range(X.shape[0]):
        a, b = X.indptr[d], X.indptr[d + 1]
        tokens = np.repeat(X.indices[a:b], np.rint(X.data[a:b]).astype(int))
        rng.shuffle(tokens)
        half = (len(tokens) + 1) // 2
        for part, chosen in zip(parts, (tokens[:half], tokens[half:]), strict=True):
            part.append(np.unique(chosen, return_counts=True))
    return parts


def completion(
    phi: Any, parts: tuple[Tokens, Tokens], alpha: Any, iters: int = 50, floor: float = 1e-12
) -> tuple[float, int]:
    """Return the perplexity of the scored halves, and the number of tokens in them.

    phi: [K x V], topics, normalised here.
    alpha: prior of topics: a number, or [K].
    parts: the observed and the scored halves.

    EM on its observed half finds theta of a document: q_wk ~ theta_k phi_kw, theta_k = (alpha +
    sum_w c_w q_wk) / (sum alpha + N). This is a Dirichlet posterior mean: a MAP step would need
    alpha >= 1.
    """
    phi = np.maximum(np.asarray(phi, dtype=np.float64), floor)
    phi /= phi.sum(1, keepdims=True)
    K = phi.shape[0]
    words = np.ascontiguousarray(phi.T)
    whole = float(np.broadcast_to(alpha, K).sum())
    likelihood = tokens = 0.0
    for (w1, c1), (w2, c2) in zip(*parts, strict=True):
        if not len(w1) or not len(w2):
            continue
        seen, theta, N = words[w1], np.full(K, 1.0 / K), c1.sum()
        for _ in range(iters):
            theta = (alpha + theta * ((c1 / (seen @ theta)) @ seen)) / (whole + N)
        likelihood += float(c2 @ np.log(words[w2] @ theta))
        tokens += float(c2.sum())
    return float(np.exp(-likelihood / tokens)), int(tokens)


def unigram(X: Any, eta: float) -> Any:
    """Return the model with one topic [1 x V], which every other must beat."""
    counts = np.asarray(X.sum(0, dtype=np.float64)).ravel() + eta
    return (counts / counts.sum())[None, :]
