"""What tells the clusters of k-means, or the components of a mixture, apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from blocklearn.models import KMeans

from ..learner import Learner


class Cluster(NamedTuple):
    """A cluster, or a component, as reports show it.

    share: of the rows that made the centres, by weight.
    columns: names of the columns in which its centre is the most above the mean of all rows, the
        first the most, and by how much.
    """

    number: int
    share: float
    columns: list[tuple[str, float]]


def clusters(learner: Learner, top: int) -> list[Cluster]:
    """Return the clusters, or components, of a model, each with `top` columns or fewer."""
    both = ("centres", "counts") if isinstance(learner.model, KMeans) else ("means", "weights")
    centres, counts = (learner.model.parameters[name].numpy().astype(np.float64) for name in both)
    shares = counts[0] / max(counts.sum(), np.finfo(np.float32).tiny)
    ahead = (centres - (centres @ shares)[:, None]).T
    names = learner.names
    return [
        Cluster(
            number,
            float(share),
            [
                (names[column] if names else f"column {column}", float(above[column]))
                for column in np.argsort(-above, kind="stable")[:top].tolist()
                if above[column] > 0
            ],
        )
        for number, (share, above) in enumerate(zip(shares, ahead, strict=True))
    ]


def cluster_lines(learner: Learner, top: int) -> Iterator[str]:
    """Yield `   3  12.5%  socket connection ...`: number, share and columns of each cluster."""
    separator = " " if learner.names else ", "
    for each in clusters(learner, top):
        words = separator.join(name for name, _ in each.columns)
        yield f"{each.number:>4}  {each.share:6.1%}  {words}"
