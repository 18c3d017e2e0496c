"""Coherence of topics: whether their most probable words occur in the same documents.

u_mass: Mimno, Wallach, Talley, Leenders, McCallum, EMNLP 2011. NPMI: Bouma, GSCL 2009; applied to
topics: Lau, Newman, Baldwin, EACL 2014. Scale and epsilon as in gensim's CoherenceModel (Röder,
Both, Hinneburg, WSDM 2015). gensim's c_npmi slides a window over text; here the window is the whole
document, as with a window_size of the longest document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

EPSILON = 1e-12
Measure = Literal["u_mass", "c_npmi"]


def coherence_of(
    topics: Iterable[Sequence[int]], X: Any, measure: Measure = "u_mass"
) -> NDArray[np.float64]:
    """Return the coherence of each topic, float64 [topics]; higher is better.

    topics: columns of X for each topic, the most probable word first.
    X: [documents x words], dense or sparse; a word occurs in a document where X > 0.
    measure: "u_mass" or "c_npmi".

    p(w) is the share of documents with w, p(w, v) that of documents with both; e = 1e-12. Each
    measure is a mean over pairs of a topic's words:

        u_mass: log((p(w, v) + e) / p(v)) of every w and every v before it; at most 0
        c_npmi: log((p(w, v) + e) / (p(w) p(v))) / -log(p(w, v) + e) of every two words; -1 to 1

    A pair counts 0 where v does not occur at all; for c_npmi also where w does not.

    Raises:
        ValueError: the measure is unknown, or a topic has fewer than two words.

    >>> X = np.array([[1, 2, 0], [3, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> coherence_of([[0, 1], [0, 2]], X, "u_mass").round(2) + 0.0
    array([ -0.41, -27.34])
    >>> coherence_of([[0, 1], [0, 2]], X, "c_npmi").round(2) + 0.0
    array([ 0.42, -0.94])
    """
    if measure not in ("u_mass", "c_npmi"):
        raise ValueError(f"coherence: measure={measure!r}; must be u_mass or c_npmi.")
    occurs = sp.csc_array(sp.csr_array(X) > 0, dtype=np.float64)
    found = []
    for words in topics:
        if len(words) < 2:
            raise ValueError("coherence: a topic has fewer than two words; there are no pairs.")
        columns = occurs[:, list(words)]
        together = (columns.T @ columns).toarray() / occurs.shape[0]
        pairs = u_mass(together) if measure == "u_mass" else npmi(together)
        later, earlier = np.tril_indices(len(words), -1)
        found.append(pairs[later, earlier].mean())
    return np.array(found)


def u_mass(together: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values [w, v] of one topic's words.

    together: [words x words], p(w, v), with p(w) on the diagonal.
    """
    alone = np.diag(together)[None, :]
    ratio = np.divide(together + EPSILON, alone, out=np.ones_like(together), where=alone > 0)
    return np.log(ratio)


def npmi(together: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return normalised pointwise mutual information; arguments as for `u_mass`."""
    alone = np.diag(together)
    both = alone[:, None] * alone[None, :]
    ratio = np.divide(together + EPSILON, both, out=np.ones_like(together), where=both > 0)
    # Words that are in every document give 0 / 0; they count 0.
    bits = np.maximum(-np.log(together + EPSILON), EPSILON)
    return np.log(ratio) / bits
