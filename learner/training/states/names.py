"""Names of the Mats of replicas that are apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

OF_REPLICA = re.compile(r"replica\.(\d+)\.")


def name_in(replica: int, name: str) -> str:
    """Return the name of a Mat of a replica.

    >>> name_in(0, "weights"), name_in(2, "weights")
    ('weights', 'replica.2.weights')
    """
    return name if replica == 0 else f"replica.{replica}.{name}"


def replicas_of(names: Iterable[str]) -> int:
    """Return how many replicas have Mats of their own; 1: they are all the same.

    >>> replicas_of(["weights", "replica.1.weights", "replica.2.weights"])
    3
    """
    return 1 + max((int(match[1]) for match in map(OF_REPLICA.match, names) if match), default=0)
