"""What the columns of a model's predictions are: targets, links, classes of a group."""

from __future__ import annotations

from blocklearn.models import GLM, Shapes
from blocklearn.models.targets import Fit

from ..learner import Learner


def outputs_of(learner: Learner) -> list[dict[str, str]] | None:
    """What the columns of a GLM's predictions are: their names, their links, and which of them are
    the classes of one softmax group (the same `fit`). None of other models.
    """
    if not isinstance(learner.model, GLM):
        return None
    return [
        {"name": name, "fit": fit.name, "link": fit.link}
        for fit in fits_of(learner)
        for name in fit.names
    ]


def fits_of(learner: Learner) -> list[Fit]:
    """The fits of a learner's model; it may have been loaded without being used."""
    model = learner.model
    assert isinstance(model, GLM)
    columns = model.parameters["W"].shape[0]
    shapes = Shapes(
        0,
        columns,
        0,
        targets=learner.targets or 0,
        names=learner.names,
        target_names=learner.target_names,
    )
    return model.resolve(shapes)
