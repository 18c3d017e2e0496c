"""Combine the same numbers of all replicas, with the bits of a merge in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Merge
from blocklearn.matcache.merge import add, add_growth, approach, put, scale


def combined(
    rule: Merge, parts: list[NDArray[Any]], base: NDArray[Any] | None, weight: float
) -> NDArray[Any]:
    """Merge the same numbers of all replicas; see `HostMerger`, whose bits these are."""
    if rule == "max":
        found = parts[0].copy()
        for part in parts[1:]:
            np.maximum(found, part, out=found)
        return found
    total = np.empty(parts[0].size)
    if base is not None:
        put(base, total)
        for part in parts:
            add_growth(part, base, total)
        return _rounded(total, parts[0].dtype)
    put(parts[0], total)
    for part in parts[1:]:
        add(part, total)
    scale(weight / len(parts), total)
    return _rounded(total, parts[0].dtype) if weight == 1.0 else total


def take_over(rule: Merge, merged: NDArray[Any], own: NDArray[Any], weight: float) -> None:
    """Move a replica's numbers `own` to what `combined` returned, or for a mean towards it."""
    if rule != "mean":
        own[:] = merged
        return
    approach(merged.astype(np.float64, copy=False), 1.0 - weight, own)
    if merged.dtype != np.float64:  # what was rounded to zero keeps its sign
        np.copyto(own, merged, where=merged == 0)


def stays_alike(rule: Merge, dtype: np.dtype[Any]) -> bool:
    """Return whether finite numbers that are the same in all replicas are their own merge.

    The mean of float32 is: its sum is exact in float64.
    """
    return rule == "max" or (rule == "mean" and dtype == np.float32)


def combined_alike(
    rule: Merge, own: NDArray[Any], base: NDArray[Any] | None, replicas: int
) -> NDArray[Any]:
    """Return what `combined` makes of finite numbers that are the same in all replicas."""
    if base is None or own.tobytes() != base.tobytes():
        return combined(rule, [own] * replicas, base, 1.0)
    return combined(rule, [own], base, 1.0)  # growth of zero, once or many times


def _rounded(total: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to `dtype`; what is too large becomes infinite, as in the kernels of `HostMerger`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return total.astype(dtype)
