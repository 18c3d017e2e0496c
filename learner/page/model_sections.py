"""Sections on a model and what data say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from blocklearn.matcache.errors import BlocklearnError
from blocklearn.models import GLM, LDA, NMF, SVD, FactorModel, GaussianMixture, KMeans

from ..drawing.markup import Markup
from ..evidence.documents import topic_evidence
from ..evidence.opened import RunData
from ..evidence.ratings import rating_evidence
from ..evidence.targets import target_evidence
from ..learner import Learner
from ..terminal import message_text
from .card_sections import cluster_section, direction_sections
from .factor_sections import factor_sections, spectrum_section
from .frame import section
from .target_sections import target_sections
from .topic_sections import topic_sections

Evidence = TypeVar("Evidence")


def model_sections(learner: Learner, data: RunData) -> Iterator[Markup]:
    """Yield all sections on the model.

    data: those it was trained on and scored on, as far as they can be read. If they cannot, a
        section says why, and the others do without them.
    """
    model, missing = learner.model, [data.missing] if data.missing else []

    def found(read: Callable[[Learner, RunData], Evidence | None]) -> Evidence | None:
        try:
            return read(learner, data)
        except (BlocklearnError, OSError) as error:  # a file was damaged since the run
            missing.append(str(error))
            return None

    if isinstance(model, LDA | NMF):
        yield from topic_sections(learner, found(topic_evidence))
    if isinstance(model, NMF):
        H = model.parameters["H"].shown()
        lengths = np.sqrt(np.einsum("fk,fk->k", H, H, dtype=np.float64))
        yield spectrum_section(np.sort(lengths)[::-1], "lengths of the parts, the longest first")
    elif isinstance(model, FactorModel):
        yield from factor_sections(learner, found(rating_evidence))
    elif isinstance(model, GLM):
        yield from target_sections(learner, found(target_evidence))
    elif isinstance(model, KMeans | GaussianMixture):
        yield cluster_section(learner)
    elif isinstance(model, SVD):
        yield from direction_sections(learner)
    for reason in missing:
        yield section("Data", note=f"They cannot be read again: {message_text(reason)}")
