"""The Mats of replicas that are apart, in one state: their names, and their complete merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...engines.combine import combined

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


def merged(tensors: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the tensors as a complete merge leaves them, the same in all replicas.

    Only means are apart. All else is the same in all replicas already.
    """
    found, count = dict(tensors), replicas_of(tensors)
    for name in [name for name in found if name_in(1, name) in found]:
        parts = [found.pop(name_in(number, name)) for number in range(count)]
        first = parts[0]
        if any(part.tobytes() != first.tobytes() for part in parts):
            flat = combined("mean", [part.reshape(-1) for part in parts], None, 1.0)
            first = flat.reshape(first.shape)
        found[name] = first
    return found
