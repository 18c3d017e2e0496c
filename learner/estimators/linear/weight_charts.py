"""The largest weights of a linear estimator, as charts show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import Array

MOST = 12  # targets that are drawn


def largest_weights(
    table: Array, count: int, feature_names: Sequence[str] | None, classes: Sequence[Any] | None
) -> dict[str, dict[str, float]]:
    """Return weights by name of the feature, for each target or class, largest first.

    table: [targets x features]. count: weights of each, at most, chosen by size without sign.
    feature_names: None: numbers. Raises ValueError for too few or many.
    classes: of two, the table has the weights of the second; None: targets have numbers.
    """
    given = range(table.shape[1]) if feature_names is None else feature_names
    names = list(map(str, given))
    if len(names) != table.shape[1]:
        raise ValueError(
            f"feature_names: {len(names):,} names, but there are {table.shape[1]:,} features."
        )
    classes = range(len(table)) if classes is None else classes
    titles = classes if len(classes) == len(table) else classes[-1:]
    charts = {}
    for title, weights in list(zip(map(str, titles), table, strict=True))[:MOST]:
        largest = np.argsort(-np.abs(weights), kind="stable")[:count]
        shown = sorted(largest, key=lambda feature: -weights[feature])
        charts[title] = {names[feature]: float(weights[feature]) for feature in shown}
    return charts
