"""Decide how passes draw topics afresh: of long documents by more sweeps, at first with more alpha.

Of documents of medium length they count the topics that tokens are expected to have.

While topics are drawn afresh, a document's chain starts anew in each pass. Ten sweeps settle a
short document. In a long one, the topics of hundreds of other tokens hold each token where it is. A
larger alpha loosens them. It falls from pass to pass, as a temperature does in simulated annealing:
Kirkpatrick, Gelatt, Vecchi, Science 220 (1983). After some of these passes topics only blur, and
perplexity rises. Kept topics do not blur, so they follow, unless a run ends before.
"""

from __future__ import annotations

from typing import Literal

from .limits import FEW

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
FIRST = 8  # passes of longer runs before topics are kept, one of cvb0 included
ENOUGH = 60.0  # tokens of a document, on average, from which expected topics are not too sharp
KEPT_SWEEPS = 5  # sweeps of each pass over kept topics, in a run of fewer than 50 passes


def sweeps_of(tokens: float) -> int:
    """Return how many sweeps suit documents of so many tokens, on average.

    >>> [sweeps_of(tokens) for tokens in (249, 250, 1_500, 10_000)]
    [9, 19, 30, 39]
    """
    return SHORT if tokens < LONG else int(min(max(tokens / EACH, FEWEST), MOST))


def first_of(tokens: float) -> dict[str, int]:
    """Return how a run of many passes begins that keeps topics of documents of so many tokens.

    A pass of cvb0 makes topics of long documents alike.

    >>> first_of(249), first_of(250)
    ({}, {'warm_up': 0, 'fresh_passes': 8})
    """
    return {"warm_up": 0, "fresh_passes": FIRST} if tokens >= LONG else {}


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
