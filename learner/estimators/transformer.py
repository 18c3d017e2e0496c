"""What estimators share that turn each row, dense or sparse, into a few numbers."""

from __future__ import annotations

from typing import Any

from .scikit import ClassNamePrefixFeaturesOutMixin, TransformerMixin


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of estimators whose `transform` returns float32 [n x components]."""

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        """Declare dense or sparse input, and float32 output."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
