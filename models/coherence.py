"""Coherence of topics: whether their words occur in the same documents.

u_mass: Mimno, Wallach, Talley, Leenders, McCallum, EMNLP 2011. c_npmi: Bouma, GSCL 2009; applied to
topics: Lau, Newman, Baldwin, EACL 2014. c_uci: Newman, Lau, Grieser, Baldwin, NAACL 2010. c_v:
Röder, Both, Hinneburg, WSDM 2015. Scale and epsilon as in gensim's CoherenceModel. gensim slides a
window over text for c_npmi, c_uci and c_v; here the window is the whole document, as with a
window_size of the longest document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

EPSILON = 1e-12
SCRATCH = 3  # tables of scratch for each topic

Measure = Literal["u_mass", "c_npmi", "c_uci", "c_v"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

Floats = NDArray[np.float64]


def coherence_of(
    topics: Iterable[Sequence[int]],
    X: ArrayLike | sp.sparray | sp.spmatrix,
    measure: Measure = "u_mass",
) -> Floats:
    """Return the coherence of each topic, float64 [topics]; higher is better.

    topics: columns of X for each topic, the most probable word first.
    X: [documents x words], dense or sparse; a word occurs in a document where X > 0.
    measure: "u_mass", "c_npmi", "c_uci" or "c_v".

    p(w) is the share of documents with w, p(w, v) that of documents with both; e = 1e-12. The first
    three measures are means over pairs of a topic's words:

        u_mass: log((p(w, v) + e) / p(v)) of every w and every v before it; at most 0
        c_uci: log((p(w, v) + e) / (p(w) p(v))) of every two words
        c_npmi: c_uci of the pair / -log(p(w, v) + e); -1 to 1

    A pair counts 0 where v does not occur at all; for c_uci and c_npmi also where w does not.
    c_v is a mean over words: the cosine of the word's c_npmi with all words of the topic, itself
    included, and the sum of these vectors. It is -1 to 1; a word that does not occur counts 0.

    Raises:
        ValueError: the measure is unknown, a topic has fewer than two words, X has no documents, or
            lacks a column of a topic.

    >>> X = np.array([[1, 2, 0], [3, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> coherence_of([[0, 1], [0, 2]], X, "u_mass").round(2) + 0.0
    array([ -0.41, -27.34])
    >>> coherence_of([[0, 1], [0, 2]], X, "c_npmi").round(2) + 0.0
    array([ 0.42, -0.94])
    """
    if measure not in MEASURES:
        raise ValueError(f"coherence: measure={measure!r}; must be one of {', '.join(MEASURES)}.")
    occurs = sp.csc_array(sp.csr_array(X) > 0, dtype=np.float64)
    documents, width = occurs.shape
    if not documents:
        raise ValueError("coherence: X has no documents: must have one or more.")
    found = []
    for words in topics:
        if len(words) < 2:
            raise ValueError("coherence: a topic has fewer than two words; there are no pairs.")
        if max(words) >= width:
            raise ValueError(
                f"coherence: X has {width:,} columns, but a topic has the word {max(words):,}. "
                "Give documents with the columns of training."
            )
        columns = occurs[:, list(words)]
        together = (columns.T @ columns).toarray()[None] / documents
        found.append(coherences(together, measure, np.empty((SCRATCH, *together.shape)))[0])
    return np.array(found)


def coherences(together: Floats, measure: Measure, scratch: Floats) -> Floats:
    """Return the coherence of topics with equally many words, float64 [topics].

    together: [topics x words x words], p(w, v), with p(w) on the diagonal; the most probable word
        first.
    scratch: [SCRATCH x topics x words x words], so that little else is allocated.
    """
    found, smooth, apart = scratch
    alone = np.diagonal(together, axis1=1, axis2=2)
    np.copyto(apart, alone[:, None, :])
    if measure != "u_mass":  # in place, or NumPy would copy its operands
        np.copyto(smooth, alone[:, :, None])
        np.multiply(smooth, apart, out=apart)
    np.add(together, EPSILON, out=smooth)
    found.fill(1.0)
    np.divide(smooth, apart, out=found, where=apart > 0)
    np.log(found, out=found)
    if measure in ("c_npmi", "c_v"):
        bits = np.negative(np.log(smooth, out=smooth), out=smooth)
        np.divide(found, np.maximum(bits, EPSILON, out=bits), out=found)
    if measure != "c_v":
        return _means_of_pairs(found, apart)
    whole = found.sum(axis=1)
    squares = np.multiply(found, found, out=apart).sum(axis=2)
    lengths = np.sqrt(squares) * np.sqrt((whole * whole).sum(axis=1))[:, None]
    cosines = (found @ whole[:, :, None])[:, :, 0] / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(cosines.mean(axis=1))


def _means_of_pairs(values: Floats, scratch: Floats) -> Floats:
    """Return, for each topic, the mean of values[w, v] over every w and every v before it."""
    topics, words, _ = values.shape
    places = np.flatnonzero(np.tri(words, k=-1, dtype=bool))
    pairs = scratch.reshape(topics, -1)[:, : places.size]
    # with a mode, no copy is made first
    values.reshape(topics, -1).take(places, axis=1, out=pairs, mode="clip")
    return np.asarray(pairs.mean(axis=1))
