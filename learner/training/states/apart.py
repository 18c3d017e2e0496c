"""Merge the Mats of replicas that are apart, in one state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engines.combine import combined
from .state import name_in, replicas_of


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
