"""Sections on the directions of an SVD: their lengths, and the columns that weigh most in each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..drawing.charts import Bar, bars
from ..drawing.markup import Markup, tag
from ..figures import number
from ..learner import Learner
from .factor_sections import spectrum_section
from .frame import folded, section

COLUMNS = 10


def direction_sections(learner: Learner) -> Iterator[Markup]:
    """Yield a chart of singular values, and a card for each direction, the longest first."""
    parameters = learner.model.parameters
    V, lengths = (parameters[name].shown() for name in ("components", "singular_values"))
    squares = float(parameters["sum_of_squares"].numpy()[0, 0])
    yield spectrum_section(lengths[0], "singular values, the largest first")
    cards = []
    for place, column in enumerate(V.T):
        share = float(lengths[0, place]) ** 2 / squares if squares > 0.0 else 0.0
        head = tag("h3", f"direction {place}", tag("small", f"{share:.1%} of squares"))
        most = np.argsort(-np.abs(column), kind="stable")[:COLUMNS].tolist()
        rows = [
            Bar(learner.names[at] if learner.names else f"column {at}", float(column[at]),
                number(float(column[at])))
            for at in most if column[at]
        ]  # fmt: skip
        cards.append(tag("div", head, bars(rows), class_="topic", id=f"direction-{place}"))
    note = f"the {COLUMNS} columns that weigh most; blue: with the direction; orange: against it"
    yield section("Directions", *folded(cards, "directions"), note=note)
