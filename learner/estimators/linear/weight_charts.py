"""The largest weights of a linear estimator, as charts show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .base import LinearEstimator

MOST = 12  # targets that are drawn


def largest_weights(
    estimator: LinearEstimator, count: int, feature_names: Sequence[str] | None
) -> dict[str, dict[str, float]]:
    """Return weights by name of the feature, for each target or class, largest first.

    count: weights of each, at most, chosen by size without sign.
    feature_names: None: `feature_names_in_`, else numbers. Raises ValueError for too few or many.
    """
    table = np.atleast_2d(estimator.coef_)
    given = feature_names
    if given is None:
        given = getattr(estimator, "feature_names_in_", None)
    names = list(map(str, range(table.shape[1]) if given is None else given))
    if len(names) != table.shape[1]:
        raise ValueError(
            f"feature_names: {len(names):,} names, but there are {table.shape[1]:,} features."
        )
    classes = getattr(estimator, "classes_", range(len(table)))
    titles = classes if len(classes) == len(table) else classes[-1:]
    charts = {}
    for title, weights in list(zip(map(str, titles), table, strict=True))[:MOST]:
        largest = np.argsort(-np.abs(weights), kind="stable")[:count]
        shown = sorted(largest, key=lambda feature: -weights[feature])
        charts[title] = {names[feature]: float(weights[feature]) for feature in shown}
    return charts
