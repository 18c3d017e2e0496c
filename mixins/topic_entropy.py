"""Report entropy and perplexity of columns: how many words a topic uses.

p = |W_j| / sum |W_j|,  entropy -sum p log p,  perplexity exp(entropy).
"""

from __future__ import annotations

from typing import Any, Literal

from blocklearn.matcache import Mat, colsum, exp, log, maximum, total
from blocklearn.matcache.notation.functions import TINY

from .base import Mixin


class TopicEntropy(Mixin):
    """Reports `topic_entropy` and `topic_perplexity`, means over columns."""

    kind: Literal["topic-entropy"] = "topic-entropy"

    def scores(self) -> dict[str, Any]:
        """Return the means over the columns."""
        return self.per_table(
            "topic_entropy", lambda W: total(_entropy(W)) / W.shape[1]
        ) | self.per_table("topic_perplexity", lambda W: total(exp(_entropy(W))) / W.shape[1])


def _entropy(W: Mat) -> Any:
    """Return the entropy of each column [1 x columns]; 0 for a column of zeros."""
    p = abs(W) / maximum(colsum(abs(W)), TINY)
    return -colsum(p * log(maximum(p, TINY)))
