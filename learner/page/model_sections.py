"""Sections on a model and what data say about it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blocklearn.models import GLM, LDA, NMF, FactorModel

from ..drawing.markup import Markup
from ..evidence.documents import topic_evidence
from ..evidence.opened import RunData
from ..evidence.ratings import rating_evidence
from ..evidence.targets import target_evidence
from ..learner import Learner
from .factor_sections import factor_sections, spectrum_section
from .frame import section
from .target_sections import target_sections
from .topic_sections import topic_sections


def model_sections(learner: Learner, data: RunData) -> Iterator[Markup]:
    """Yield all sections on the model.

    data: those it was trained on and scored on, as far as they can be read.
    """
    model = learner.model
    if data.missing:
        yield section("Data", note=f"They cannot be read again: {data.missing}")
    if isinstance(model, LDA | NMF):
        yield from topic_sections(learner, topic_evidence(learner, data))
    if isinstance(model, NMF):
        lengths = np.linalg.norm(model.parameters["H"].numpy().astype(np.float64), axis=0)
        yield spectrum_section(np.sort(lengths)[::-1], "lengths of the parts, the longest first")
    elif isinstance(model, FactorModel):
        yield from factor_sections(learner, rating_evidence(learner, data))
    elif isinstance(model, GLM):
        yield from target_sections(learner, target_evidence(learner, data))
