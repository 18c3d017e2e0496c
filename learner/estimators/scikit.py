"""Import what the estimators need of scikit-learn, with a clear message if it is missing."""

from collections.abc import Callable
from typing import Any

try:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import ClassNamePrefixFeaturesOutMixin as ClassNamePrefixFeaturesOutMixin
    from sklearn.base import ClusterMixin as ClusterMixin
    from sklearn.base import DensityMixin as DensityMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning
    from sklearn.exceptions import DataConversionWarning as DataConversionWarning
    from sklearn.exceptions import UndefinedMetricWarning as UndefinedMetricWarning
    from sklearn.utils import check_random_state as check_random_state
    from sklearn.utils.metaestimators import available_if as available_if
    from sklearn.utils.multiclass import (
        check_classification_targets as check_classification_targets,
    )
    from sklearn.utils.multiclass import type_of_target as type_of_target
    from sklearn.utils.validation import check_is_fitted as check_is_fitted
    from sklearn.utils.validation import column_or_1d as column_or_1d
    from sklearn.utils.validation import validate_data as validate_data
except ImportError as error:
    raise ImportError(
        "blocklearn's estimators need scikit-learn 1.6 or newer: pip install "
        f"'blocklearn[sklearn]'. ({error})"
    ) from error

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # before 1.9
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty stand-in: this scikit-learn has no callbacks."""

    def as_it_is(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method

    with_callbacks = as_it_is

CALLER = 3 if HAS_CALLBACKS else 2
"""Stack level of warnings in a method `with_callbacks`: that of the line which calls it."""


def has_callbacks(estimator: Any) -> bool:
    """Return whether callbacks are set: without them, no fit makes contexts for its passes."""
    return HAS_CALLBACKS and bool(getattr(estimator, "_skl_callbacks", ()))


def sparse_distances(X: Any, centres: Any, *, cosine: bool) -> Any:
    """Return the distances of sparse rows from centres [n x centres]: 1 - cosine, or Euclidean."""
    from sklearn.metrics import pairwise  # imports 48 modules, which other estimators do not need

    return (pairwise.cosine_distances if cosine else pairwise.euclidean_distances)(X, centres)
