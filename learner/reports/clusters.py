"""What tells the clusters of k-means, or the components of a mixture, apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import KMeans

from ..learner import Learner

PART = 2**22  # numbers of a table that are looked at together


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
    """Return the clusters, or components, of a model, each with `top` columns or fewer.

    The table of centres may be as large as memory allows, so it is read in parts.
    """
    both = ("centres", "counts") if isinstance(learner.model, KMeans) else ("means", "weights")
    centres, counts = (learner.model.parameters[name].shown() for name in both)
    weights = counts[0].astype(np.float64)
    shares = weights / max(weights.sum(), np.finfo(np.float32).tiny)
    columns, found = len(centres), []
    rows = max(1, PART // len(shares))
    parts = [centres[start : start + rows] @ shares for start in range(0, columns, rows)]
    mean, names = np.concatenate(parts), learner.names
    wide = max(1, PART // columns)
    for start in range(0, len(shares), wide):
        for number, centre in enumerate(centres[:, start : start + wide].T.copy(), start):
            above = centre - mean
            most = [(names[i] if names else f"column {i}", float(above[i]))
                    for i in largest(above, top)]  # fmt: skip
            found.append(Cluster(number, float(shares[number]), most))
    return found


def largest(values: NDArray[Any], top: int) -> list[int]:
    """Return the places of the `top` largest values above 0, the largest first.

    Of equal values the first one comes first.
    """
    places = np.flatnonzero(values > 0)  # often few, and then nothing else is sorted
    if len(places) > top:
        least = np.partition(values[places], -top)[-top]
        places = places[values[places] >= least]
    order = np.argsort(-values[places], kind="stable")[:top]
    return [int(place) for place in places[order]]


def cluster_lines(learner: Learner, top: int) -> Iterator[str]:
    """Yield `   3  12.5%  socket connection ...`: number, share and columns of each cluster."""
    separator = " " if learner.names else ", "
    for each in clusters(learner, top):
        words = separator.join(name for name, _ in each.columns)
        yield f"{each.number:>4}  {each.share:6.1%}  {words}"
