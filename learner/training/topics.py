"""Read the words of topics from the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache
from blocklearn.matcache.containers.arrays import on_arrays
from blocklearn.models import Model


def topic_words(
    model: Model,
    parameter: Callable[[str], np.ndarray[Any, Any]],
    names: Sequence[str] | None,
    top: int,
    relevance: float,
) -> list[list[tuple[str, float]]]:
    """Return the first words of each topic with their probabilities: see `Learner.topics`.

    parameter: returns a learned parameter, which is left as it is. names: of the words; None: their
        numbers.
    """
    if not hasattr(type(model), "topic_words"):
        raise ValueError(
            f"Learner.topics: model={type(model).__name__}: must be a model with topics, such as "
            "LDA or NMF."
        )
    if top < 1:
        raise ValueError(f"Learner.topics: top={top}: must be at least 1.")
    if not 0 <= relevance <= 1:
        raise ValueError(f"Learner.topics: relevance={relevance}: must be from 0 to 1.")
    with MatCache(threads=1, reserving=True) as cache:
        copy = model.model_copy()
        copy.attach(cache)
        names_of_tables = model.learned_shapes.keys() - model.row_states.keys()
        copy.parameters |= on_arrays(cache, {name: parameter(name) for name in names_of_tables})
        found: list[list[tuple[int, float]]] = copy.topic_words(top, relevance)  # type: ignore[attr-defined]
    return [
        [(names[column] if names else str(column), float(share)) for column, share in words]
        for words in found
    ]
