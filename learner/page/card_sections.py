"""Sections with a card for each cluster, each component of a mixture, each direction of an SVD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blocklearn.models import KMeans

from ..drawing.charts import Bar, bars
from ..drawing.markup import Markup, tag
from ..figures import number
from ..learner import Learner
from ..reports.clusters import clusters
from .factor_sections import spectrum_section
from .frame import folded, section

COLUMNS = 10


def cluster_section(learner: Learner) -> Markup:
    """Return a card for each cluster: its share of the rows, and what its centre has most of."""
    what = "cluster" if isinstance(learner.model, KMeans) else "component"
    found = sorted(clusters(learner, COLUMNS), key=lambda cluster: -cluster.share)
    cards = [card(what, each.number, f"{each.share:.1%} of rows", each.columns) for each in found]
    note = (
        f"the {COLUMNS} columns in which the centre is the most above the mean of all rows, and by "
        "how much"
    )
    return section(f"{what.capitalize()}s", *folded(cards, f"{what}s"), note=note)


def direction_sections(learner: Learner) -> Iterator[Markup]:
    """Yield a chart of singular values, and a card for each direction, the longest first."""
    parameters = learner.model.parameters
    V, lengths = (parameters[name].shown() for name in ("components", "singular_values"))
    squares = float(parameters["sum_of_squares"].numpy()[0, 0])
    yield spectrum_section(lengths[0], "singular values, the largest first")
    cards = []
    for place, column in enumerate(V.T):
        share = float(lengths[0, place]) ** 2 / squares if squares > 0.0 else 0.0
        most = np.argsort(-np.abs(column), kind="stable")[:COLUMNS].tolist()
        weights = [
            (learner.names[at] if learner.names else f"column {at}", float(column[at]))
            for at in most
            if column[at]
        ]
        cards.append(card("direction", place, f"{share:.1%} of squares", weights))
    note = f"the {COLUMNS} columns that weigh most; blue: with the direction; orange: against it"
    yield section("Directions", *folded(cards, "directions"), note=note)


def card(what: str, place: int, about: str, columns: list[tuple[str, float]]) -> Markup:
    """Return a card of columns with their numbers as bars."""
    head = tag("h3", f"{what} {place}", tag("small", about))
    rows = [Bar(name, value, number(value)) for name, value in columns]
    return tag("div", head, bars(rows), class_="topic", id=f"{what}-{place}")
