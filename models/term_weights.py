"""Weigh the entries of a model's data, and keep the weights of columns with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from blocklearn import datasources
from blocklearn.datasources import Weighting

from .base import Model
from .inputs import Shapes

if TYPE_CHECKING:
    from blocklearn.datasources import DataSource

NAME = "term_weights"

TermWeights = Annotated[
    Literal["none"] | Weighting,
    Field(
        description="what training, scores and predictions read in place of counts: none: the "
        "counts; idf: counts of rare words count more; tf-idf: the same, in rows of length 1; pmi: "
        "how much more often a word occurs in a row than elsewhere"
    ),
]


def weighed(
    model: Model, weighting: Literal["none"] | Weighting, source: DataSource, *, train: bool
) -> DataSource:
    """Return `source` with weighed entries; weights of columns are those of the training data.

    A model that is trained further keeps its weights.

    Raises:
        DataError: the data are dense.
        ValueError: nothing is trained.
    """
    if weighting == "none":
        return source
    known = model.recalled(NAME)
    if known is None and not train:
        raise ValueError(
            f"{type(model).__name__}: {NAME}={weighting}: nothing is trained or loaded yet, so the "
            "weights are unknown. Call fit()."
        )
    found = datasources.WeightedSource(source, weighting, None if known is None else known.ravel())
    if known is None:
        model.remember(NAME, found.weights[:, None])
    return found


def keep_weights(model: Model, weighting: Literal["none"] | Weighting, shapes: Shapes) -> None:
    """Create the parameter `term_weights` [columns x 1], which no step changes."""
    if weighting == "none":
        return
    known = model.recalled(NAME)
    init = np.ones((shapes.columns, 1), np.float32) if known is None else known
    model.parameter(NAME, shapes.columns, 1, init, merge="same")
