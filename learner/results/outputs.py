"""Describe the columns of a model's predictions: names, links, groups."""

from __future__ import annotations

from blocklearn.models import GLM, Shapes
from blocklearn.models.glm.targets import Fit

from ..learner import Learner


def outputs_of(learner: Learner) -> list[dict[str, str]] | None:
    """Return name, fit and link of each prediction column of a GLM, else None.

    The classes of one softmax group have the same `fit`.
    """
    if not isinstance(learner.model, GLM):
        return None
    return [
        {"name": name, "fit": fit.name, "link": fit.link}
        for fit in fits_of(learner)
        for name in fit.names
    ]


def fits_of(learner: Learner) -> list[Fit]:
    """Return the fits of a learner's GLM, also if it was only loaded."""
    model = learner.model
    assert isinstance(model, GLM)
    columns = model.parameters["W"].shape[0]
    shapes = Shapes(
        0,
        columns,
        0,
        targets=learner.data.targets or 0,
        names=learner.names,
        target_names=learner.target_names,
    )
    return model.resolve(shapes)
