"""Report a factorisation after training: held-out scores by pass, lists, neighbours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from blocklearn.datasources import Ids
from blocklearn.models import FactorModel

from ..figures import number
from ..learner import Learner
from ..recommendation.factors import factors_of
from ..recommendation.lists import Ranked
from ..recommendation.recommend import recommend, similar_items

PASSES = 12  # shown in the table of scores, at most
ROWS = 6  # users and items whose lists are shown
LISTED = 5


def score_lines(evaluations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table of held-out scores by pass, at most `PASSES` of them evenly spread.

    evaluations: events of `metrics.jsonl`.

    >>> events = [{"pass": 1, "rmse": 2.5, "mae": 2.0}, {"pass": 2, "rmse": 1.25, "mae": 0.5}]
    >>> print("\\n".join(score_lines(events)))
    pass    rmse     mae
       1     2.5       2
       2    1.25     0.5
    """
    if not evaluations:
        return
    count = min(PASSES, len(evaluations))
    shown = np.unique(np.linspace(0, len(evaluations) - 1, count).round().astype(int))
    names = [name for name in evaluations[-1] if name != "pass"]
    widths = [max(7, len(name)) for name in names]
    heads = [f"{name:>{width}}" for name, width in zip(names, widths, strict=True)]
    yield " ".join(["pass", *heads])
    for index in shown:
        event = evaluations[index]
        cells = (f"{number(event[n]):>{w}}" for n, w in zip(names, widths, strict=True))
        yield " ".join([f"{event['pass']:4d}", *cells])


def list_lines(learner: Learner) -> Iterator[str]:
    """Yield recommendations for some users and neighbours of some items.

    A line is `socket.create_connection: .setsockopt, .listen ...`. Recommendations are made for
    implicit feedback only. Nothing is yielded for items without names, nor neighbours for items
    without factors.
    """
    model, factors = learner.model, factors_of(learner)
    assert isinstance(model, FactorModel)
    items = factors.item_ids
    if items is None:
        return
    if model.implicit and factors.user_ids is not None and learner.train is not None:
        yield "recommended"
        users = some(factors.users[:, : factors.rank])
        yield from lines(recommend(learner, users, LISTED), factors.user_ids, items)
    if not factors.items[:, : factors.rank].any():
        return  # biases alone
    yield "alike"
    which = some(factors.items[:, : factors.rank])
    yield from lines(similar_items(learner, which, LISTED), items, items)


def some(table: Any) -> Any:
    """Return numbers of some rows, evenly spread over the longer half, which is better known."""
    lengths = np.linalg.norm(table, axis=1)
    longest = np.argsort(-lengths, kind="stable")[: max(1, int((lengths > 0).sum()) // 2)]
    places = np.linspace(0, longest.size - 1, min(ROWS, longest.size)).round().astype(int)
    return longest[places]


def lines(lists: Iterable[Ranked], rows: Ids, listed: Ids) -> Iterator[str]:
    """Yield a line for each list."""
    for part in lists:
        for row, ids in zip(part.rows, part.ids, strict=True):
            names = ", ".join(listed[int(other)] for other in ids if other >= 0)
            yield f"  {rows[int(row)]}: {names}"
