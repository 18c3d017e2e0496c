"""Place topics in a plane, so that those with like words lie close together.

Distances of topics are square roots of Jensen-Shannon divergences (Endres, Schindelin, IEEE Trans.
Inf. Theory 2003); the plane is that of classical scaling (Torgerson 1952). Chuang, Manning, Heer
(Termite, 2012) and Sievert, Shirley (LDAvis, 2014) show topics so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS = 5000  # of the most frequent words that distances are made of

Floats = NDArray[np.float64]


def topic_plane(table: NDArray[Any]) -> Floats:
    """Return places [K x 2] of topics.

    table: [words x K], not negative; columns are topics of any scale, none of them zero.
    """
    if len(table) > WORDS:
        chosen = np.argsort(-table.sum(axis=1, dtype=np.float64), kind="stable")[:WORDS]
        table = table[np.sort(chosen)]
    shares = np.maximum(table.astype(np.float64), 1e-300)
    return plane(distances(shares / shares.sum(axis=0)))


def distances(shares: Floats) -> Floats:
    """Return the Jensen-Shannon distances [K x K] of topics, 0 to 1.

    shares: [words x K], columns with the sum 1.
    """
    topics = np.ascontiguousarray(shares.T)
    own = entropy(topics)
    divergences = np.zeros((len(topics), len(topics)))
    for k, topic in enumerate(topics):
        divergences[k] = entropy((topic + topics) / 2) - (own[k] + own) / 2
    return np.sqrt(np.maximum(divergences, 0.0))


def entropy(shares: Floats) -> Floats:
    """Return the entropy of each row, in bits."""
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1))


def plane(distances: Floats) -> Floats:
    """Return the places [n x 2] of n points whose distances fit best.

    The signs are such that the largest number of each axis is positive.
    """
    squares = distances**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    places = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    largest = np.abs(places).argmax(axis=0)
    return np.asarray(places * np.where(places[largest, np.arange(2)] < 0, -1.0, 1.0))
