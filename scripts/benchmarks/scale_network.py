"""Networks that `scripts/bench scale` simulates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from blocklearn.learner.engines.cost import Network


@dataclass(frozen=True)
class Nodes(Network):
    """Workers in nodes: those of a node share one link to the other nodes.

    latency, bandwidth: of a node's link to others.
    within: what connects the workers of a node. each: how many they are.
    """

    within: Network = field(default_factory=lambda: Network(5e-6, 1.5e11))
    each: int = 8

    def exchange(self, nbytes: float, degrees: Sequence[int]) -> float:
        """See `Network`. Workers of a node are numbered in turn, so last layers are within it."""
        inside, workers = list[int](), prod(degrees)
        outside = list(degrees)
        while outside and prod(inside) * outside[-1] <= min(self.each, workers):
            inside.insert(0, outside.pop())
        found = self.within.exchange(nbytes, inside) if inside else 0.0
        for degree in outside:
            near = max(1, self.each // prod(inside)) if degree == outside[-1] else 1
            near = min(near, degree)  # partners in this layer that are in the node, with itself
            sharing = min(self.each, workers)
            far = (degree - near) / degree * nbytes
            found += (degree - near) * self.latency + sharing * far / self.bandwidth
            found += (near - 1) * self.within.latency
            found += (near - 1) / degree * nbytes / self.within.bandwidth
        return found


def shared_seconds(network: Network, nbytes: float, workers: int) -> float:
    """Return the seconds in which all workers get `nbytes`, of which each has a part.

    Parts go around in a ring of all workers, so each passes a node's link once.
    """
    part = nbytes / workers
    if not isinstance(network, Nodes) or workers <= network.each:
        inner = network.within if isinstance(network, Nodes) else network
        return inner.exchange(nbytes, [workers])
    step = network.latency + part / network.bandwidth
    return (workers - 1) * max(step, part / network.within.bandwidth)


NETWORKS: dict[str, Network] = {
    "10 Gb/s, 50 us": Network(5e-5, 1.25e9),
    "100 Gb/s, 10 us": Network(1e-5, 1.25e10),
    "nodes of 8 (150 GB/s, 5 us), 10 Gb/s": Nodes(5e-5, 1.25e9),
    "nodes of 8 (150 GB/s, 5 us), 100 Gb/s": Nodes(1e-5, 1.25e10),
}
"""In the last two, 8 workers of a node are connected as by NVLink, and share its link to others."""
