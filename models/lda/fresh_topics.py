"""Draw topics afresh in each pass: how often, and with how much alpha."""

from __future__ import annotations

from typing import NamedTuple

from .kept_topics import KeptTopics
from .long_documents import counts_of, heat_of, sweeps_of
from .settings import LDASettings


class FreshPasses(NamedTuple):
    """How topics are drawn afresh.

    sweeps: of a pass, that are averaged.
    heat: times alpha, in the first pass.
    passes: before topics are kept; None: they never are.
    expected: whether expected topics are counted, and not drawn ones.
    """

    sweeps: int
    heat: float = 1.0
    passes: int | None = None
    expected: bool = False

    def heat_after(self, done: float) -> float:
        """Return how many times alpha is in place of alpha after so many passes.

        Alpha is reached when topics are kept. If they never are, a run may end after any pass, so
        heat falls to its square root in each.
        """
        left = 0.5**done if self.passes is None else 1.0 - done / self.passes
        power: float = self.heat**left
        return power


def fresh_topics(model: LDASettings, kept: KeptTopics | None, documents: int) -> FreshPasses:
    """Return how a model draws topics afresh.

    kept: topics that are kept later; None: none are.
    documents: of a pass.
    """
    passes: int | None = None
    sweeps, heat, counts = model.sweeps, model.heat, model.fresh_counts
    tokens = 0.0
    if kept is not None and model.fresh_passes:
        passes = model.fresh_passes
        tokens = kept.tokens / max(documents, 1) if sweeps == "auto" else 0.0
    if counts == "auto":
        counts = counts_of(tokens, model.topics)
    if heat == "auto":
        heat = heat_of(tokens)
    if sweeps == "auto":
        sweeps = sweeps_of(tokens)
    if heat > 1.0 and (kept is None or passes):
        model.notes.append(
            f"a pass that draws topics afresh makes {model.burn_in + sweeps} sweeps, and alpha is "
            f"{heat:g} times as large at first: see `sweeps` and `heat`"
        )
    return FreshPasses(sweeps, heat, passes, counts == "expected")
