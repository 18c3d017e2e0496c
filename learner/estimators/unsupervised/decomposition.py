"""The base class of estimators that describe rows by components: LDA and NMF."""

from __future__ import annotations

from typing import Any

from ...training.inputs.texts import refuse_texts
from ..base import Array, LearnerEstimator
from ..transformer import Transformer
from ..validation import validated


class Decomposition(Transformer, LearnerEstimator):
    """Estimator with `components_` [components x features] for non-negative data."""

    components_: Array

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Return X as scikit-learn validates it."""
        refuse_texts(X)
        return validated(
            self, X, accept_sparse="csr", dtype="numeric", ensure_non_negative=True, reset=reset
        )

    def __sklearn_tags__(self) -> Any:
        """Declare non-negative input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
