"""Read the words of topics from the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache, from_array
from blocklearn.models import Model


def topic_words(
    model: Model,
    parameter: Callable[[str], np.ndarray[Any, Any]],
    names: Sequence[str] | None,
    top: int,
    relevance: float,
) -> list[list[tuple[str, float]]]:
    """Return the first words of each topic with their probabilities: see `Learner.topics`.

    parameter: returns a copy of a learned parameter. names: of the words; None: their numbers.
    """
    if not hasattr(type(model), "topic_words"):
        raise ValueError(
            f"Learner.topics: model={type(model).__name__}: must be a model with topics, such as "
            "LDA or NMF."
        )
    with MatCache(threads=1) as cache:
        copy = model.model_copy()
        copy.attach(cache)
        for name in model.learned_shapes.keys() - model.row_states.keys():
            copy.parameters[name] = from_array(cache, parameter(name), name)
        found: list[list[tuple[int, float]]] = copy.topic_words(top, relevance)  # type: ignore[attr-defined]
    return [
        [(names[column] if names else str(column), float(share)) for column, share in words]
        for words in found
    ]
