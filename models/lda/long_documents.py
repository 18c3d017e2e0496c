"""Decide how passes draw topics afresh: of long documents by more sweeps, at first with more alpha.

Of documents of medium length they count the topics that tokens are expected to have.

While topics are drawn afresh, a document's chain starts anew in each pass. Ten sweeps settle a
short document. In a long one, the topics of hundreds of other tokens hold each token where it is. A
larger alpha loosens them. It falls from pass to pass, as a temperature does in simulated annealing:
Kirkpatrick, Gelatt, Vecchi, Science 220 (1983). After some of these passes topics only blur, and
perplexity rises. Kept topics do not blur, so they follow, unless a run ends before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from .kept_topics import FEW

if TYPE_CHECKING:
    from .kept_topics import KeptTopics
    from .settings import LDASettings

SHORT = 9  # sweeps that are averaged
LONG = 250.0  # tokens of a document, on average, from which these are too few
EACH = 50.0  # tokens of a long document for a sweep
FEWEST, MOST = 19, 39  # sweeps of long documents
HEAT = 4.0  # times alpha in the first pass
PASSES_OF_LONG = 10  # of a run, from which topics of long documents are kept
FRESH_OF_LONG = 3  # passes, then, that draw topics afresh
MEDIUM = 80.0  # tokens of a document, on average, from which kept topics fit no worse
PASSES_OF_MEDIUM = 20  # of a run, from which topics of such documents are kept
FRESH_OF_MEDIUM = 7  # passes, then, that draw topics afresh after one of cvb0
ENOUGH = 60.0  # tokens of a document, on average, from which expected topics are not too sharp
KEPT_SWEEPS = 5  # sweeps of each pass over kept topics, in a run of fewer than 50 passes


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


def sweeps_of(tokens: float) -> int:
    """Return how many sweeps suit documents of so many tokens, on average.

    >>> [sweeps_of(tokens) for tokens in (249, 250, 1_500, 10_000)]
    [9, 19, 30, 39]
    """
    return SHORT if tokens < LONG else int(min(max(tokens / EACH, FEWEST), MOST))


def fresh_passes_of(tokens: float, topics: int, passes: int) -> int | None:
    """Return after how many passes a run of fewer than 50 keeps topics; None: never.

    Where all passes draw afresh, topics of short documents fit better.

    tokens: of a document, on average. passes: of the run.

    >>> [fresh_passes_of(tokens, 40, passes) for tokens in (79, 80, 250) for passes in (10, 20)]
    [None, None, None, 7, 3, 3]
    """
    if tokens >= LONG:
        return FRESH_OF_LONG if passes >= PASSES_OF_LONG else None
    some = tokens >= MEDIUM and topics <= FEW and passes >= PASSES_OF_MEDIUM
    return FRESH_OF_MEDIUM if some else None


def heat_of(tokens: float) -> float:
    """Return how much heat suits documents of so many tokens, on average."""
    return 1.0 if tokens < LONG else HEAT


def counts_of(tokens: float, topics: int) -> Literal["drawn", "expected"]:
    """Return which topics to count, of documents of so many tokens, on average.

    Expected ones of shorter documents are too sharp. Of longer ones, and of many topics, they are
    no better.

    >>> [counts_of(tokens, 40) for tokens in (59, 60, 249, 250)]
    ['drawn', 'expected', 'expected', 'drawn']
    """
    return "expected" if ENOUGH <= tokens < LONG and topics <= FEW else "drawn"


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
