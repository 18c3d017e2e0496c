"""The section on clusters, or components: a card for each, the largest first."""

from __future__ import annotations

from blocklearn.models import KMeans

from ..drawing.charts import Bar, bars
from ..drawing.markup import Markup, tag
from ..figures import number
from ..learner import Learner
from ..reports.clusters import clusters
from .frame import folded, section

COLUMNS = 10


def cluster_section(learner: Learner) -> Markup:
    """Return a card for each cluster: its share of the rows, and what its centre has most of."""
    what = "cluster" if isinstance(learner.model, KMeans) else "component"
    cards = []
    for each in sorted(clusters(learner, COLUMNS), key=lambda cluster: -cluster.share):
        head = tag("h3", f"{what} {each.number}", tag("small", f"{each.share:.1%} of rows"))
        rows = [Bar(name, above, number(above)) for name, above in each.columns]
        cards.append(tag("div", head, bars(rows), class_="topic", id=f"{what}-{each.number}"))
    note = (
        f"the {COLUMNS} columns in which the centre is the most above the mean of all rows, and by "
        "how much"
    )
    return section(f"{what.capitalize()}s", *folded(cards, f"{what}s"), note=note)
