"""Sizes of models and data up to which, or from which, LDA keeps topics and sweeps them again."""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np

from blocklearn.matcache.operations.kept_topics import type_of_topics

FEW = 200  # topics up to which passes draw afresh first, and may sweep kept topics again
MANY_TOKENS = 5.0  # for each word and topic, from which phi is known well enough to sweep again
SWEEPS = 3  # of a pass, then: within a block a sweep costs half of one in another pass
MOST_BYTES = 2**30  # of topics that "auto" keeps
MOST_FRESH = 2**16  # topics that are drawn afresh


def most_kept(wanted: Literal["kept", "auto"], K: int) -> int:
    """Return how many tokens may keep one of K topics each."""
    return sys.maxsize if wanted == "kept" else MOST_BYTES // np.dtype(type_of_topics(K)).itemsize


def sweeps_for(tokens: float, words: int, K: int) -> int:
    """Return how many sweeps of a pass suit data of so many tokens.

    Between two sweeps of a block phi stays. With many tokens of a word in a topic it would hardly
    change. With few of them, passes of one sweep reach better topics in the same time.

    >>> sweeps_for(380_000, 300, 50), sweeps_for(380_000, 12_000, 50)
    (3, 1)
    """
    return SWEEPS if K <= FEW and tokens >= MANY_TOKENS * words * K else 1
