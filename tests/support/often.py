"""Values of a parameter that the inner loop of tests leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Any

import pytest

Places = tuple[int, ...]
"""The place of a value in the list of each parameter."""


def rarely(*cases: Any) -> list[Any]:
    """Cases that run with `-m slow` only; a tuple is one case of several parameters."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def first_often(cases: Iterable[Any], often: int = 1) -> list[Any]:
    """The first cases always, the others with `-m slow` only."""
    listed = list(cases)
    return [*listed[:often], *rarely(*listed[often:])]


def paired(often: int, **values: Iterable[Any]) -> pytest.MarkDecorator:
    """Few combinations, which have every value: the first always, the others with `-m slow` only.

    often: how many of them always.
    """
    listed = [list(each) for each in values.values()]
    cases = [
        tuple(each[place] for each, place in zip(listed, places, strict=True))
        for places in every_value([len(each) for each in listed])
    ]
    return pytest.mark.parametrize(tuple(values), first_often(cases, often), ids=_title)


def crossed(**values: Iterable[Any]) -> pytest.MarkDecorator:
    """Combinations of the values of parameters.

    Of two parameters the inner loop tests every value, and the slow tests the other combinations.
    Of more parameters, every two values of different ones meet in the inner loop.
    """
    listed = [list(each) for each in values.values()]
    sizes = [len(each) for each in listed]
    two = len(sizes) == 2
    often = set(every_value(sizes) if two else every_pair(sizes))
    cases = [
        pytest.param(
            *(each[place] for each, place in zip(listed, places, strict=True)),
            marks=[] if places in often else pytest.mark.slow,
        )
        for places in (product(*map(range, sizes)) if two else sorted(often))
    ]
    return pytest.mark.parametrize(tuple(values), cases, ids=_title)


def _title(value: Any) -> str | None:
    """Name a value in the id of a test; None: as pytest does."""
    return str(value) if isinstance(value, dict | list) else None


def every_value(sizes: list[int]) -> Iterator[Places]:
    """Yield few combinations that have every value of lists of these sizes, all about as often.

    >>> list(every_value([2, 5]))
    [(0, 0), (1, 1), (0, 2), (1, 3), (0, 4)]
    """
    for place in range(max(sizes)):
        yield tuple(place % size for size in sizes)


def every_pair(sizes: list[int]) -> Iterator[Places]:
    """Yield few combinations, in which any two values of different lists meet.

    The choice is greedy, and the same in every process.

    >>> list(every_pair([2, 2, 2]))
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    pairs = {
        places: set(combinations(enumerate(places), 2)) for places in product(*map(range, sizes))
    }
    left = set().union(*pairs.values())
    while left:
        best = max(pairs, key=lambda places: len(pairs[places] & left))
        yield best
        left -= pairs[best]
