"""Terms of mixins in models that multiply positive tables: LDA and NMF.

Let W be a positive table that lowers sum_i (push_i W_i - pull_i log W_i), as counts of topics and
parts of KL do: W = pull / push. A term t on N rows, whose gradient is rising - falling with both
parts >= 0, adds N W falling to pull and N rising to push. Where W rests, the gradient of the sum is
0, and W stays positive. Such splits: Lee, Seung, NIPS 2000; for orthogonality: Choi, IJCNN 2008,
*Algorithms for orthogonal nonnegative matrix factorization*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from blocklearn.matcache import Mat, Table


class SplitTerm(Protocol):
    """A term of the objective whose gradient is split into two non-negative parts."""

    @property
    def kind(self) -> str:
        """The name for messages."""

    def slopes(self, W: Mat) -> tuple[Table, Table]:
        """Return (rising, falling): the gradient by W >= 0 is their difference."""


def slopes_of(terms: Sequence[SplitTerm], W: Mat) -> tuple[Table, Table] | None:
    """Return the sums of the terms' (rising, falling) at W; None without terms."""
    found = [term.slopes(W) for term in terms]
    if not found:
        return None
    rising, falling = found[0]
    for more, less in found[1:]:
        rising, falling = rising + more, falling + less
    return rising, falling
