"""Settle the topics of long documents that are drawn afresh: more sweeps, at first with more alpha.

A document's chain starts anew in each of these passes. Ten sweeps settle a short document. In a
long one, the topics of hundreds of other tokens hold each token where it is. A larger alpha loosens
them. It falls from pass to pass, as a temperature does in simulated annealing: Kirkpatrick, Gelatt,
Vecchi, Science 220 (1983).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .kept_topics import KeptTopics
    from .settings import LDASettings

SHORT = 9  # sweeps that are averaged
LONG = 250.0  # tokens of a document, on average, from which these are too few
EACH = 50.0  # tokens of a long document for a sweep
FEWEST, MOST = 19, 39  # sweeps of long documents
HEAT = 4.0  # times alpha in the first pass


class FreshPasses(NamedTuple):
    """How topics are drawn afresh.

    sweeps: of a pass, that are averaged.
    heated: passes in which alpha falls from `HEAT` times its value to the value itself.
    """

    sweeps: int
    heated: int = 0

    def heat(self, done: float) -> float:
        """Return how many times alpha is in place of alpha after so many passes."""
        power: float = HEAT ** (1.0 - done / self.heated)
        return power


def sweeps_of(tokens: float) -> int:
    """Return how many sweeps suit documents of so many tokens, on average.

    >>> [sweeps_of(tokens) for tokens in (249, 250, 1_500, 10_000)]
    [9, 19, 30, 39]
    """
    return SHORT if tokens < LONG else int(min(max(tokens / EACH, FEWEST), MOST))


def fresh_topics(model: LDASettings, kept: KeptTopics | None, documents: int) -> FreshPasses:
    """Return how a model draws topics afresh.

    kept: topics that are kept later; None: none are, and the lengths of documents are not known.
    documents: of a pass.
    """
    if model.sweeps != "auto":
        return FreshPasses(model.sweeps)
    if kept is None or not model.fresh_passes:
        return FreshPasses(SHORT)
    tokens = kept.tokens / max(documents, 1)
    sweeps = sweeps_of(tokens)
    if tokens < LONG:
        return FreshPasses(sweeps)
    model.notes.append(
        f"documents have {tokens:,.0f} tokens on average: a pass that draws topics afresh makes "
        f"{model.burn_in + sweeps} sweeps, and alpha is larger at first"
    )
    return FreshPasses(sweeps, model.fresh_passes)
